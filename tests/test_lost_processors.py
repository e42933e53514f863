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
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import IDLE
from harness.simulator.processes.simulate import simulate
from workloads.machine import QUEUES
from workloads.program import Program
from workloads.validation import InputError

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


BY_PROCESS = [(name, options) for name, options in VARIANTS if not policies.create(name, options).moves]
"""Those whose processes stay where they begin."""


def idle(outcome, processors):
    """Whether nothing ever was on these processors."""
    return not any(outcome.switches[p] or outcome.spent_ns[p, :IDLE].any() for p in processors)


def programs(count, processes):
    """Jobs of one phase after another; one of them is a queue of tasks."""
    made = [Program(processes=processes, granularity_us=300, phases=40) for _ in range(count)]
    made[-1] = Program("TASKS", processes=processes, granularity_us=300, phases=60)
    return [SimulatedJob(n, program, 0.002 * n, moldable=n % 2 == 0) for n, program in enumerate(made)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), BY_PROCESS, ids=str)
def test_no_process_is_simulated_on_a_lost_processor(name: str, options: dict[str, Any]) -> None:
    policy = policies.create(name, options)
    for lost in ((0,), (1, 2), (3, 5, 6)):
        machine = SimulatedMachine(processors=8, local="rr", lost=lost)
        outcome = simulate(programs(3, 2), machine, policy, blocking="fixed")
        assert outcome.failure == ""
        assert idle(outcome, lost)
        assert all(set(lost).isdisjoint(job.placement) for job in outcome.jobs)


@pytest.mark.slow
@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("local", ["rr", "eevdf"])
def test_processes_that_are_not_bound_keep_off_lost_processors(queue: str, local: str) -> None:
    if local == "eevdf" and queue not in ("bound", "stealing"):
        return
    for name, within_job in (("none", False), ("none", True), ("gang", False)):
        machine = SimulatedMachine(
            processors=4, local=local, queue=queue, lost=(0, 2), within_job=within_job, tick_us=1000
        )
        outcome = simulate(programs(4, 2), machine, policies.create(name, {}), blocking="fixed")
        assert outcome.failure == ""
        assert idle(outcome, (0, 2)) and not idle(outcome, (1,)) and not idle(outcome, (3,))


def test_a_job_that_is_larger_than_what_is_left_is_refused_unless_it_folds() -> None:
    machine = SimulatedMachine(processors=4, lost=(1,))
    job = SimulatedJob(0, Program(processes=4, granularity_us=300, phases=2))
    with pytest.raises(
        InputError, match=r"processors is 4, of which machine.lost leaves 3; .*make lost short"
    ):
        simulate([job], machine, policies.create("gang", {}))


@pytest.mark.parametrize(
    ("lost", "key"), [((4,), "lost[0]"), ((0, 0), "lost[1]"), ((0, 1, 2, 3), "lost"), ((-1,), "lost[0]")]
)
def test_a_machine_has_the_processors_that_it_loses(lost: tuple[int, ...], key: str) -> None:
    with pytest.raises(InputError) as told:
        SimulatedMachine(processors=4, lost=lost)
    assert told.value.key == key
