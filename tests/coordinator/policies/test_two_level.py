"""Gangs whose slots sequential jobs share: who may run where."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.view import Job, Machine
from workloads.validation import InputError

MS = 1_000_000
SHARING = sorted(name for name in policies.known() if "share" in policies.parameters(name))


def started(name, jobs, processors, **options):
    session = Session(policies.create(name, options), Machine(processors), jobs)
    for job in jobs:
        session.arrive(job.number, 0)
    return session


def test_these_policies_share():
    assert SHARING == ["dhc", "gang", "modified-two-queue", "multilevel-two-queue", "two-queue"]


def test_the_gang_in_its_slot_shares_with_the_sequential_process():
    """Two gangs of 2 take turns; job 2 is on processor 0 in both slots, job 3 on processor 1."""
    jobs = [Job(0, 2), Job(1, 2), Job(2, 1), Job(3, 1)]
    for name in SHARING:
        plan = started(name, jobs, 2, share="sequential").plan
        assert [slot.runs for slot in plan.decision.slots] == [((0, 2), (0, 3)), ((1, 2), (1, 3))], name


def test_without_sharing_a_sequential_job_has_slots_of_its_own():
    plan = started("gang", [Job(0, 2), Job(1, 1)], 2).plan
    assert [slot.runs for slot in plan.decision.slots] == [((0,), (0,)), ((1,), ())]


def test_a_sequential_job_moves_only_if_its_processor_is_lost():
    session = started("gang", [Job(0, 2), Job(1, 1), Job(2, 1)], 2, share="sequential")
    assert session.plan.decision.placements[1] == (0,)
    session.lost([0])
    session.depart(0, MS)
    assert session.replan(MS).decision.placements == {1: (1,), 2: (1,)}


@pytest.mark.parametrize("name", SHARING)
def test_other_ways_to_share_are_named(name):
    with pytest.raises(InputError, match="sequential"):
        policies.create(name, {"share": "interactive"})


history = st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.integers(0, 150)), max_size=20)


@settings(deadline=None)
@given(st.sampled_from(SHARING), history)
def test_sequential_jobs_are_in_every_slot_and_change_nothing_for_gangs(name, steps):
    """At most one gang is on a processor; under ``gang`` they have the slots that they have alone."""
    jobs = [Job(number, size) for number, (_, size, _) in enumerate(steps)]
    both, alone = (
        Session(policies.create(name, options), Machine(4), jobs) for options in ({"share": "sequential"}, {})
    )
    here, now_ns = [], 0

    def look():
        decision = both.plan.decision
        sequential = {job.number for job in here if job.processes == 1}
        gangs = []
        for slot in decision.slots:
            for processor, runs in enumerate(slot.runs):
                ours = {number for number in sequential if decision.placements[number] == (processor,)}
                assert ours <= set(runs) and len(set(runs) - ours) <= 1
            gangs.append(tuple(tuple(set(runs) - sequential) for runs in slot.runs))
        if name == "gang" and alone.plan is not None:
            assert sorted(gangs) == sorted(slot.runs for slot in alone.plan.decision.slots)

    for number, (leaves, size, wait_ms) in enumerate(steps):
        until_ns = now_ns + wait_ms * MS
        for session in (both, alone):
            while session.plan and session.plan.cycle.end_ns is not None:
                if (end_ns := session.plan.cycle.end_ns) >= until_ns:
                    break
                session.slot_end(end_ns)
        now_ns = until_ns
        job = here.pop(size % len(here)) if leaves and here else jobs[number]
        if job is jobs[number]:
            here.append(job)
        for session in (both, alone) if job.processes > 1 else (both,):
            (session.arrive if job is jobs[number] else session.depart)(job.number, now_ns)
        look()
