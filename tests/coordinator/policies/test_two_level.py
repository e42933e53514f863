"""Gangs whose slots sequential jobs share: who may run where."""

from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import MS, session

from coordinator import policies
from coordinator.view import Job

SHARING = sorted(name for name in policies.known() if "share" in policies.parameters(name))


def test_a_sequential_job_moves_only_if_its_processor_is_lost():
    run = session("gang", [2, 1, 1], arrived=3, share="sequential")
    assert run.plan.decision.placements[1] == (0,)
    assert run.lose([0]).depart(0).decide(MS).decision.placements == {1: (1,), 2: (1,)}


history = st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.integers(0, 150)), max_size=20)


@settings(deadline=None)
@given(st.sampled_from(SHARING), history)
def test_sequential_jobs_are_in_every_slot_and_change_nothing_for_gangs(name, steps):
    """At most one gang is on a processor; under ``gang`` they have the slots that they have alone."""
    jobs = [Job(number, size) for number, (_, size, _) in enumerate(steps)]
    both, alone = (session(name, jobs, 4, **options) for options in ({"share": "sequential"}, {}))
    here = []
    now_ns = 0

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
        for run in (both, alone):
            while run.plan and run.plan.cycle.end_ns is not None:
                if (end_ns := run.plan.cycle.end_ns) >= until_ns:
                    break
                run.slot_end().decide(end_ns)
        now_ns = until_ns
        job = here.pop(size % len(here)) if leaves and here else jobs[number]
        if job is jobs[number]:
            here.append(job)
        for run in (both, alone) if job.processes > 1 else (both,):
            (run.arrive if job is jobs[number] else run.depart)(job.number).decide(now_ns)
        look()
