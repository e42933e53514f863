"""The report and the trace, of made-up runs."""

import csv
import io
import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from fake_runs import TOOLS, ImitatedSimulator
from matplotlib.text import Text
from runs import needs_two

from harness import application, cli
from harness.analyse import results_document
from harness.predict import missing
from harness.report import charts
from harness.store import conditions
from harness.store.database import Store
from harness.store.rebuild import experiment_of

pytestmark = [needs_two, pytest.mark.slow]

VOID = {"meta", "link", "br", "img", "input", "hr"}
SETTINGS = (
    *("repeats=2", "sweep.program.granularity_us=[100,1000]", "sweep.program.imbalance=[0.25,1]"),
    "schedulers=[{policy='none'},{policy='implicit'},{policy='gang',quantum_ms=10}]",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A directory with a store: a sweep over granularity and imbalance, with timelines."""
    place = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "real_tools", lambda *nodes, **also: TOOLS)
        patch.setattr(missing, "back_end", ImitatedSimulator)
        options = [part for setting in SETTINGS for part in ("--set", setting)]
        results = str(place / "results")
        assert cli.main(["run", "three-jobs", "--timeline", "--results", results, *options]) == 0
    return place


@pytest.fixture(scope="module")
def page(folder):
    assert cli.main(["report", str(folder / "results"), "-o", str(folder / "report.html")]) == 0
    return (folder / "report.html").read_text()


def outline(page):
    """The headings and ids of a page, all of whose tags are closed."""
    tags = re.findall(r"<(/?)([a-zA-Z][\w:]*)[^<>]*?(/?)>", page)
    opened = Counter(tag for begins, tag, ends in tags if not begins and not ends and tag not in VOID)
    assert opened == Counter(tag for begins, tag, _ in tags if begins)
    return re.findall(r"<h2[^>]*>(.*?)</h2>", page), re.findall(r'\sid="(.*?)"', page)


def test_the_page_is_whole_and_needs_nothing_else(page):
    _, ids = outline(page)
    assert len(set(ids)) == len(ids) > 9
    links = re.findall(r'\s(?:href|src|xlink:href)="(.*?)"', page)
    assert links and all(link.startswith(("#", "data:")) for link in links)
    assert "<script" not in page
    assert not re.search(r"url\((?!#)", page) and "@import" not in page
    assert "prefers-color-scheme: dark" in page


def test_the_page_shows_everything_that_there_is(page):
    headings, _ = outline(page)
    assert {"Slowdown of each policy", "Where the time went", "Over granularity and imbalance"} <= {*headings}
    assert {"Simulated against measured", "Who ran where", "How long waits took"} <= {*headings}
    assert "How late slots began" in headings and "What this page cannot show" not in headings
    assert page.count("<svg") == 2 * 7
    pictures = page[page.index("<figure>") :]
    assert "var(--measured)" in pictures and ">implicit global-adaptive</text>" in pictures


def test_maps_of_simulations_alone_have_the_names_of_schedulers(folder):
    with Store(folder / "results", existing=True) as store:
        records = store.runs(store.experiments()[0][0])
    rows = results_document.results(experiment_of(records), records).rows
    figure = charts.maps([replace(row, measured=None) for row in rows], 600)
    words = {text.get_text() for text in figure.findobj(Text)}
    assert {row.name for row in rows} <= words and "simulated" not in words


def test_every_row_is_in_the_table_of_each_format(folder, page):
    rows = list(csv.DictReader(io.StringIO(made(folder, "csv").decode())))
    assert len(rows) == 4 * 3
    assert all(float(row["error"]) == pytest.approx(-0.03, abs=0.001) for row in rows)
    assert page.count('<td class="text why">') == 12
    assert made(folder, "md").decode().count("\n| ") == 13


def test_pictures_stand_alone(folder):
    assert made(folder, "png").startswith(b"\x89PNG")
    drawn = made(folder, "svg", "--picture", "breakdowns")
    assert b"var(--" not in drawn
    assert re.search(rb'"patch_1">\s*<path [^>]*style="fill: #[0-9a-f]{6}', drawn), (
        "dark letters need a light ground"
    )
    assert drawn == made(folder, "svg", "--picture", "breakdowns")


def test_the_terminal_has_a_strip_with_a_dot_for_each_repeat(folder, capsys):
    assert cli.main(["report", str(folder / "results"), "--format", "text"]) == 0
    output = capsys.readouterr().out
    strips = re.findall(r"^ (.*?) +\|(.*)\|\s*$", output, flags=re.MULTILINE)
    assert [name for name, _ in strips] == ["none", "implicit global-adaptive", "gang 10 ms"] * 4
    assert {sum(" .:*".index(dot) for dot in strip) for _, strip in strips} == {2}
    places = [strip.rstrip().rfind(strip.strip()[-1]) for _, strip in strips[:3]]
    assert places[0] == 39 and places[0] > places[1] > places[2] == 0, "of none, the greatest slowdown"
    assert "error  " in output and not (folder / "report.text").exists()


def made(folder, kind, *more):
    file = folder / f"made.{kind}"
    assert cli.main(["report", str(folder / "results"), "-o", str(file), *more]) == 0
    return file.read_bytes()


@pytest.mark.parametrize(
    "arguments, word",
    [
        (["--format", "pdf"], "html"),
        (["--experiment", "another"], "three-jobs"),
        (["--format", "svg", "--picture", "another"], "slowdowns"),
        (["-o", "/nowhere/report.csv"], "cannot be written"),
        (["-o", "x.txt", "--format", "text"], "leave out -o"),
    ],
)
def test_bad_input_is_told(folder, capsys, arguments, word):
    assert cli.main(["report", str(folder / "results"), *arguments]) == 2
    assert word in capsys.readouterr().err


NASTY = """<script>alert(1)</script> $\\frac{$ 'x"; DROP TABLE runs;-- {{ 7 * 7 }} [red]a[/blue] & ]]> | `"""

NASTY_FILE = f"""
name = {json.dumps(NASTY)}
processors = 2
repeats = 2

[[jobs]]
command = ["{{launcher}}", "-n", "2", "true", {json.dumps(NASTY)}]
count = 2

[[schedulers]]
policy = "none"
"""


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """A directory with a store of an experiment whose name and command mean something elsewhere."""
    place = tmp_path_factory.mktemp("nasty")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "real_tools", lambda *nodes, **also: TOOLS)
        known = conditions.of_run
        patch.setattr(conditions, "of_run", lambda *moments: replace(known(*moments), busy=0.6))
        (place / "x.toml").write_text(NASTY_FILE)
        assert cli.main(["run", str(place / "x.toml"), "--results", str(place)]) == 0
    return place


def test_names_are_text_in_the_page_and_its_pictures(nasty):
    file = nasty / "report.html"
    assert cli.main(["report", str(nasty), "--experiment", NASTY, "-o", str(file)]) == 0
    page = file.read_text()
    assert outline(page) and "<script" not in page and "49" not in page.partition("</h1>")[0]
    for kind in ("svg", "png"):
        assert cli.main(["report", str(nasty), "-o", str(nasty / f"report.{kind}")]) == 0
    assert "&lt;script&gt;alert(1)" in (nasty / "report.svg").read_text()
    assert "$\\frac{$" in (nasty / "report.svg").read_text()


def test_a_page_of_commands_has_no_empty_chart_or_table_and_says_why(nasty):
    file = nasty / "commands.html"
    assert cli.main(["report", str(nasty), "-o", str(file)]) == 0
    page = file.read_text()
    headings, _ = outline(page)
    assert "Where the time went" not in headings and "Breakdown of the CPU time" not in headings
    assert {"How busy the processors were", "What the ranks did", "States of the ranks"} <= set(headings)
    assert "slows them down, measured.</p>" in page and "not comparable" not in page
    assert "<th>makespan</th><th>one after the other</th>" in page and "in waits of MPI" not in page
    assert "Where the time went: commands record no activities." in page
    assert "Simulated against measured: commands without recordings are not simulated." in page
    assert "Who ran where: no run has a timeline" in page


def test_names_are_text_in_tables_and_on_the_terminal(nasty, capsys):
    for kind in ("md", "csv"):
        assert cli.main(["report", str(nasty), "-o", str(nasty / f"report.{kind}")]) == 0
    text = (nasty / "report.md").read_text()
    assert "<script>" not in text.replace("\\<", "") and "# \\<script>" in text
    (row,) = csv.DictReader(io.StringIO((nasty / "report.csv").read_text()))
    assert NASTY in row["program"]
    capsys.readouterr()
    assert cli.main(["compare", str(nasty)]) == 0
    assert "[red]a[/blue]" in capsys.readouterr().out


@pytest.fixture(scope="module")
def events(folder):
    assert cli.main(["trace", str(folder / "results"), "-o", str(folder / "trace.json")]) == 0
    return json.loads((folder / "trace.json").read_text())["traceEvents"]


def test_a_trace_holds_both_sides_and_follows_the_format(events):
    assert {event["pid"] for event in events} == {1, 2}
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    threads = defaultdict(list)
    for event in events:
        assert event["ph"] in "MXsf"
        thread = event["pid"], event["tid"]
        assert event["ph"] == "M" or (event["ts"] >= 0 and thread in named)
        if event["ph"] == "X":
            assert event["dur"] > 0
            threads[thread].append((event["ts"], event["ts"] + event["dur"]))
    for slices in threads.values():
        assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(sorted(slices)))
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert begins.keys() == ends.keys() and len(begins) == 30
    assert all(begins[key]["ts"] <= ends[key]["ts"] and ends[key]["bp"] == "e" for key in begins)


def test_a_window_of_a_trace_holds_what_happened_in_it(folder, capsys):
    file = folder / "window.json"
    command = ["trace", str(folder / "results"), "-o", str(file), "--window"]
    assert cli.main([*command, "0.004", "0.010"]) == 0
    events = json.loads(file.read_text())["traceEvents"]
    times = [(e["ts"], e["ts"] + e.get("dur", 0)) for e in events if e["ph"] != "M"]
    assert times and all(4000 <= begin <= end <= 10_000 for begin, end in times)
    assert cli.main([*command, "2", "1"]) == 2
    assert "the second one later" in capsys.readouterr().err


def test_a_run_without_a_timeline_is_refused_with_those_that_have_one(folder, capsys):
    assert cli.main(["trace", str(folder / "results"), "--run", "9999"]) == 2
    assert "numbers 1 to" in capsys.readouterr().err
