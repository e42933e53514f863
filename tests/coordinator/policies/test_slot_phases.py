"""Slots that each processor begins at a phase of its own: the same turns, less often together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.view import Job, Machine, Slot
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.program import Program

MS = 1_000_000


def session(jobs, processors, **options):
    policy = policies.create("gang", {"quantum_ms": 10, "synchronised": False, **options})
    return Session(policy, Machine(processors), jobs)


def test_processors_change_one_after_the_other():
    run = session([Job(0, 2), Job(1, 2)], 2)
    assert run.arrive(0, 0).decision.slots == (Slot(((0,), (0,))),)
    plan = run.arrive(1, 0)
    assert plan.decision.slots == (
        Slot(((0,), (1,)), 5 * MS),
        Slot(((0,), (0,)), 5 * MS),
        Slot(((1,), (0,)), 5 * MS),
        Slot(((1,), (1,)), 5 * MS),
    )
    assert plan.decision.cyclic


def test_an_arrival_in_the_middle_of_a_slot_does_not_lengthen_it():
    run = session([Job(n, 2) for n in range(3)], 2)
    run.arrive(0, 0)
    run.arrive(1, 0)
    plan = run.arrive(2, 27 * MS)  # 7 ms into the slot of job 0
    decision = plan.decision
    assert decision.slots[0] == Slot(((0,), (0,)), 5 * MS)
    assert decision.elapsed_ns == 2 * MS
    assert [slot.runs[0] for slot in decision.slots[1::2]] == [(1,), (2,), (0,)]


@given(st.integers(1, 5), st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 200))
def test_every_process_has_the_same_time_in_a_round_as_with_a_common_clock(processors, sizes, at_ms):
    jobs = [Job(n, min(size, processors)) for n, size in enumerate(sizes)]
    rounds = []
    for synchronised in (True, False):
        run = session(jobs, processors, synchronised=synchronised)
        for job in jobs[:-1]:
            run.arrive(job.number, 0)
        decision = run.arrive(len(jobs) - 1, at_ms * MS).decision
        time_ns = {}
        for slot in decision.slots:
            for processor, able in enumerate(slot.runs):
                for job in able:
                    time_ns[processor, job] = time_ns.get((processor, job), 0) + (slot.length_ns or 0)
        rounds.append((time_ns, decision.placements))
    assert rounds[0] == rounds[1]


@pytest.mark.parametrize(("synchronised", "least", "most"), [(True, 1.0, 1.1), (False, 1.8, 2.1)])
def test_fine_grained_jobs_run_only_while_all_their_processes_do(synchronised, least, most):
    policy = policies.create("gang", {"quantum_ms": 4, "synchronised": synchronised})
    machine = SimulatedMachine(2, context_switch_us=5, latency_us=3, local="round-robin")
    jobs = [SimulatedJob(n, Program("BARRIER", 2, 100.0, phases=800)) for n in range(2)]
    alone = simulate(jobs[:1], machine, policy).end_ns
    assert least < simulate(jobs, machine, policy).end_ns / (2 * alone) < most
