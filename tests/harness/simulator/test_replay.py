"""Recorded programs on the simulated machine: times that follow from the rules by hand."""

from __future__ import annotations

from dataclasses import replace

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


def run(made, blocking="spin", on=MACHINE, **more):
    return simulate([replaying(0, made)], on, policies.create("none", {}), Options(blocking), **more)


def test_programs_that_sleep_last_hold_their_slots():
    """One has 15 ms of work, in two slots of 10 ms, and sleeps from 25 to 55 ms, in a slot of the other."""
    short = program([[step(15_000_000), step(30_000_000, sleeps=1)]], [])
    long = program([[step(40_000_000)]], [])
    gang, machine = policies.create("gang", {"quantum_ms": 10}), replace(MACHINE, processors=1)
    found = simulate([replaying(0, short), replaying(1, long)], machine, gang)
    assert [job.finish_ns for job in found.jobs] == [60_000_000, 70_000_000]


def test_processes_that_wait_for_what_nobody_sends_are_stuck():
    found = run(program([[step(1000)], [step(1000, -1, 0, number=5)]], [(0, 1, 0)]), timeout_s=1.0)
    assert "not finished" in found.failure
