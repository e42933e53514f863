"""Streams of operations: there is room for each block in a ring."""

import numpy as np
import pytest
from step_lists import part, step

from coordinator import policies
from harness.simulator.processes import model as m
from harness.simulator.processes import state
from harness.simulator.processes.machine import SimulatedMachine, replaying
from harness.simulator.processes.operations import Part, ReplayedProgram, operations
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
    for yield_interval_ns in (0, 500):
        program = ReplayedProgram(
            (part(steps, channels),), table, as_mpi=True, yield_interval_ns=yield_interval_ns
        )
        jobs = [replaying(number, program, arrival_s=number * 3e-6) for number in range(3)]
        machine = SimulatedMachine(
            processors=2, local="eevdf", context_switch_us=20.0, yield_us=0.5, timers="independent"
        )
        spent_ns[yield_interval_ns] = simulate(jobs, machine, policies.create("none", {})).makespan_ns
    assert spent_ns[500] < 1.1 * 3 * 100 * 50_000
    assert spent_ns[0] > 1.5 * spent_ns[500]


COMPUTE = (m.COMPUTE, m.NOBODY, 100_000)
SECTION = (m.LOCKING, 0, 20_000)

AFTER_A_SECTION = {
    "messages": [(m.SEND, 0, 0), (m.RECEIVE, 0, 0)],
    "a barrier": [(m.CLOSING, m.NOBODY, 0)],
    "another section": [SECTION],
    "a sleep": [(m.SLEEPING, m.NOBODY, 5000)],
}
"""Operations as (code, peer, value)."""


@pytest.mark.parametrize("rule", ["spin", "immediate", "fixed"])
@pytest.mark.parametrize("name", AFTER_A_SECTION)
def test_whatever_follows_a_section_is_carried_out(name, rule):
    """Two processes compute, enter one lock's section after each other, and do something; ten times."""
    times = 10
    rows = np.array([COMPUTE, SECTION, *AFTER_A_SECTION[name]])
    of_ranks = tuple(operations(1, len(rows))[0] for _ in range(2))
    for rank, ours in enumerate(of_ranks):
        ours["code"], ours["peer"], ours["value"] = rows.T
        ours["peer"][ours["code"] == m.SEND] = rank
        ours["peer"][ours["code"] == m.RECEIVE] = 1 - rank
        ours["marks"][0] = m.PASSES
    sent = np.full(2, int((rows[:, 0] == m.SEND).any()))
    channels = np.array([(0, 1, 0), (1, 0, 0)], dtype=np.int32)
    program = ReplayedProgram((Part(of_ranks, sent, times),), channels)
    machine = SimulatedMachine(processors=2, context_switch_us=5.0, latency_us=10.0)
    chosen = policies.create("implicit", {})
    (job,) = simulate([replaying(0, program)], machine, chosen, Options(rule), timeout_s=0.1).jobs
    assert [process.phases for process in job.processes] == [times, times]
    waits = job.reads.spun + job.reads.blocked + job.barriers.spun + job.barriers.blocked
    waiting = np.isin(rows[:, 0], (m.LOCKING, m.RECEIVE, m.CLOSING)).sum()
    assert waits == 2 * times * waiting
