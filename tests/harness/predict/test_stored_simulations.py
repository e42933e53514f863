"""``simulate -o DIR``: simulations are stored like runs, and read like runs, without MPI."""

import json
from dataclasses import replace

import pytest

from harness.analyse import results_document, stored_runs
from harness.cli import main
from harness.measure.session import Silent
from harness.report import tables
from harness.store.database import Store
from harness.store.records import SIMULATED

pytestmark = pytest.mark.slow  # compiles the simulator where that has not been done

SIMULATE = ["simulate", "three-jobs", "--quick", "--set", "program.dedicated_s=0.3"]
SCHEDULERS = "schedulers=[{policy='none'},{policy='gang',quantum_ms=10}]"
SWEEP = ["--set", SCHEDULERS, "--set", "sweep.machine.context_switch_us=[5,500]"]


def records(folder):
    """All runs of a store, with their timelines and without what differs between two equal ones."""
    with Store(folder, existing=True) as store:
        found = [(store.run(number), store.timelines(number)) for number in store.numbers()]
    gone = {"session": "", "recorded_at": "", "wall_s": 0.0}
    return [
        (replace(run, **gone, conditions=replace(run.conditions, argv=())), lines) for run, lines in found
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A place with two equal stores: two schedulers on two simulated machines."""
    place = tmp_path_factory.mktemp("simulated")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/nowhere")  # no mpiexec
        for name in ("one", "two"):
            words = [*SIMULATE, *SWEEP, "--timeline", "--results", str(place), "-o", str(place / name)]
            assert main(words) == 0
    return place


def test_the_same_seed_stores_the_same_runs_in_the_same_order(folder):
    first = records(folder / "one")
    second = records(folder / "two")
    assert first == second and len(first) == 3 * 2 * (2 + 1)
    run, lines = next((run, lines) for run, lines in first if run.kind == "simulated")
    assert run.launcher == "simulator" and run.conditions.processors == [0, 1]
    assert sorted(lines) == [(job, rank) for job in range(3) for rank in range(2)]


def test_what_an_interrupted_simulation_lacks_is_not_taken_for_measured(folder):
    (whole,) = stored_runs.read(folder / "one", None, Silent())
    lacking = whole.experiment.schedulers[-1].table
    part = [one for one in whole.records if one.kind != SIMULATED or one.scheduler != lacking]
    found = results_document.results(whole.experiment, part)
    assert [list(row.sides) for row in found.rows] == 2 * [["simulated"], []]
    headings = [tables.comma_separated(one).splitlines()[0] for one in (whole.results, found)]
    assert headings[0] == headings[1]


def test_the_text_of_a_report_on_simulations_alone_has_the_tables_of_simulate(folder, capsys):
    assert main([*SIMULATE, *SWEEP, "--results", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert main(["report", str(folder / "one"), "--format", "text"]) == 0
    assert capsys.readouterr().out == shown and "simulated: " in shown


@pytest.mark.usefixtures("drawn")
def test_a_report_has_the_figures_of_simulate_for_every_simulated_machine(folder, capsys):
    assert main([*SIMULATE, *SWEEP, "--results", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["rows"]
    for kind in ("csv", "html"):
        assert main(["report", str(folder / "one"), "-o", str(folder / f"report.{kind}")]) == 0
    heading, *lines = [line.split(",") for line in (folder / "report.csv").read_text().splitlines()]
    told = [row["simulated"]["workload_slowdown"]["median"] for row in shown]
    assert [float(line[heading.index("simulated") - len(heading)]) for line in lines] == told
    assert len(set(told)) == 4 and "measured" not in heading
    page = (folder / "report.html").read_text()
    assert all(f"<td>{value:.3f}</td>" in page for value in told)
    assert "no run succeeded" not in page and "18</strong> <span>simulated runs" in page


def test_compare_tells_that_equal_stores_do_not_differ_and_other_machines_do(folder, capsys):
    assert main(["compare", str(folder / "one"), str(folder / "two"), "--json"]) == 0
    (experiment,) = json.loads(capsys.readouterr().out)["experiments"]
    assert not experiment["differences"]
    assert [(row["ratio"], row["n_before"]) for row in experiment["rows"]] == [(1.0, 3)] * 4
    between = ["compare", str(folder / "one"), "--between", "none", "gang 10 ms", "--json"]
    main(between)
    (experiment,) = json.loads(capsys.readouterr().out)["experiments"]
    assert experiment["rows"][0]["verdict"] == "better" and len(experiment["rows"]) == 2


def test_a_trace_has_the_lanes_of_a_simulated_run(folder, capsys):
    file = folder / "trace.json"
    assert main(["trace", str(folder / "one"), "-o", str(file), "--json"]) == 0
    number = json.loads(capsys.readouterr().out)["run"]
    with Store(folder / "one", existing=True) as store:
        assert store.run(number).kind == "simulated"
    events = json.loads(file.read_text())["traceEvents"]
    lanes = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"processor 0", "processor 1", "job 2, rank 1"} <= lanes
    assert {event["name"] for event in events if event["ph"] == "X"} >= {"computing", "job 0"}


def test_a_timeline_without_a_store_is_refused(capsys):
    assert main([*SIMULATE, "--timeline"]) == 2
    assert "add -o DIR" in capsys.readouterr().err
