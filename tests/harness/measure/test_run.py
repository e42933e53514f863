"""Running an experiment on made-up runs: order, records, failures, resuming, rows."""

import dataclasses

import pytest
from fake_runs import TOOLS, Quiet, failing, imitate, measure, probe

from coordinator.workload import Node
from harness.analyse import summary
from harness.analyse.columns import needed
from harness.analyse.result_warnings import warnings_of
from harness.analyse.rows import COLUMNS
from harness.analyse.statistics import estimate
from harness.measure import calibrate, runner
from harness.measure.plan import plan, recorded
from harness.measure.session import MeasurementSession, Tools
from harness.spec.experiment import load
from harness.store import conditions, database
from harness.store.database import Store


@pytest.fixture
def place(tmp_path):
    with Store(tmp_path) as opened:
        yield MeasurementSession.begin((0, 1), TOOLS, opened)


@pytest.fixture
def tools(place):
    return lambda tools: dataclasses.replace(place, tools=tools)


def test_every_cell_repeat_and_scheduler_is_planned_once_with_its_dedicated_run():
    experiment = load("reads", settings=["repeats=2"])
    tasks = plan(experiment)
    assert len({task.key for task in tasks}) == len(tasks) == 2 * 2 * (9 + 1)
    assert [task.repeat for task in tasks] == [0] * 20 + [1] * 20
    assert sum(task.kind == "dedicated" for task in tasks) == 4


def test_the_order_is_shuffled_anew_in_each_repeat_and_fixed_by_the_seed():
    def order(**options):
        tasks = plan(load("three-jobs", **options))
        return [[task.key[3] for task in tasks if task.repeat == repeat] for repeat in range(5)]

    assert order() == order()
    assert order() != order(seed=2)
    assert len({tuple(one) for one in order()}) > 1


def test_leases_are_longer_where_other_programs_wait_for_processors(tools, monkeypatch):
    seen = []

    def spy(workload, progress, history=None):
        seen.append(workload.lease_s)
        return imitate(workload)

    one = load("three-jobs", settings=["repeats=1", "schedulers=[{policy='none'}]"])
    for others in (0, 1 << 20):
        monkeypatch.setattr(conditions, "wanting", lambda others=others: others)
        measure(one, tools(Tools("mpich", probe, spy)))
    assert seen == [2.0, 2.0, 10.0, 10.0]


def test_no_run_is_given_up_before_it_may_have_taken_many_times_its_programs_alone(tools):
    seen = []

    def spy(workload, progress, history=None):
        seen.append((workload.timeout_s, sum(job.program.alone_s for job in workload.jobs)))
        return imitate(workload)

    measure(load("three-jobs", settings=["repeats=1"]), tools(Tools("mpich", probe, spy)))
    assert len(seen) == 9
    assert all(timeout_s > 60 + 20 * alone_s for timeout_s, alone_s in seen)


def test_compute_times_follow_seed_and_repeat(tools):
    seen = []

    def spy(workload, progress, history=None):
        seen.append((workload.seed, workload.repeat, workload.context_switch_us, workload.processors))
        return imitate(workload)

    measure(load("three-jobs", settings=["repeats=2"], seed=7), tools(Tools("mpich", probe, spy)))
    assert set(seen) == {(7, 0, 5.0, (0, 1)), (7, 1, 5.0, (0, 1))}


def test_rows_tell_slowdowns_against_the_same_repeat(place):
    experiment = load("three-jobs", settings=["repeats=5"])
    records = measure(experiment, place)
    rows = summary.rows(experiment, records)
    none, *_, gang, _, partitioned = rows
    found = none.measured
    assert found.workload_slowdown.median == pytest.approx(2.8, rel=1e-6)
    assert found.workload_slowdown.n == 5
    low, high = found.workload_slowdown.ci95
    assert low <= found.workload_slowdown.median <= high
    assert found.slowdown.mean == found.slowdown.max == pytest.approx(3 * 2.8, rel=1e-6)
    assert sum(vars(found.breakdown).values()) == 1
    assert found.switches is None
    assert gang.measured.switches.n == 100
    assert gang.measured.switches.switch_delay_us.p50 == pytest.approx(50, abs=0.1)
    assert partitioned.scheduler["allocation"] == "equipartition"
    assert all(row.simulated is row.error is None for row in rows)
    assert summary.rows(experiment, place.store.runs(experiment.digest)) == rows


def test_a_series_reads_each_of_its_runs_once_for_estimates(place, monkeypatch):
    read = []

    run_record = database.run_record
    monkeypatch.setattr(database, "run_record", lambda *what: read.append(what) or run_record(*what))
    records = measure(load("three-jobs", settings=["repeats=3"]), place)
    assert len(records) == 27 and len(read) <= 27


def test_a_failure_becomes_a_record_and_the_rest_goes_on(place, tools):
    experiment = load("three-jobs", settings=["repeats=2"])
    watcher = Quiet()
    one = failing(lambda workload: workload.options.waiting == "fixed" and workload.repeat == 1)
    records = measure(experiment, tools(one), watcher=watcher)
    assert len(records) == len(place.store.runs(experiment.digest)) == 18
    (failed,) = [record for record in records if record.failure]
    assert failed.makespan_ns is None
    fixed = summary.rows(experiment, records)[2].measured
    assert (fixed.workload_slowdown.n, fixed.failures) == (1, 1)
    assert any("implicit fixed" in warning and "rank 1 has gone" in warning for warning in watcher.warnings)


def test_a_missing_dedicated_time_leaves_the_repeat_out(tools):
    experiment = load("three-jobs", settings=["repeats=2"])
    one = failing(lambda workload: len(workload.jobs) == 1 and workload.repeat == 0)
    rows = summary.rows(experiment, measure(experiment, tools(one)))
    assert {row.measured.workload_slowdown.n for row in rows} == {1}


def test_when_nothing_works_it_gives_up(tools):
    experiment = load("three-jobs", settings=["repeats=5"])
    watcher = Quiet()
    records = measure(experiment, tools(failing(lambda workload: True)), watcher=watcher)
    assert len(records) == runner.HOPELESS
    assert "skipped 42 runs" in watcher.warnings[-1]
    row = summary.rows(experiment, records)[0].measured
    assert row.workload_slowdown == estimate([])
    assert row.breakdown is None


@pytest.mark.parametrize("since", [0, 2])
def test_a_users_program_that_has_never_succeeded_alone_is_not_repeated(tools, since):
    table = {**COMMANDS, "repeats": 5, "schedulers": [{"policy": "none"}]}
    watcher = Quiet()
    fails = failing(lambda workload: workload.repeat >= since and workload.jobs[0].program.argv)
    records = measure(load(table), tools(fails), watcher=watcher)
    alone = [one for one in records if one.kind == "dedicated" and one.jobs[0].work.argv]
    assert len(alone) == (5 if since else 1)
    assert any("true fails alone" in warning for warning in watcher.warnings) == (not since)


def test_rows_without_the_program_that_fails_alone_go_on_and_resuming_measures_the_others(place, tools):
    table = {**COMMANDS, "repeats": 2, "schedulers": [{"policy": "none"}]}
    table["sweep"] = {"jobs.0.command": [["{launcher}", "-n", "1", name] for name in ("true", "false")]}
    tasks = [*plan(load(table))]
    fails = failing(lambda workload: "false" in (workload.jobs[0].program.argv or ()))
    watcher = Quiet()
    made = measure(load(table), tools(fails), watcher=watcher)
    assert [one.cell for one in made if one.failure] == [1]
    assert {one.key for one in tasks if one.cell.index == 0} <= recorded(made).keys()
    assert watcher.warnings[-1].startswith("false fails alone: skipped ")
    left = [task for task in tasks if task.key not in recorded(place.store.runs(load(table).digest))]
    assert {task.cell.index for task in left} == {1}


def test_only_what_is_recorded_and_did_not_fail_is_skipped(place, tools):
    experiment = load("three-jobs", settings=["repeats=2"])
    measure(experiment, tools(failing(lambda workload: workload.options.waiting == "fixed")))
    done = recorded(place.store.runs(experiment.digest))
    missing = [task for task in plan(load("three-jobs", settings=["repeats=3"])) if task.key not in done]
    assert [task.repeat for task in missing] == [0, 1] + [2] * 9
    assert {task.scheduler.options.waiting for task in missing[:2]} == {"fixed"}


def test_the_last_successful_record_of_a_run_counts(place, tools):
    experiment = load("three-jobs", settings=["repeats=1"])
    before = measure(experiment, tools(failing(lambda workload: True)))
    rows = summary.rows(experiment, [*before, *measure(experiment, place)])
    assert all(row.measured.workload_slowdown.n == 1 for row in rows)


def test_progress_counts_up_to_the_end_and_the_time_left_down_to_nothing(place):
    watcher = Quiet()
    measure(load("three-jobs", settings=["repeats=1"]), place, watcher=watcher)
    assert [step.done for step in watcher.steps] == list(range(10))
    assert watcher.steps[0].left_s > 5
    assert watcher.steps[-1].left_s == 0
    assert "dedicated, repeat 1 of 1" in {step.label for step in watcher.steps}


def test_calibration_gives_medians_and_keeps_samples(place):
    found = place.calibrate([0], ["signals"], Quiet())
    constants = calibrate.constants(found)
    assert (constants.remote_wakeup_us, constants.local_switch_us, constants.latency_us) == (5.0, 3.0, 2.0)
    assert constants.os_noise_length_us == pytest.approx((10 + 10 + 100) / 3)
    assert constants.os_noise_interval_us == 25_000
    assert constants.switch_deviation_us == pytest.approx([0.2 * share - 0.9 for share in range(10)])
    assert constants.idle_times_us == (500.0, 10_000.0)
    assert constants.switch_after_idle_us[0] == pytest.approx([4.2 + 0.4 * share for share in range(10)])
    assert constants.send_after_idle_us[0] == pytest.approx([1.1 + 0.2 * share for share in range(10)])
    assert (constants.switch_after_idle_us[1], constants.send_after_idle_us[1]) == ((0.0,) * 10, (9.0,) * 10)
    assert constants.overrun_us == pytest.approx([2.1 + 0.2 * share for share in range(10)])
    told = {calibration.quantity for calibration in found}
    assert {
        "remote_wakeup_ns",
        "os_noise_length_ns",
        "slot_cost_ns signals",
        "switch_delay_ns signals",
        "tick_ns",
    } <= told


def test_a_run_goes_by_the_slot_costs_of_its_mechanism(place):
    constants = calibrate.constants(place.calibrate([0], ["signals"], Quiet()))
    told = constants.of_run("signals")
    assert len(told.slot_cost_us) == 2
    assert list(told.switch_delay_us) == sorted(told.switch_delay_us)
    assert 50 <= told.switch_delay_us[0] <= told.switch_delay_us[-1] <= 50.019
    assert "slot_cost_us" not in constants.of_run("").recorded()


def test_steps_are_known_for_each_working_set(place):
    constants = calibrate.constants(place.calibrate([4096, 8192], [], Quiet()))
    assert (constants.memory_step_of({4096}), constants.memory_step_of({4096, 8192})) == (64.0, 0.0)


COMMANDS = {
    "name": "commands",
    "processors": 2,
    "repeats": 1,
    "jobs": [
        {"command": ["{launcher}", "-n", "1", "true"], "environment": {"OMP_NUM_THREADS": "2,4"}},
        {"kind": "sequential", "work_s": 1.0},
    ],
}


def test_nobody_says_how_long_a_users_program_takes_before_one_has_run(place):
    watcher = Quiet()
    measure(load({**COMMANDS, "schedulers": [{"policy": "none"}]}), place, watcher=watcher)
    first, *others = watcher.steps
    assert first.left_s is None and all(step.left_s is not None for step in others)


@pytest.mark.parametrize("binds, bound", [([True], True), ([True, False], False), (["job", True], True)])
def test_a_command_is_bound_alone_if_it_always_is_beside_others(binds, bound):
    """With its threads it has as many processors alone as beside others."""
    table = {**COMMANDS, "schedulers": [{"policy": "none", "bind": bind} for bind in binds]}
    alone = [task for task in plan(load(table)) if task.kind == "dedicated"]
    assert {task.jobs[0].program.kind: task.scheduler.options.bind for task in alone} == {
        "command": bound,
        "sequential": True,
    }


def test_threads_that_share_processors_have_a_warning_with_the_number_that_fits(place):
    def told(bind, threads, processes=1, shell="8"):
        table = {**COMMANDS, "schedulers": [{"policy": "none", "bind": bind}]}
        job = {"command": ["{launcher}", "-n", str(processes), "true"], **threads}
        records = measure(load(table | {"jobs": [job]}), place)
        known = dataclasses.replace(records[0].conditions, environment={"OMP_NUM_THREADS": shell})
        records = [dataclasses.replace(record, conditions=known) for record in records]
        return [warning for warning in warnings_of([], records) if "OMP_NUM_THREADS" in warning]

    two = {"environment": {"OMP_NUM_THREADS": "2,4"}}
    (warning,) = told(True, two)
    assert "true: 1 process of 2 threads on 1 of the processors" in warning
    assert "set OMP_NUM_THREADS=1, threads = 2 or bind = false, since each process is bound to 1" in warning
    assert told(True, {"threads": 2}) == []
    assert told(False, two) == []
    (warning,) = told(False, two, processes=2)
    assert "2 processes of 2 threads on 2 of the processors: set OMP_NUM_THREADS=1" in warning
    (warning,) = told(False, {})
    assert "1 process of 8 threads" in warning and warning.endswith("set OMP_NUM_THREADS=2")
    for unknown in ("", "1", "all"):
        assert told(True, {}, shell=unknown) == []


def test_warnings_are_told_in_numbers(place):
    experiment = load("three-jobs", settings=["repeats=3"])
    records = measure(experiment, place)
    quiet = {"steal": 0.0, "others": 0.0, "load_before": 0.0}

    def during(record, **changes):
        return dataclasses.replace(record, conditions=dataclasses.replace(record.conditions, **changes))

    calm = [during(record, **quiet) for record in records]
    assert warnings_of(summary.rows(experiment, calm), calm) == []
    stolen = [during(record, steal=0.031) for record in calm[:2]] + calm[2:]
    loaded = [during(record, wanting=3, cores=2, processors=[0, 1]) for record in calm]
    single = [record for record in calm if record.repeat == 0]
    double = [record for record in calm if record.repeat < 2]

    def told(records):
        return " ".join(warnings_of(summary.rows(experiment, records), records))

    assert "2 of 27 runs, up to 3.1%" in told(stolen)
    assert "3 threads of other programs waited" in told(loaded)
    stopped = [during(record, throttled=0.5) for record in calm]
    assert "in 27 of 27 runs, up to 50%: raise it (cpu.max)" in told(stopped)
    rows = summary.rows(experiment, stopped)
    assert rows[0].measured.throttled == 0.5
    headings = [[c.heading for c in needed(COLUMNS, of)] for of in (rows, summary.rows(experiment, calm))]
    assert ["throttled\n%" in each for each in headings] == [True, False]
    assert "8 of 8 rows have no interval, with one repeat each" in told(single)
    assert "8 of 8 rows have no interval, with two repeats each: set repeats = 3" in told(double)

    late = [
        dataclasses.replace(
            r, switches=tuple(dataclasses.replace(s, switch_delay_ns=12_000_000) for s in r.switches)
        )
        for r in calm
    ]
    assert "2 rows, the worst gang 10 ms: one slot in a hundred began at least 12 ms late" in told(late)
    assert "10% of its length, and half of them 12 ms: use longer slots" in told(late)
    (row,) = [row for row in summary.rows(experiment, late) if row.name == "gang 100 ms"]
    queues = {"policy": "multilevel-two-queue", "long_quantum_ms": 2000}
    for shortest_ms, told_of in ((80, True), (240, False)):
        scheduler = row.scheduler | queues | {"quanta_ms": (shortest_ms, 400)}
        del scheduler["quantum_ms"]
        found = " ".join(warnings_of([dataclasses.replace(row, scheduler=scheduler)], late))
        assert ("one slot in a hundred" in found) == told_of

    def slower(kind, policy):
        """The records, in the second repeat of which such runs took twice as long."""
        for r in calm:
            hit = r.repeat == 1 and r.kind == kind and r.scheduler["policy"] == policy
            late = [dataclasses.replace(job, finish_ns=(1 + hit) * job.finish_ns) for job in r.jobs]
            yield dataclasses.replace(r, jobs=tuple(late))

    wide = "1 of 8 rows have intervals wider than 20% of the median, the widest none ("
    assert wide in told(list(slower("policy", "none")))
    assert "differ by up to 102% between repeats" in told(list(slower("dedicated", "batch")))


def test_between_nodes_messages_cost_what_they_cost_there(place):
    between = {"latency_ns": [50_000.0], "idle_wakeup_ns": [90_000.0]}
    tools = dataclasses.replace(place.tools, probe_between=lambda: between)
    spread = dataclasses.replace(place, tools=tools, nodes=(Node("a"), Node("b")))
    constants = calibrate.constants(spread.calibrate([0], [], Quiet()))
    assert (constants.latency_us, constants.idle_wakeup_us) == (50.0, 90.0)
    assert constants.remote_wakeup_us == 5.0  # as on this host
    assert calibrate.mpi_probe_between(None, ["a", "a"]) is None
