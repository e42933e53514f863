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
