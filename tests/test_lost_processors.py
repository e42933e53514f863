"""Processors that are lost: no policy puts a process on one, and every job that fits still runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator import policies
from coordinator.decide.session import Plan, Session
from coordinator.policies import packing
from coordinator.policies.regions import subcubes, submeshes
from coordinator.view import Job, Machine

MS = 1_000_000

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in policies.known()),
    *(("gang", {"packing": name}) for name in packing.PACKINGS),
    *(("gang", {"packing": name, "migrate": True, "unify": True}) for name in ("matrix", "buddy")),
    *(("gang", options) for options in ({"rows": 1}, {"synchronised": False}, {"fill": "processes"})),
    *((name, {"share": "sequential"}) for name in ("gang", "dhc", "two-queue")),
    *(("mesh", {"allocator": name}) for name in submeshes.ALLOCATORS),
    ("mesh", {"allocator": "paging", "page": 2}),
    *(("hypercube", {"allocator": name}) for name in subcubes.ALLOCATORS),
    *((name, {"sequential": 2}) for name in ("condor", "idle-partition", "owner-share")),
]


@st.composite
def machines(draw: st.DrawFn) -> tuple[int, frozenset[int]]:
    """A number of processors, and some of them, but not all."""
    processors = draw(st.integers(2, 9))
    lost = draw(st.sets(st.integers(0, processors - 1), min_size=1, max_size=processors - 1))
    return processors, frozenset(lost)


def next_plan(run: Session, plan: Plan, now_ns: int) -> tuple[Plan, int] | None:
    """The plan after the next end of a table or timer; None if the policy waits for an event."""
    ends_ns = [at_ns for at_ns in (plan.cycle.end_ns, plan.timer_ns) if at_ns is not None]
    if not ends_ns:
        return None
    now_ns = max(now_ns, min(ends_ns))
    return (run.slot_end if now_ns == plan.cycle.end_ns else run.timer)(now_ns), now_ns


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_job_that_fits_gets_processors_that_are_there(
    name: str, options: dict[str, Any], data: st.DataObject
) -> None:
    processors, lost = data.draw(machines())
    size = st.integers(1, processors - len(lost))
    sizes = data.draw(st.lists(st.tuples(size, st.booleans()), min_size=1, max_size=6))
    jobs = [Job(number, size, 0, moldable) for number, (size, moldable) in enumerate(sizes)]
    run = Session(policies.create(name, options), Machine(processors), jobs)
    run.lost(lost)
    coming, ran, now_ns, plan = [job.number for job in jobs], set(), 0, None
    here: list[int] = []
    while coming or here:
        now_ns += data.draw(st.integers(0, 300)) * MS
        if coming and (not here or data.draw(st.booleans())):
            here.append(coming.pop(0))
            plan = run.arrive(here[-1], now_ns)
        assert plan is not None
        for _ in range(50):
            decision = plan.decision
            assert lost.isdisjoint(p for place in decision.placements.values() for p in place)
            assert not any(runs for slot in decision.slots for p, runs in enumerate(slot.runs) if p in lost)
            for number, place in decision.placements.items():
                assert 1 <= len(place) <= jobs[number].processes
                assert len(place) == jobs[number].processes or jobs[number].moldable
            running = {n for slot in range(len(decision.slots)) for n in decision.running(slot)} & {*here}
            following = None if running else next_plan(run, plan, now_ns)
            if following is None:
                break
            plan, now_ns = following
        assert running, "somebody runs whenever somebody is here"
        if not coming or data.draw(st.booleans()):
            leaving = data.draw(st.sampled_from(sorted(running)))
            here.remove(leaving)
            ran.add(leaving)
            plan = run.depart(leaving, now_ns)
    assert ran == {job.number for job in jobs}
