"""Streams of operations: there is room for each block in a ring."""

import numpy as np
import pytest
from step_lists import part, step

from coordinator import policies
from harness.simulator.processes import state
from harness.simulator.processes.machine import SimulatedMachine, replaying
from harness.simulator.processes.operations import ReplayedProgram
from harness.simulator.processes.simulate import simulate
from workloads.options import Options


@pytest.mark.parametrize("length", [1, 3, 7, 8, 15, 16])
def test_no_block_overwrites_the_message_that_a_process_waits_for(monkeypatch, length):
    """Rings of 32 operations and parts of many lengths: a wait needs its operation until it ends."""
    monkeypatch.setattr(state, "LEAST_AT_HAND", 32)
    monkeypatch.setattr(state, "MOST_AT_HAND", 32)
    channels = [(0, 1, 0), (1, 0, 0)]
    steps = [[step(100, give=rank, take=1 - rank)] * length for rank in range(2)]
    parts = tuple(part(steps, channels, times) for times in (1, 2, 5, 50))
    program = ReplayedProgram(parts, np.array(channels, dtype=np.int32))
    jobs = [replaying(number, program) for number in range(2)]
    outcome = simulate(
        jobs, SimulatedMachine(processors=2), policies.create("implicit", {}), Options("fixed")
    )
    assert outcome.failure == ""
    assert [process.phases for job in outcome.jobs for process in job.processes] == 4 * [58 * length]


def test_processes_whose_mpi_yields_as_it_waits_leave_the_processor_to_those_that_compute():
    """While a rank waits for one that computes elsewhere, other ranks of its processor compute."""
    channels = [(0, 1, 0), (1, 0, 0)]
    steps = [[step(50_000, give=rank, take=1 - rank)] * 100 for rank in range(2)]
    table = np.array(channels, dtype=np.int32)
    spent_ns = {}
    for yield_ns in (0, 500):
        program = ReplayedProgram((part(steps, channels),), table, as_mpi=True, yield_ns=yield_ns)
        jobs = [replaying(number, program, arrival_s=number * 3e-6) for number in range(3)]
        machine = SimulatedMachine(
            processors=2, local="eevdf", context_switch_us=20.0, yield_us=0.5, timers="independent"
        )
        spent_ns[yield_ns] = simulate(jobs, machine, policies.create("none", {})).makespan_ns
    assert spent_ns[500] < 1.1 * 3 * 100 * 50_000
    assert spent_ns[0] > 1.5 * spent_ns[500]
