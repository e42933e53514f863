"""The page of ``lockstep explore`` in a browser: three widths, keys, sliders, play, size, no complaint."""

import json
import re
import time

import pytest
from browser import BROWSER, WIDTHS, cut, dom, look, overlaps, painted_ms
from fake_runs import TOOLS
from runs import needs_two

from harness import application, cli
from harness.predict import parameter_grid

pytestmark = [
    needs_two,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here"),
]

MOST_BYTES = 3_000_000
PAINT_MS = 1000
TRIES = 6

ACTS = """
<script>
{
const pause = (time) => new Promise((done) => setTimeout(done, time));
const texts = (query) => [...document.querySelectorAll(query)].map((one) => one.textContent);
let strokes = 0;
const stroke = CanvasRenderingContext2D.prototype.stroke;
CanvasRenderingContext2D.prototype.stroke = function() { strokes++; stroke.call(this); };
const found = {waits: []}, inputs = [...document.querySelectorAll("#sliders input")];
function press(key, on = document.body) {
  on.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
}
function keep(name) {
  const canvas = [...document.querySelectorAll("canvas")];
  found[name] = {time: texts("#time")[0], work: texts("#panels article p:not(.now)"), now: texts(".now"),
    wait: texts("#wait")[0], sliders: texts("#sliders output"), button: texts("[data-key=' ']")[0],
    arrows: strokes, drawn: canvas.map((one) => one.toDataURL().length).join(),
    label: canvas[0].getAttribute("aria-label")};
  strokes = 0;
}
function slide(n, to) {
  inputs[n].value = to;
  inputs[n].dispatchEvent(new Event("input"));
}
(async () => {
  keep("first");
  press("ArrowLeft"); keep("back"); press("ArrowRight"); keep("on");
  press("ArrowLeft", inputs[0]); keep("of slider");
  press("+"); keep("near"); press("-"); press("-"); keep("far"); press("0");
  slide(2, 1); keep("quantum"); slide(2, 0); slide(3, 0); keep("spin"); slide(3, 2);
  slide(0, 2); keep("grain"); slide(0, 0); slide(1, 2); keep("imbalance"); slide(1, 0);
  press("w"); keep("wait"); document.querySelector("[data-key='w']").click(); keep("next");
  press("s"); keep("runs"); press("s"); keep("runs not"); press("0");
  for (let n = 0; n < 30; n++) { strokes = 0; press("w"); found.waits.push([texts("#wait")[0], strokes]); }
  press("0");
  for (let n = 0; n < 30; n++) press("ArrowLeft");
  press(" "); keep("begun"); await pause(1500); keep("playing"); await pause(1500); keep("later");
  press(" "); keep("stopped"); await pause(500); keep("still");
  const result = document.createElement("p");
  result.textContent = `FOUND ${JSON.stringify(found)}`;
  document.body.append(result);
})();
}
</script>
"""

JUMPS = """
<script>
{
const times = [], time = document.getElementById("time");
const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
go(0);
new MutationObserver(() => times.push(time.textContent.split(" ms")[0])).observe(time, {childList: true});
press(" ");
setTimeout(() => document.body.append(Object.assign(document.createElement("p"),
  {textContent: `JUMPS ${times.join(" ")}`})), 1900);
}
</script>
"""


def written(folder, *words, factors=parameter_grid.FACTORS, imbalances=parameter_grid.IMBALANCES):
    """A page; few ``factors`` and ``imbalances`` make the grid behind its sliders small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameter_grid, "FACTORS", factors)
        patch.setattr(parameter_grid, "IMBALANCES", imbalances)
        assert cli.main(["explore", *words, "-o", str(folder / "page.html")]) == 0
    return (folder / "page.html").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("explore")


@pytest.fixture(scope="module")
def page(folder):
    return written(folder, "three-jobs", "--results", str(folder / "none"))


@pytest.fixture(scope="module")
def beside(folder):
    """The page of a store with made-up measured timelines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "real_tools", lambda *nodes, **also: TOOLS)
        schedulers = "schedulers=[{policy='none'},{policy='implicit'},{policy='gang',quantum_ms=20}]"
        words = ["three-jobs", "--timeline", "--no-simulate", "--quick", "--set", schedulers]
        assert cli.main(["run", *words, "--results", str(folder / "runs")]) == 0
    return written(folder, "--results", str(folder / "runs"), factors=(1, 4), imbalances=(0.25,))


def acted(folder, page):
    """What the page shows after each deed of ACTS."""
    file = folder / "acted.html"
    file.write_text(page.replace("</body>", f"{ACTS}</body>"))
    shown, log = dom(file)
    assert "CONSOLE" not in log
    (text,) = re.findall(r"<p>FOUND (.*?)</p>", shown)
    return json.loads(text)


@pytest.fixture(scope="module")
def found(page, folder):
    return acted(folder, page)


def test_the_page_is_whole_in_every_width_and_asks_nobody(beside, folder):
    looked = look({"beside": beside}, folder)
    for width in WIDTHS:
        sight = looked.sights["beside"][width]
        texts = " ".join(line.text for line in sight.lines)
        assert "none" in texts and "Useful work so far" in texts and "granularity" in texts
        assert "simulated: " in texts and "measured: " in texts
        assert not overlaps(sight.lines) and not cut(sight.lines, width), width
        assert sight.reaches <= width
    assert "CONSOLE" not in looked.log and looked.asked == set()


def now_ms(shown):
    return float(shown["time"].split(" ms")[0])


def view_ms(shown):
    begin, end = re.findall(r"([0-9.]+) ms", shown["time"])[1:]
    return float(end) - float(begin)


def work_ms(shown):
    return [float(re.search(r"so far: ([0-9.]+) ms", text)[1]) for text in shown["work"]]


def test_it_begins_with_everything_in_sight(found):
    assert found["first"]["time"] == "200.0 ms; from 0.0 ms to 200.0 ms"
    names = [text.split(".")[0] for text in found["first"]["work"]]
    assert names == ["simulated: none", "simulated: implicit global-adaptive", "simulated: gang 10 ms"]
    none, two_phase, gang = work_ms(found["first"])
    assert none < 0.5 * two_phase and none < 0.5 * gang < 200
    assert "processor 0: job" in found["first"]["now"][0]
    assert found["first"]["label"].startswith("simulated: none at 200.0 ms: processor 0: job")


def test_steps_go_back_and_on_but_not_while_a_slider_has_the_keys(found):
    assert 190 < now_ms(found["back"]) < 200 and work_ms(found["back"])[2] < work_ms(found["first"])[2]
    assert now_ms(found["on"]) > now_ms(found["back"])
    assert found["of slider"]["time"] == found["on"]["time"]


def test_zoom_keeps_the_present_in_sight(found):
    assert view_ms(found["near"]) == pytest.approx(100, abs=0.2)
    assert view_ms(found["far"]) == pytest.approx(200, abs=0.2)
    assert found["near"]["drawn"] != found["first"]["drawn"]


WAIT = re.compile(
    r"(?P<name>.*): job \d asks (?P<whom>all partners|itself|process \d) at (?P<asks>[\d.]+) ms "
    r"on processor \d; "
    r"it spins for (?P<spins>[\d.]+) us, for (?P<who>partners that run|a partner that is not running)"
    r"(?P<rest>.*); it goes on at (?P<goes>[\d.]+) ms\."
)
PARTNER = {
    "all partners": {"the last partner arrives"},
    "process": {"its partner can answer"},
    "itself": set(),
}


def told(text):
    """The parts of what the page says of a wait, and the times of what happens in it."""
    wait = WAIT.fullmatch(text)
    assert wait, text
    parts = re.findall(r"; ([a-z ]+) at ([\d.]+) ms(?: on processor \d)?", wait["rest"])
    whole = "".join(f"; {what} at {at} ms" for what, at in parts)
    assert whole == re.sub(" on processor .", "", wait["rest"])
    times = [float(wait["asks"]), *(float(at) for _, at in parts), float(wait["goes"])]
    assert times == sorted(times), text
    losses = [what for what, _ in parts if what in ("it blocks", "its time slice ends")]
    assert [what for what, _ in parts].count("it has its processor again") == len(losses)
    partner = PARTNER[wait["whom"].rstrip(" 0123456789")]
    assert {what for what, _ in parts} <= {*losses, "it has its processor again", *partner}
    return wait, {what: float(at) for what, at in parts}


def test_a_wait_is_told_in_order_of_time(found):
    for name in ("wait", "next", "runs", "runs not"):
        told(found[name]["wait"])
        assert view_ms(found[name]) < 200
    first, second = (float(told(found[name]["wait"])[0]["asks"]) for name in ("wait", "next"))
    assert second > first


def test_the_situations_of_dusseau_figure_7(found):
    (runs, when), (runs_not, then) = (told(found[name]["wait"]) for name in ("runs", "runs not"))
    assert runs["name"] == runs_not["name"] == "simulated: implicit global-adaptive"
    assert runs["who"] == "partners that run" and {*when} == {"the last partner arrives"}
    assert runs_not["who"] == "a partner that is not running"
    order = ["it blocks", "the last partner arrives", "it has its processor again"]
    assert list(then) == order and found["runs"]["arrows"] == found["runs not"]["arrows"] == 2
    assert float(runs["spins"]) < float(runs_not["spins"])


def test_reads_have_their_request_and_their_answer(folder):
    """The first waits of all three schedulers: barriers and reads, with an arrow each way."""
    set_it = ("--set", "program.pattern=NEWS")
    words = "three-jobs", "--results", str(folder / "none"), *set_it
    state = acted(folder, written(folder, *words, factors=(1,), imbalances=(0.25,)))
    waits = [(*told(text), arrows) for text, arrows in state["waits"]]
    reads = [(when, arrows) for wait, when, arrows in waits if wait["whom"].startswith("process")]
    assert 0 < len(reads) < len(waits)
    assert all("its partner can answer" in when and arrows == 2 for when, arrows in reads)
    assert {arrows for wait, _, arrows in waits if wait["whom"] == "itself"} == {0}, "nobody else has a part"


def test_each_slider_changes_what_it_concerns(found):
    first = found["far"]["work"]
    assert [one == other for one, other in zip(first, found["quantum"]["work"], strict=True)] == [1, 1, 0]
    assert [one == other for one, other in zip(first, found["spin"]["work"], strict=True)] == [1, 0, 1]
    assert "implicit immediate" in found["spin"]["work"][1] and "100 ms" in found["quantum"]["work"][2]
    for name, values in (("grain", "2 ms"), ("imbalance", "1.75 g")):
        assert values in found[name]["sliders"]
        assert not {*found[name]["work"]} & {*first}


def test_play_counts_the_work_up_and_stops(found):
    playing, later, stopped, still = (found[name] for name in ("playing", "later", "stopped", "still"))
    assert 0 < now_ms(found["begun"]) < now_ms(playing) < now_ms(later) < 200
    assert all(one < other for one, other in zip(work_ms(playing)[1:], work_ms(later)[1:], strict=True))
    assert [one["button"] for one in (playing, later, stopped, still)] == ["Stop", "Stop", "Play", "Play"]
    assert stopped["time"] == still["time"]


def test_where_motion_is_to_be_reduced_play_goes_on_in_twenty_jumps(folder, page):
    (folder / "still.html").write_text(page.replace("</body>", f"{JUMPS}</body>"))
    shown, log = dom(folder / "still.html", "--force-prefers-reduced-motion")
    assert "CONSOLE" not in log
    assert re.findall(r"<p>JUMPS (.*?)</p>", shown) == ["10.0 20.0 30.0 40.0"]


def test_measured_lanes_stand_below_simulated_ones_at_the_measured_point(folder, beside):
    state = acted(folder, beside)
    assert len(state["first"]["work"]) == 6 and "measured: gang 20 ms" in state["quantum"]["work"][5]
    assert [text.split(":")[0] for text in state["first"]["work"]] == ["simulated", "measured"] * 3
    assert len(state["grain"]["work"]) == 3, "nobody measured this granularity"


def test_the_page_is_small_and_quick_and_without_addresses(page, folder):
    assert len(page.encode()) <= MOST_BYTES and "http" not in page
    tries = (painted_ms(page, folder) for _ in range(TRIES))  # other load may make some of them slow
    assert next((took_ms for took_ms in tries if took_ms <= PAINT_MS), None)


def test_many_processes_get_a_shorter_window_and_no_larger_page(folder):
    begin = time.monotonic()
    jobs = "jobs=[{count=3,program={pattern='TRANSPOSE',processes=16,granularity_us=200,dedicated_s=1.0}}]"
    page = written(
        folder, "three-jobs", "--results", str(folder / "none"), "--set", jobs, "--set", "processors=16"
    )
    assert time.monotonic() - begin < 60
    assert len(page.encode()) <= MOST_BYTES
    assert json.loads(re.search(r'"window": (\d+)', page)[1]) < 200_000_000
    assert re.search(r"The first [\d.]{2,4} ms of 3 jobs on 16 processors", page)
