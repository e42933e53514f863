"""Reports in a browser: built-in experiments, commands, a page with faults; telephone, window and paper."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import fake_records
import pytest
from browser import BROWSER, WIDTHS, cut, look, overlaps
from runs import needs_two

from harness.spec import experiment, experiment_source

needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
pytestmark = [needs_two, pytest.mark.slow, needs_browser]
UNLIKE = ("validation", "workstations", "critical-sections", "log", "fragmentation", "commands")
"""Experiments whose pages differ in their sections, and in how many rows and words they have."""

OTHERS = sorted({*experiment_source.built_in()} - {*UNLIKE})

COMMANDS = {
    "name": "commands",
    "processors": 2,
    "repeats": 2,
    "jobs": [
        {"command": ["mpiexec.own", "-n", "2", "./a-solver-with-a-long-name", "--grid", "1024x1024", word]}
        for word in ("--tolerance=1e-9", "--tolerance=1e-12")
    ],
    "schedulers": [
        {"policy": "none"},
        {"policy": "implicit"},
        {"policy": "gang", "quantum_ms": 10},
        {"policy": "multilevel-two-queue", "quanta_ms": [20, 60, 100]},
    ],
}

FAULTY = """
<img src="http://lockstep.example/x.png"><script>console.error("a fault")</script>
<p style="position: absolute; left: -9px; top: 0">cut</p>
<p style="position: absolute; left: 40px; top: 0">a b</p>
<p style="position: absolute; left: 40px; top: 8px">c d</p>
<section style="margin-top: 99px"><h2>nothing</h2><p>but words</p></section>
<section><h2>no rows</h2><table><thead><tr><th>head</th></tr></thead><tbody></tbody></table></section>
<section><h2>no marks</h2><svg height="9">
<g id="x-axes_1"><g id="x-matplotlib.axis_1"><path style="fill: var(--measured)"/></g>
<path style="fill: var(--grid)"/></g>
<g id="x-axes_2"><path style="fill: var(--measured)"/></g></svg></section>
"""


def page(name, log):
    if name == "commands":
        return fake_records.report(experiment.load(COMMANDS))
    wanted = experiment.load(name, quick=True, log=str(log) if name == "log" else None)
    return fake_records.job_report(wanted) if wanted.by_job else fake_records.report(wanted)


@pytest.fixture(scope="module", params=[UNLIKE, pytest.param(OTHERS, marks=pytest.mark.soak)], ids=len)
def looked(request, tmp_path_factory):
    """What a browser makes of the pages of some experiments, and of one with faults."""
    folder = tmp_path_factory.mktemp("pages")
    fake_records.write_trace(folder / "log.swf", jobs=40)
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        pages = pool.map(partial(page, log=folder / "log.swf"), request.param)
        return look(dict(zip(request.param, pages, strict=True)) | {"faulty": FAULTY}, folder)


def test_no_text_overlaps_or_is_cut_and_nothing_is_empty_but_on_a_page_with_such_faults(looked):
    for name, by_width in looked.sights.items():
        for width, sight in by_width.items():
            if name == "faulty":
                assert overlaps(sight.lines) == [("a b", "c d")] and cut(sight.lines, width) == ["cut"]
                assert sight.empty == ["nothing", "no rows", "no rows: table", "no marks: x-axes_1"]
                continue
            assert len(sight.lines) > 60, "all texts are looked at"
            problems = overlaps(sight.lines), cut(sight.lines, width), sight.empty
            assert not any(problems), f"{name} in {width}: {problems}"


def test_only_the_page_with_faults_complains_and_asks_the_network(looked):
    assert looked.log.count("CONSOLE") == looked.log.count('"a fault"') == len(WIDTHS)
    assert looked.asked == {"http://lockstep.example/x.png"}


def test_a_page_of_commands_names_their_launcher(looked):
    for by_width in (one for name, one in looked.sights.items() if name == "commands"):
        (line,) = {line.text for line in by_width[1300].lines if "commands start" in line.text}
        assert line.endswith("; commands start with mpiexec.own")
