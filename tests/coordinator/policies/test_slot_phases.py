"""Slots that each processor begins at a phase of its own: the same turns, less often together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sessions import MS, session

from coordinator import policies
from coordinator.view import Slot
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.program import Program


def test_an_arrival_in_the_middle_of_a_slot_does_not_lengthen_it():
    run = session("gang", [2, 2, 2], arrived=2, quantum_ms=10, synchronised=False)
    plan = run.arrive(2).decide(27 * MS)  # 7 ms into the slot of job 0
    decision = plan.decision
    assert decision.slots[0] == Slot(((0,), (0,)), 5 * MS)
    assert decision.elapsed_ns == 2 * MS
    assert [slot.runs[0] for slot in decision.slots[1::2]] == [(1,), (2,), (0,)]


@given(st.integers(1, 5), st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 200))
def test_every_process_has_the_same_time_in_a_round_as_with_a_common_clock(processors, sizes, at_ms):
    jobs = [min(size, processors) for size in sizes]
    rounds = []
    for synchronised in (True, False):
        how = {"quantum_ms": 10, "synchronised": synchronised}
        run = session("gang", jobs, processors, arrived=len(jobs) - 1, **how)
        decision = run.arrive(len(jobs) - 1).decide(at_ms * MS).decision
        time_ns = {}
        for slot in decision.slots:
            for processor, able in enumerate(slot.runs):
                for job in able:
                    time_ns[processor, job] = time_ns.get((processor, job), 0) + (slot.length_ns or 0)
        rounds.append((time_ns, decision.placements))
    assert rounds[0] == rounds[1]


@pytest.mark.parametrize("synchronised, least, most", [(True, 1.0, 1.1), (False, 1.8, 2.1)])
def test_fine_grained_jobs_run_only_while_all_their_processes_do(synchronised, least, most):
    policy = policies.create("gang", {"quantum_ms": 4, "synchronised": synchronised})
    machine = SimulatedMachine(2, context_switch_us=5, latency_us=3, local="round-robin")
    jobs = [SimulatedJob(n, Program("BARRIER", 2, 100.0, phases=800)) for n in range(2)]
    alone = simulate(jobs[:1], machine, policy).end_ns
    assert least < simulate(jobs, machine, policy).end_ns / (2 * alone) < most
