"""Recorded programs on the simulated machine: times that follow from the rules by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from step_lists import program, step

from coordinator import policies
from harness.simulator.processes.machine import SimulatedMachine, replaying
from harness.simulator.processes.simulate import simulate
from workloads.options import Options

MACHINE = SimulatedMachine(
    processors=2,
    context_switch_us=0.0,
    latency_us=2.0,
    local="fifo",
    messages_to_self=False,
    handles_when_waiting=True,
)


def run(made, blocking="spin", count=1, on=MACHINE, **more):
    jobs = [replaying(number, made) for number in range(count)]
    return simulate(jobs, on, policies.create("none", {}), options=Options(blocking=blocking), **more)


def test_a_message_takes_its_latency():
    pair = [[step(10_000, 0)], [step(1000, -1, 0), step(500)]]
    found = run(program(pair, [(0, 1, 0)]))
    assert found.makespan_ns == 10_000 + 2000 + 500
    assert (found.jobs[0].reads.spun, found.jobs[0].reads.spun_ns) == (1, 11_000)


def test_a_message_that_has_arrived_is_taken_at_once():
    found = run(program([[step(1000, 0)], [step(10_000, -1, 0), step(500)]], [(0, 1, 0)]))
    assert found.makespan_ns == 10_500
    assert (found.jobs[0].reads.spun, found.jobs[0].reads.spun_ns) == (1, 0)


def test_the_sender_of_a_message_that_meets_waits_for_its_receiver():
    pair = [[step(1000, 0, 0), step(100)], [step(10_000, 0, 0), step(500)]]
    found = run(program(pair, [(0, 1, 1)]))
    assert found.jobs[0].processes[0].finish_ns == 10_000 + 2000 + 100
    assert found.makespan_ns == 10_000 + 2000 + 500


@pytest.mark.parametrize("times", [1, 3, 700])
def test_a_part_is_carried_out_as_often_as_it_says(times):
    pair = [[step(1000, 0, 1)], [step(1000, 1, 0)]]
    found = run(program(pair, [(0, 1, 0), (1, 0, 0)], times))
    assert found.makespan_ns == times * 3000
    assert [process.phases for process in found.jobs[0].processes] == [times, times]


def test_a_wait_spins_and_blocks_by_the_rule_unless_the_program_waits_as_its_mpi():
    pair = [[step(1_000_000, 0, 1, collective=1)], [step(1000, 1, 0, collective=1)]]
    channels = [(0, 1, 0), (1, 0, 0)]
    assert run(program(pair, channels), "immediate").jobs[0].barriers.blocked == 1
    assert run(program(pair, channels, as_mpi=True), "immediate").jobs[0].barriers.blocked == 0


@pytest.mark.parametrize(("carries_us", "blocked"), [(0, 1), (90, 1), (110, 0)])
def test_a_wait_spins_longer_for_what_its_rank_has_on_its_way(carries_us, blocked):
    """Its rule lets it spin for 20 us, and the message comes after 121."""
    pair = [[step(120_000 - 1000, 0)], [step(1000, -1, 0, carries_us=carries_us)]]
    made = program(pair, [(0, 1, 0)])
    on = replace(MACHINE, local_switch_us=10.0, remote_wakeup_us=10.0)
    assert run(made, "fixed", on=on).jobs[0].reads.blocked == blocked
    assert run(made, "immediate").jobs[0].reads.blocked == 1, "who does not spin at all does not spin for it"


def test_who_polls_for_a_message_spins_whatever_the_rule():
    for polls in (0, 1):
        made = program([[step(1_000_000, 0)], [step(1, -1, 0, polls=polls)]], [(0, 1, 0)])
        assert run(made, "immediate").jobs[0].reads.spun == polls


def test_programs_that_sleep_first_do_so_at_the_same_time():
    """Each has 1 ms of work after 3 ms of sleep, which takes no processor."""
    alone = program([[step(3_000_000, sleeps=1), step(1_000_000)]], [])
    assert run(alone).makespan_ns == 4_000_000
    assert run(alone, count=2).makespan_ns == 5_000_000


def test_programs_that_sleep_last_hold_their_slots():
    """One has 15 ms of work, in two slots of 10 ms, and sleeps from 25 to 55 ms, in a slot of the other."""
    short = program([[step(15_000_000), step(30_000_000, sleeps=1)]], [])
    long = program([[step(40_000_000)]], [])
    gang, machine = policies.create("gang", {"quantum_ms": 10}), replace(MACHINE, processors=1)
    found = simulate([replaying(0, short), replaying(1, long)], machine, gang)
    assert [job.finish_ns for job in found.jobs] == [60_000_000, 70_000_000]


def test_a_large_message_goes_while_its_receiver_sleeps():
    """It has asked for the message first, and sleeps for 9 ms; its sender comes after 1 ms."""
    sender = [step(1_000_000, 0, 0)]
    receiver = [step(1000, 0), step(9_000_000, sleeps=1), step(1, -1, 0)]
    found = run(program([sender, receiver], [(0, 1, 1)]))
    ends_ns = [process.finish_ns for process in found.jobs[0].processes]
    assert ends_ns[0] < 1_100_000 and ends_ns[1] == pytest.approx(9_001_000, abs=100)


def test_processes_that_wait_for_what_nobody_sends_are_stuck():
    found = run(program([[step(1000)], [step(1000, -1, 0, number=5)]], [(0, 1, 0)]), timeout_s=1.0)
    assert "not finished" in found.failure


def test_the_receiver_of_a_large_message_that_has_asked_for_it_has_to_run_to_hear_of_it():
    """It asks first and spins, in turns of 10 ms with another process; its sender comes after 25 ms."""
    pair = replaying(0, program([[step(25_000_000, 0, 0)], [step(1000, 0, 0)]], [(0, 1, 1)]))
    other = replaying(1, program([[step(1)], [step(100_000_000)]], []))
    machine = replace(MACHINE, local="round-robin", quantum_ms=10.0)

    def ends_ns(*jobs):
        for repeat in range(8):
            found = simulate(jobs, machine, policies.create("none", {}), repeat=repeat)
            yield found.jobs[0].processes[0].finish_ns

    assert set(ends_ns(pair)) == {25_000_000 + 2 * 2000}
    beside = sorted(ends_ns(pair, other))
    assert beside[0] == 25_000_001 + 2 * 2000
    assert 26_000_000 < beside[-1] <= 35_000_000 + 2 * 2000


@pytest.mark.parametrize("others", [0, 1])
def test_who_computes_hears_of_a_large_message_when_it_is_in_mpi_again(others):
    """It asks for the message, then computes for 50 ms, alone or in turns."""
    receiver = [step(1000, 0), step(50_000_000), step(1, -1, 0)]
    jobs = [replaying(0, program([[step(25_000_000, 0, 0)], receiver], [(0, 1, 1)]))]
    jobs += others * [replaying(1, program([[step(1)], [step(100_000_000)]], []))]
    machine = replace(MACHINE, local="round-robin", quantum_ms=10.0)
    found = simulate(jobs, machine, policies.create("none", {}))
    assert found.jobs[0].processes[0].finish_ns > 50_001_000
