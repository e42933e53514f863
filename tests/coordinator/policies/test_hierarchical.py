"""Distributed hierarchical control: what each controller runs, and when."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import MS, session

from coordinator.view import Job


@settings(deadline=None)
@given(st.integers(1, 8), st.lists(st.integers(1, 8), min_size=1, max_size=7))
def test_every_job_runs_in_a_round_and_a_controller_favours_none(processors, sizes):
    """Over many rounds the jobs of a block differ by one slot at most."""
    sizes = [min(size, processors) for size in sizes]
    run = session("dhc", sizes, processors, len(sizes), quantum_ms=10)
    counts = Counter()
    for _ in range(6):
        decision = run.plan.decision
        ran = Counter(n for i in range(len(decision.slots)) for n in decision.running(i))
        assert set(ran) == set(decision.placements)
        counts += ran
        if run.plan.cycle.end_ns is None:
            return
        run.slot_end().decide(run.plan.cycle.end_ns)
    for number, place in decision.placements.items():
        for other, there in decision.placements.items():
            if place == there and sizes[number] == sizes[other]:
                assert abs(counts[number] - counts[other]) <= 1


events = st.lists(
    st.tuples(st.sampled_from(["arrive", "depart", "pass"]), st.integers(1, 8), st.integers(0, 40)),
    max_size=30,
)


@settings(deadline=None)
@given(st.integers(1, 8), events)
def test_gangs_run_whole_and_nobody_starves(processors, history):
    """Whatever happens; a job that stays has run, at the latest, when two rounds have passed."""
    jobs = [Job(n, min(size, processors), 0) for n, (_, size, _) in enumerate(history)]
    run = session("dhc", jobs, processors, quantum_ms=10)
    here = []
    now_ns = 0

    def look(plan):
        for index, slot in enumerate(plan.decision.slots):
            for number in plan.decision.running(index):
                assert [(number,)] * len(plan.decision.placements[number]) == [
                    slot.runs[p] for p in plan.decision.placements[number]
                ]
            assert sum(map(len, slot.runs)) == sum(
                len(plan.decision.placements[n]) for n in plan.decision.running(index)
            )

    for number, (what, choice, wait_ms) in enumerate(history):
        until_ns = now_ns + wait_ms * MS
        while run.plan and (run.plan.cycle.end_ns or until_ns) < until_ns:
            look(run.slot_end().decide(run.plan.cycle.end_ns))
        now_ns = until_ns
        if what == "depart" and here:
            look(run.depart(here.pop(choice % len(here))).decide(now_ns))
        elif what == "arrive":
            here.append(number)
            look(run.arrive(number).decide(now_ns))
    if here:
        seen = set()
        for _ in range(2):
            slots = range(len(run.plan.decision.slots))
            seen |= set().union(*(run.plan.decision.running(slot) for slot in slots))
            if run.plan.cycle.end_ns is not None:
                look(run.slot_end().decide(run.plan.cycle.end_ns))
        assert seen == set(here)
