"""Streams of operations: all of a program, in blocks for which there is room in a ring."""

import numpy as np
import pytest
from step_lists import part, step

from coordinator import policies
from harness.simulator.processes import operations, state
from harness.simulator.processes.machine import SimulatedMachine, replaying
from harness.simulator.processes.model import COMPUTE, END, LOCKING, READING, RESPOND, SLEEPING, TASK
from harness.simulator.processes.replayed_program import ReplayedProgram
from harness.simulator.processes.simulate import simulate
from workloads.locks.lock_program import LockProgram
from workloads.options import Options
from workloads.program import Draws, Program

MOST = 31
KEY = (1, 0, 0)


def codes(blocks):
    """How often each code is in the stream of the first process; no block is too long, the last one ends."""
    blocks = [block["code"][0].copy() for block in blocks]
    assert max(map(len, blocks)) <= MOST and blocks[-1].tolist() == [END]
    found, counts = np.unique(np.concatenate(blocks[:-1]), return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def test_every_program_is_in_blocks_of_at_most_so_many_operations():
    news = Program("NEWS", 4, granularity_us=100, phases=100, opening_barrier=False)
    draws = [Draws(news, rank, KEY) for rank in range(4)]
    assert codes(operations.phases(news, draws, MOST))[READING] == 400
    alone = Program("BARRIER", 1, granularity_us=100, phases=100)
    bursts = codes(operations.bursts(alone, draws[0], MOST, think_ns=5, first=0))
    assert bursts == {SLEEPING: 100, COMPUTE: 100, RESPOND: 100}
    assert codes(operations.bursts(alone, draws[0], MOST, think_ns=0, first=0)) == {COMPUTE: 100}
    locks = LockProgram(processes=1, granularity_us=100, phases=100)
    assert codes(operations.sections(locks, draws[0], MOST, first=0)) == {COMPUTE: 100, LOCKING: 100}
    tasks = Program("TASKS", 4, granularity_us=100, phases=100)
    assert codes(operations.tasks(tasks, draws[0], MOST)) == {TASK: 100}


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
        jobs,
        SimulatedMachine(processors=2),
        policies.create("implicit", {}),
        Options("fixed"),
    )
    assert outcome.failure == ""
    assert [process.phases for job in outcome.jobs for process in job.processes] == 4 * [58 * length]
