"""What a simulated machine has of a real host: its tick, its turns, what changes of slot cost."""

from dataclasses import replace

import numpy as np
import pytest

from coordinator import policies
from harness.predict.process_level import Host, machine_like
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import COMPUTING, SWITCHING, SYNCHRONIZING
from harness.simulator.processes.simulate import simulate
from harness.spec.scheduler import scheduler_of
from workloads.constants import MachineConstants
from workloads.locks.lock_program import LockProgram
from workloads.options import Options
from workloads.program import Program
from workloads.validation import InputError

MS = 1_000_000


def computing(count, phases=400):
    """Jobs of one process that compute for half a millisecond a phase."""
    program = Program(processes=1, granularity_us=500, imbalance=0, phases=phases)
    return [SimulatedJob(number, program) for number in range(count)]


def run(jobs, policy="none", parameters=None, blocking="spin", **machine):
    values = {"processors": 1, "context_switch_us": 0, "timers": "synchronised"} | machine
    on = SimulatedMachine(**values)
    return simulate(jobs, on, policies.create(policy, parameters or {}), Options(blocking), timeline=True)


def turns_ns(outcome):
    """Lengths of the uninterrupted runs of the processes on processor 0 until the first of them ends."""
    return np.diff(changes_ns(outcome))


def changes_ns(outcome):
    """When one process followed another on processor 0, until the first of them ended."""
    times, _, process, _ = outcome.timeline[outcome.timeline[:, 1] == 0].T
    changes = times[np.flatnonzero(np.diff(process)) + 1]
    return changes[changes < min(job.finish_ns for job in outcome.jobs)]


def test_rr_gives_turns_of_its_interval():
    turns = turns_ns(run(computing(2, phases=2000), local="rr"))
    assert set(turns) == {100 * MS}
    dispatch_table = [(5, 0, 0, 2**31 - 1, 0)]
    turns = turns_ns(run(computing(2, phases=2000), local="rr", dispatch_table=dispatch_table))
    assert set(turns) == {20 * MS}


def test_under_rr_a_process_that_wakes_waits_for_its_turn():
    thinker = SimulatedJob(2, Program(processes=1, granularity_us=100, phases=20), think_us=5000)
    bursts = {
        local: max(run([*computing(1, phases=8000), thinker], local=local).jobs[1].bursts_ns)
        for local in ("rr", "eevdf")
    }
    assert 80 * MS < bursts["rr"] <= 101 * MS
    assert bursts["eevdf"] < 10 * MS


def test_slices_are_looked_at_in_the_tick_of_the_host():
    assert np.median(turns_ns(run(computing(2), local="eevdf", tick_us=1000))) == 2 * MS
    assert np.median(turns_ns(run(computing(2), local="eevdf", tick_us=1000, slice_us=3000))) == 3 * MS
    assert np.median(turns_ns(run(computing(2), local="eevdf"))) == 4 * MS


def test_each_change_of_slot_costs_what_was_measured():
    """Two jobs of 100 ms take turns of 10 ms: the processor loses 1 ms some twenty times."""
    gang = ("gang", {"quantum_ms": 10})
    free = run(computing(2, phases=200), *gang, local="eevdf")
    outcome = run(computing(2, phases=200), *gang, local="eevdf", slot_cost_us=[1000.0])
    lost_ns = outcome.makespan_ns - free.makespan_ns
    assert 20 * MS <= lost_ns <= 24 * MS
    assert outcome.spent_ns[0, 3] == lost_ns


def test_slots_end_as_late_as_measured_and_do_not_drift():
    outcome = run(computing(2), "gang", {"quantum_ms": 10}, local="eevdf", lateness_us=[100.0, 300.0])
    assert set(changes_ns(outcome) % (10 * MS)) == {100_000, 300_000}


def test_switches_cost_more_or_less_as_measured_but_never_less_than_nothing():
    """Of two endless processes that take turns of a tick each, every switch costs one of three values."""
    outcome = run(computing(2), local="eevdf", context_switch_us=50.0, switch_scatter_us=[-80.0, 0.0, 40.0])
    began_ns, _, _, activity = outcome.timeline.T
    switches_ns = [
        int(after - before)
        for before, after, kind in zip(began_ns[:-1], began_ns[1:], activity[:-1], strict=True)
        if kind == SWITCHING
    ]
    assert len(switches_ns) > 20
    assert set(switches_ns) == {0, 50_000, 90_000}


def test_jobs_that_block_at_the_same_time_meet_again_where_switches_differ():
    """Where all cost the same, two jobs that have lost step block together again and again."""
    program = Program(granularity_us=100, imbalance=0, phases=1000)
    jobs = [SimulatedJob(number, program) for number in range(3)]
    host = {"local": "eevdf", "timers": "synchronised", "handles_when_waiting": True, "spin_clock": "wall"}
    costs = {"context_switch_us": 15.0, "remote_wakeup_us": 25.0, "latency_us": 1.0}

    def makespans_ns(scatter):
        on = SimulatedMachine(2, **host, **costs, messages_to_self=False, switch_scatter_us=scatter)
        waits = {"options": Options(blocking="fixed", spin_switches=8)}
        implicit = policies.create("implicit", {})
        return sum(simulate(jobs, on, implicit, **waits, seed=seed).makespan_ns for seed in range(4))

    assert makespans_ns([-10.0, -5.0, 0.0, 5.0, 10.0]) < 0.85 * makespans_ns([])


RESTS = {
    "idle_times_us": [100.0, 1000.0],
    "switch_after_idle_us": [[40.0], [200.0]],
    "send_after_idle_us": [[3.0], [7.0]],
}


def spent_us(category, **options):
    """What a phase takes of both processes of a job that blocks at each barrier, in a category."""
    host = {"messages_to_self": False, "handles_when_waiting": True, "latency_us": 2.0}
    program = Program(imbalance=0, phases=100, **options.pop("program"))
    job = SimulatedJob(0, program)
    outcome = run(
        [job],
        processors=options.pop("processors"),
        blocking="immediate",
        context_switch_us=5.0,
        **host,
        **options,
    )
    return outcome.spent_ns[:, category].sum() / 1e3 / program.phases


def test_a_process_that_waits_pays_for_the_time_that_it_has_not_run():
    """Two processes of one processor wait for each other: each rests for as long as the other computes."""
    usual, short, long = (
        spent_us(SWITCHING, processors=1, program={"granularity_us": g}, **rests)
        for g, rests in ((1500, {}), (100, RESTS), (1500, RESTS))
    )
    # The root sleeps while the other computes, and the other only until the root has answered.
    assert usual == pytest.approx(2 * 5, rel=0.2)
    assert short == pytest.approx(5 + 40, rel=0.3)
    assert long == pytest.approx(5 + 200, rel=0.2)


def test_between_two_rests_the_mean_cost_grows_in_a_straight_line():
    half, none = (
        spent_us(SYNCHRONIZING, processors=2, program={"granularity_us": 550}, **rests)
        for rests in (RESTS, {})
    )
    # The root tells itself nothing, but has rested, too.
    assert half - none == pytest.approx(2 * 5.0, abs=0.7)


@pytest.mark.parametrize(("pattern", "computations"), [("BARRIER", 1), ("NEWS", 5), ("TASKS", 0.5)])
def test_every_computation_takes_longer_than_asked(pattern, computations):
    program = Program(pattern=pattern, granularity_us=100, imbalance=0, phases=400)
    plain, late = (
        run([SimulatedJob(0, program)], processors=2, overrun_us=overrun_us).spent_ns[:, COMPUTING].sum()
        for overrun_us in ([], [1.0, 2.0, 6.0])
    )
    assert (late - plain) / 2 / 400 == pytest.approx(3000 * computations, rel=0.1)


def test_a_critical_section_takes_as_long_as_asked():
    program = LockProgram(processes=1, granularity_us=100, imbalance=0, phases=400, section_us=50)
    late = run([SimulatedJob(0, program)], overrun_us=[1.0, 2.0, 6.0]).spent_ns[:, COMPUTING].sum()
    assert late / 400 == pytest.approx(153_000, rel=0.01)


def test_a_program_serves_before_it_reads_and_finds_the_other_gone():
    """Two processes whose gaps differ a little: each waits until the other is at the end of its next gap."""
    program = Program(
        pattern="NEWS", granularity_us=100, imbalance=0, read_gap_us=100, read_imbalance=0.2, phases=200
    )
    reads = {}
    for polls in (True, False):
        host = {"handles_when_waiting": polls, "messages_to_self": False, "latency_us": 1.0}
        waits = run([SimulatedJob(0, program)], processors=2, **host).jobs[0].reads
        reads[polls] = waits.spun_ns / waits.spun / 1e3
    assert reads[False] == pytest.approx(2 * 1.0)
    assert 65 < reads[True] < 85


def test_a_process_that_computes_goes_on_as_fast_as_before():
    host = {"local": "eevdf", "context_switch_us": 50.0, "messages_to_self": False}
    free, rested = (run(computing(2), **host, **rests) for rests in ({}, RESTS))
    assert free.spent_ns[:, SWITCHING].sum() == rested.spent_ns[:, SWITCHING].sum() > 0


def test_turns_change_as_late_after_the_tick_as_measured_and_do_not_drift():
    outcome = run(computing(2), local="eevdf", tick_lateness_us=[30.0, 70.0])
    assert set(changes_ns(outcome)[1:] % (4 * MS)) == {30_000, 70_000}
    assert np.median(turns_ns(outcome)) == pytest.approx(4 * MS, abs=40_000)


def test_ticks_that_come_late_at_random_part_processors():
    """Two processors whose ticks are late by different times change turns apart."""
    jobs = [SimulatedJob(number, Program(granularity_us=1000, imbalance=0, phases=50)) for number in range(2)]
    outcome = run(jobs, processors=2, local="eevdf", tick_lateness_us=[20.0, 90.0], messages_to_self=False)
    changes = [outcome.timeline[outcome.timeline[:, 1] == p][:, 0] for p in range(2)]
    late = [set(times[times > 4 * MS] % (4 * MS)) & {20_000, 90_000} for times in changes]
    assert late == [{20_000, 90_000}, {20_000, 90_000}]
    assert set(changes[0]) != set(changes[1])


def test_a_process_woken_on_an_idle_processor_pays_for_that():
    jobs = [SimulatedJob(0, Program(granularity_us=1000, imbalance=1.5, phases=200))]
    costs = {"processors": 2, "local": "eevdf", "remote_wakeup_us": 20.0, "messages_to_self": False}
    same, dear = (
        run(jobs, blocking="immediate", **costs, idle_wakeup_us=idle_us).spent_ns[:, 3].sum()
        for idle_us in (20.0, 120.0)
    )
    # How often it blocks depends a little on how long that takes.
    assert dear / same == pytest.approx(120 / 20, rel=0.1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tick_us", -1),
        ("slice_us", -1),
        ("slot_cost_us", [-1.0]),
        ("lateness_us", [1.0, -2.0]),
        ("tick_lateness_us", [-1.0]),
        ("tick_lateness_us", [1.0, 10_000.0]),
        ("overrun_us", [-0.5]),
        ("switch_scatter_us", [0.0, float("nan")]),
        ("idle_times_us", [5.0, 5.0]),
        ("send_after_idle_us", [[1.0]]),
        ("switch_after_idle_us", [[]]),
    ],
)
def test_impossible_hosts_are_refused(key, value):
    with pytest.raises(InputError, match=key):
        SimulatedMachine(**{key: value})


CONSTANTS = MachineConstants(
    remote_wakeup_us=20.0,
    local_switch_us=5.0,
    latency_us=3.0,
    idle_wakeup_us=30.0,
    send_us=1.0,
    receive_us=0.5,
    serve_us=0.2,
    poll_us=0.2,
    tick_us=1000.0,
    rr_interval_us=30_000.0,
    slot_cost_us=[300.0, 100.0],
)


def test_a_message_takes_as_long_as_the_calibrated_one():
    machine = machine_like(CONSTANTS, 2, scheduler_of({"policy": "none"}))
    program = Program(pattern="NEWS", granularity_us=50, imbalance=0, phases=1)
    outcome = simulate([SimulatedJob(0, program)], machine, policies.create("none", {}))
    reads = outcome.jobs[0].reads
    # Two messages of 3 us, but that the wait begins when the first has been sent, which takes 1 us.
    assert reads.spun_ns / reads.spun == pytest.approx(5_000, rel=0.1)


def test_the_classes_of_the_kernel_have_their_schedulers():
    rr = machine_like(CONSTANTS, 2, scheduler_of({"policy": "none", "local": "rr"}))
    assert (rr.local, rr.table()[0][0]) == ("rr", 30)
    assert machine_like(CONSTANTS, 2, scheduler_of({"policy": "none"})).local == "eevdf"


def test_a_given_context_switch_has_no_calibrated_scatter_and_no_rests():
    calibrated = replace(CONSTANTS, **RESTS, switch_scatter_us=[-2.0, 2.0], overrun_us=[2.0])
    scheduler = scheduler_of({"policy": "none"})
    machine = Host(range(2), calibrated).machine(scheduler)
    assert machine.switch_scatter_us == (-2.0, 2.0)
    assert machine.switch_after_idle_us == calibrated.switch_after_idle_us
    assert machine.overrun_us == (2.0,)
    assert machine.send_after_idle_us == calibrated.send_after_idle_us
    given = Host(range(2), calibrated, {"context_switch_us": 7.0}).machine(scheduler)
    assert (given.context_switch_us, given.switch_scatter_us, given.switch_after_idle_us) == (7.0, (), ())
    assert given.send_after_idle_us == calibrated.send_after_idle_us


def test_a_tick_that_the_hypervisor_delays_for_long_counts_half_a_tick():
    machine = machine_like(
        replace(CONSTANTS, tick_lateness_us=[20.0, 5000.0]), 2, scheduler_of({"policy": "none"})
    )
    assert machine.tick_lateness_us == (20.0, 500.0)


def test_what_an_older_record_lacks_costs_nothing():
    older = MachineConstants.of_record({"remote_wakeup_us": 20.0, "latency_us": 3.0})
    machine = machine_like(older, 2, scheduler_of({"policy": "none"}))
    assert (machine.context_switch_us, machine.wakeups_ns, machine.latency_us) == (20.0, [0, 0], 3.0)
    assert (machine.detour_gap_us, machine.slot_cost_us, machine.tick_us) == (0.0, (), 0.0)
    assert not machine.tick_lateness_us
    assert not machine.overrun_us
