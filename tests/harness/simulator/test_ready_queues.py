"""Processes that are not bound to a processor, and the working sets that they leave behind when they move."""

from dataclasses import replace

import pytest

from coordinator import policies
from harness.measure.calibrate import constants, own_cache_kb
from harness.predict.process_level import Host
from harness.simulator.processes import ready_queues
from harness.simulator.processes.local import eevdf
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import IDLE
from harness.simulator.processes.simulate import simulate
from harness.spec.scheduler import scheduler_of
from harness.store.conditions import Conditions
from harness.store.records import Calibration
from workloads.constants import MachineConstants
from workloads.program import Program
from workloads.validation import InputError

WORK_US = 100_000.0
TICK_US = 1000.0
SET = 512 * 1024
RELOAD_NS = 50_000
"""For SET; the cache has twice the size."""


def machine(queue, **options):
    given = {
        "processors": 2,
        "local": "rr",
        "context_switch_us": 0.0,
        "tick_us": TICK_US,
        "timers": "synchronised",
    }
    return SimulatedMachine(**{**given, "queue": queue, "cache_kb": 1024, "reload_us": 100.0, **options})


def lone(number, working_set_bytes=0, phases=1, **job):
    program = Program(
        processes=1,
        granularity_us=WORK_US,
        imbalance=0.0,
        phases=phases,
        opening_barrier=True,
        working_set_bytes=working_set_bytes,
    )
    return SimulatedJob(number, program, think_us=0.0, **job)


def run(jobs, on, policy="none"):
    outcome = simulate(jobs, on, policies.create(policy, {}))
    assert not outcome.failure
    assert (outcome.spent_ns.sum(axis=1) == outcome.end_ns).all()
    return outcome


def makespan(queue, jobs, **options):
    return run(jobs, machine(queue, **options)).makespan_ns / (WORK_US * 1e3)


def test_three_processes_share_two_processors_unless_they_are_bound():
    """The policy puts all on the first processor. Turns are 25 ms, a quarter of the work."""
    jobs = [lone(number) for number in range(3)]
    assert makespan("bound", jobs) == 3.0
    assert makespan("central", jobs) == pytest.approx(1.5, abs=0.26)
    assert makespan("affinity", jobs) == pytest.approx(1.5, abs=0.26)
    assert makespan("stealing", jobs) == pytest.approx(1.5, abs=0.26)


def test_one_queue_gives_equal_turns():
    """Round robin over four turns each: the last one ends two turns after the first at most."""
    outcome = run([lone(number) for number in range(3)], machine("central"))
    finishes = [job.finish_ns for job in outcome.jobs]
    assert max(finishes) - min(finishes) <= 2 * 25 * TICK_US * 1e3
    assert outcome.switches.sum() >= 12


def test_linux_takes_processes_from_the_longer_queue_and_is_fair_to_three_on_two_processors():
    """A process that has a processor for itself gives way when the queues have differed twice."""
    jobs = [lone(number, phases=20) for number in range(3)]
    options = {"local": "eevdf", "tick_us": 0.0}
    balanced = run(jobs, machine("stealing", **options))
    assert balanced.makespan_ns < 20 * 1.6 * WORK_US * 1e3
    twice_ns = 2 * ready_queues.BALANCE_TICKS * eevdf.TICK_NS
    assert min(job.finish_ns for job in balanced.jobs) > 20 * 1.2 * WORK_US * 1e3
    assert balanced.switches.sum() > balanced.makespan_ns // twice_ns


def test_who_wakes_goes_to_a_processor_that_idles():
    """Two jobs compute for ever beside a thinker on one of two processors; bound, it waits for its turn."""
    busy = [lone(0)]
    program = Program(processes=1, granularity_us=1000.0, imbalance=0.0, phases=10)
    thinkers = [SimulatedJob(number, program, think_us=5000.0) for number in (1, 2)]
    waits = {}
    for queue in ("bound", "stealing"):
        outcome = run([*busy, *thinkers], machine(queue))
        waits[queue] = max(max(job.bursts_ns) for job in outcome.jobs[1:])
    assert waits["bound"] > 20e6
    assert waits["stealing"] <= 2e6


@pytest.mark.parametrize(("sets", "reloads"), [(2, 2), (3, 12)])
def test_sets_stay_in_a_cache_that_has_room_for_them(sets, reloads):
    """Two halves fit; of three, each has been displaced when its turn comes. All pay in the beginning."""
    outcome = run([lone(number, SET) for number in range(sets)], machine("bound", processors=1))
    paid_ns = outcome.makespan_ns - sets * WORK_US * 1e3
    # A turn that ends within a reload adds another turn at the end.
    assert reloads * RELOAD_NS <= paid_ns <= (reloads + sets) * RELOAD_NS


def test_a_process_that_moves_loads_its_set_again():
    """Two sets have room in one cache; with a third process on two processors their owners move."""
    jobs = {"bound": [lone(0, SET), lone(1, SET)], "central": [lone(0, SET), lone(1, SET), lone(2)]}
    paid = {
        queue: sum(sum(job.cpu_ns) for job in run(jobs[queue], machine(queue)).jobs)
        - len(jobs[queue]) * WORK_US * 1e3
        for queue in ("bound", "central")
    }
    assert paid["bound"] == 2 * RELOAD_NS
    assert paid["central"] >= 4 * RELOAD_NS


def test_a_set_of_more_than_the_cache_costs_no_more_than_the_cache():
    outcome = run([lone(0, 4 * SET)], machine("bound"))
    assert outcome.makespan_ns == WORK_US * 1e3 + 2 * RELOAD_NS


@pytest.mark.parametrize(
    ("local", "queue"), [("svr4", "central"), ("svr4", "stealing"), ("eevdf", "central")]
)
def test_queues_that_a_local_scheduler_cannot_have_are_refused(local, queue):
    with pytest.raises(InputError) as caught:
        machine(queue, local=local)
    assert caught.value.key == "queue"
    assert queue in str(caught.value)


def test_dynamic_coscheduling_needs_bound_processes():
    with pytest.raises(InputError) as caught:
        run([lone(0)], machine("stealing"), "dynamic-coscheduling")
    assert caught.value.key == "queue"


@pytest.mark.parametrize(
    ("bind", "given", "queue"),
    [
        (True, {"queue": "central"}, "bound"),
        (False, {"queue": "central"}, "central"),
        (False, {}, "stealing"),
        ("job", {}, "stealing"),
    ],
)
def test_bind_decides_whether_the_queue_of_the_machine_counts(bind, given, queue):
    scheduler = scheduler_of({"policy": "none", "bind": bind})
    simulated = Host([0, 1], MachineConstants(), {"local": "rr", **given}).machine(scheduler)
    assert (simulated.queue, simulated.within_job) == (queue, bind == "job")


@pytest.mark.parametrize("queue", ["central", "affinity", "stealing"])
def test_processes_that_are_bound_to_their_job_stay_on_its_processors(queue):
    """Jobs of one process begin on the first processor, jobs of two processes on the first two."""
    assert makespan(queue, [lone(number) for number in range(3)], within_job=True) == 3.0
    pairs = [SimulatedJob(number, replace(lone(number).program, processes=2)) for number in range(2)]
    unused_ns = run(pairs, machine(queue, processors=3, within_job=True)).spent_ns[2, IDLE]
    assert unused_ns == run(pairs, machine("bound", processors=3)).makespan_ns
    assert run(pairs, machine(queue, processors=3)).spent_ns[2, IDLE] < unused_ns / 2


@pytest.mark.parametrize(
    ("table", "rule"),
    [
        ({"policy": "none", "bind": "jobs"}, 'must be true, false or "job"'),
        ({"policy": "none", "bind": 1}, 'must be true, false or "job"'),
        ({"policy": "idle-partition", "bind": "job"}, "gives running jobs other processors"),
        ({"policy": "gang", "migrate": True, "bind": "job"}, "gives running jobs other processors"),
        ({"policy": "dynamic-coscheduling", "bind": "job"}, "a message is for a processor"),
    ],
)
def test_bindings_that_cannot_be_are_refused(table, rule):
    with pytest.raises(InputError) as caught:
        scheduler_of(table)
    assert caught.value.key == "bind"
    assert rule in str(caught.value)


@pytest.mark.parametrize("remedy", ["conscious", "inheritance"])
def test_remedies_that_look_at_one_queue_are_measured_unbound_but_not_simulated(remedy):
    for bind, simulated in ((True, True), (False, False), ("job", False)):
        scheduler = scheduler_of({"policy": "none", "remedy": remedy, "bind": bind})
        assert (scheduler.not_simulated == "") == simulated


def test_the_cache_is_the_largest_that_no_other_processor_shares(tmp_path):
    for index, (kind, shared, size) in enumerate(
        [("Data", "1", "32K"), ("Instruction", "1", "64M"), ("Unified", "1", "2M"), ("Unified", "0-1", "32M")]
    ):
        folder = tmp_path / "cpu1" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, text in (("type", kind), ("shared_cpu_list", shared), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert own_cache_kb(1, tmp_path) == 2048
    assert own_cache_kb(0, tmp_path) == 0


def test_the_time_to_load_a_cache_goes_by_walks_after_a_move():
    def calibration(quantity, samples, size=0):
        return Calibration("s", "", quantity, samples, [0, 1], size, "", Conditions())

    found = constants([calibration("cache_kb", [1024.0]), calibration("move_ns", [4e3, 5e3, 6e3], SET)])
    assert (found.cache_kb, found.reload_us) == (1024.0, 10.0)
    assert constants([]).reload_us == 0.0
