"""What charts show: both sides where they belong, whole axes, and marks that have room."""

from dataclasses import replace
from itertools import combinations

import fake_records
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from runs import needs_two

from harness.analyse import job_tables, results_document
from harness.analyse.summary import TAU_S
from harness.analyse.timelines import Lanes, Span
from harness.predict.job_level import SimulatedByJob
from harness.report import charts, page, perfetto, schedules, traces
from harness.report.grid import panels, time_name
from harness.report.style import LIGHT, drawn
from harness.spec import experiment
from harness.store.rebuild import experiment_of

WIDTH = 800
MS = 1_000_000


@pytest.fixture(scope="module")
def records():
    """Two measured and two simulated runs that nobody has made."""
    job = {"program": {"pattern": "BARRIER", "processes": 2, "dedicated_s": 0.5}}
    under = {"policy": "gang", "quantum_ms": 10}
    table = {"name": "x", "processors": 2, "repeats": 2, "jobs": [job], "schedulers": [under]}
    return fake_records.records(experiment.load(table))


@pytest.fixture(scope="module")
def rows(records):
    return results_document.results(experiment_of(records), records, TAU_S).rows


def bars(axes):
    """The corners of each bar, as left, bottom, right and top, by its colour."""
    return [
        (to_hex(one.get_facecolor()[0]), *path.get_extents().extents)
        for one in axes.collections
        for path in one.get_paths()
    ]


@needs_two
def test_slowdowns_are_named_and_a_simulated_mark_lies_over_a_measured_one(rows):
    (axes,) = charts.slowdowns(rows, WIDTH).axes
    over = {line.get_marker(): line.get_zorder() for line in axes.lines}
    assert over["D"] > over["o"]
    assert axes.get_xlabel() == "workload slowdown"


@needs_two
def test_measured_and_simulated_shares_of_a_row_are_below_each_other(rows):
    (axes,) = charts.breakdowns(rows, WIDTH).axes
    shown = bars(axes)
    assert len(shown) == 6
    for (_, *one), (_, *other) in combinations(shown, 2):
        apart_s = max(one[0], other[0]) >= min(one[2], other[2]) - 1e-9
        assert apart_s or max(one[1], other[1]) >= min(one[3], other[3])


@needs_two
def test_of_commands_the_chart_shows_what_runs_and_others_used():
    command = {"command": ["mpiexec", "-n", "2", "./solver"]}
    schedulers = [{"policy": "none"}]
    table = {"name": "x", "processors": 2, "repeats": 2, "jobs": [command], "schedulers": schedulers}
    known = [
        replace(one, conditions=replace(one.conditions, busy=0.75, others=0.25))
        for one in fake_records.records(experiment.load(table))
    ]
    content = page.Content(results_document.results(experiment_of(known), known, TAU_S), known)
    (axes,) = {one.name: one for one in content.pictures()}["usage"].draw(WIDTH).axes
    shares = {colour: right - left for colour, left, _, right, _ in bars(axes)}
    assert shares == {LIGHT["computing"]: 0.5, LIGHT["idle"]: 0.25, LIGHT["others"]: 0.25}


@needs_two
def test_waits_that_spun_and_that_blocked_have_bars_of_their_own(records):
    (axes,) = traces.waits({"gang": records}, WIDTH).axes
    shares = {}
    for colour, _, bottom, _, top in bars(axes):
        shares[colour] = shares.get(colour, 0) + top - bottom
    # Ten of the 15 waits of each kind of every rank ended while it spun.
    assert shares == pytest.approx({LIGHT["synchronizing"]: 2 / 3, LIGHT["computing"]: 1 / 3})


@pytest.mark.parametrize("jobs", [3, 30, 300])
def test_an_axis_of_times_has_several_round_names(jobs, tmp_path):
    fake_records.write_trace(tmp_path / "log.swf", jobs=jobs)
    table = {"level": "jobs", "name": "log", "schedulers": [{"policy": "fcfs"}]}
    back_end = SimulatedByJob.of(experiment.load(table, log=str(tmp_path / "log.swf")))
    found = fake_records.runs_of_jobs(back_end)
    timed = job_tables.timed(results_document.results(experiment_of(found), found).rows)
    (axes,) = schedules.utilisation(timed, WIDTH).axes
    ticks = axes.get_xticks()
    end_s = axes.get_xlim()[1]
    assert len(ticks) >= 3
    assert ticks[0] == 0 and ticks[-1] >= end_s / 2
    names = [axes.xaxis.get_major_formatter()(tick) for tick in ticks]
    assert len({name.split()[1] for name in names}) == 1


@pytest.mark.parametrize(
    "nanoseconds, name",
    [
        (3, "3 ns"),
        (960, "0.96 us"),
        (1500, "1.5 us"),
        (99_400, "99 us"),
        (250_000, "250 us"),
        (1_000_000, "1 ms"),
        (1_500_000, "1.5 ms"),
        (2_400_000_000, "2.4 s"),
    ],
)
def test_a_time_has_the_unit_in_which_it_is_short(nanoseconds, name):
    assert time_name(nanoseconds) == name


@pytest.mark.parametrize("labels", [["spun", "blocked"], [f"job {n}: a long name of {n}" for n in range(9)]])
@pytest.mark.parametrize("width", [360, 1000])
def test_the_key_is_over_the_panels_and_not_wider_than_the_picture(labels, width):
    def draw():
        marks = [Line2D([], [], marker="o", label=f"{label}, {'long ' * 9}") for label in labels]
        made = panels(width, ["a title"], lines=["none"], line=25, marks=marks)
        FigureCanvasAgg(made.figure).draw()
        return made

    drawing = drawn(draw)
    (key,) = drawing.figure.legends
    box, (axes,) = key.get_window_extent(), drawing.axes
    assert box.x1 <= drawing.figure.bbox.x1
    assert box.y0 >= axes.get_window_extent().y1


def test_a_window_of_a_trace_has_both_ends_of_a_message_or_none():
    def message(number, sent_us, received_us):
        ends = {"s": sent_us, "f": received_us}
        return [{"ph": phase, "pid": 1, "id": number, "ts": at} for phase, at in ends.items()]

    inside, begins, ends = message("a", 15, 17), message("b", 15, 25), message("c", 5, 15)
    assert perfetto.windowed([*inside, *begins, *ends], 10, 20) == inside


def test_a_gantt_chart_has_all_processors_of_both_sides_from_the_first_span_of_each_side_on():
    def lane(*rows):
        return [Span(0, job, 0, "computing", begin_ms * MS, end_ms * MS) for job, begin_ms, end_ms in rows]

    measured = {1: lane((0, 105, 115), (1, 115, 125)), 0: lane((1, 107, 121)), 2: []}
    run = Lanes(
        "gang", {"measured": measured, "simulated": {0: lane((0, 3, 13), (1, 13, 22))}, "planned": {3: []}}
    )
    figure = traces.gantt([run], WIDTH, ["BARRIER"])
    (axes,) = figure.axes
    names = ["measured, cpu 0", "measured, cpu 1", "measured, cpu 2", "simulated, cpu 0", "planned, cpu 3"]
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    colours = {LIGHT[f"job{job}"]: job for job in range(2)}
    shown = {
        (colours[colour], (bottom + top) / 2, left, right) for colour, left, bottom, right, top in bars(axes)
    }
    assert shown == {(1, 0, 2, 16), (0, 1, 0, 10), (1, 1, 10, 20), (0, 3, 0, 10), (1, 3, 10, 19)}
    assert axes.get_xlim() == (0, 20), "a round number of at most the last end of any lane"
    assert traces.gantt([], WIDTH) is None
