"""The slots of a run as its policy planned them, for runs without timelines, as commands have none.

A policy is a pure function, so the recorded arrivals and ends of the jobs give its decisions again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from coordinator.decide.session import Session
from coordinator.policies import Policy
from coordinator.topology import Topology
from coordinator.view import ExecutionTime, Job, Machine, Slot
from coordinator.workload import seen
from harness.analyse.timelines import COMPUTING, Span
from harness.spec.scheduler import scheduler_of
from harness.store.records import JobRecord, RunRecord

PLANNED = "planned"
"""The side of lanes that come from a plan, beside "measured" and "simulated"."""

MOST_SLOTS = 400
"""After so many slots the replay ends: a chart shows the beginning of a run."""


def planned_slots(record: RunRecord) -> dict[int, list[Span]]:
    """The job that had each processor by the plan; each of its spans is a slot, or a part of one.

    Empty if the local scheduler shares a processor between jobs, Slurm scheduled them, the run failed, or the
    policy followed the parallelism of evolving programs, or messages, which is not on record.
    The plan is the policy's; real switches were some microseconds later.
    """
    scheduler = scheduler_of(record.scheduler)
    if record.makespan_ns is None or scheduler.of_slurm or record.conditions.get("nodes"):
        return {}
    if scheduler.policy.observation:
        return {}
    if scheduler.policy.follows_phases and any("parallelism" in job.program for job in record.jobs):
        return {}
    found: dict[int, list[Span]] = {}
    for begin_ns, end_ns, slot in _slots(record, scheduler.policy):
        if any(len(jobs) > 1 for jobs in slot.runs):
            return {}
        for processor, (job,) in ((place, jobs) for place, jobs in enumerate(slot.runs) if jobs):
            core = record.processors[processor]
            found.setdefault(core, []).append(Span(core, job, 0, COMPUTING, begin_ns, end_ns))
    return found


def _slots(record: RunRecord, policy: Policy) -> Iterator[tuple[int, int, Slot]]:
    processors = len(record.processors)
    machine = Machine(processors, Topology.of(record.conditions, processors))
    session = Session(policy, machine, map(_job, record.jobs))
    count, now_ns = 0, 0
    for (at_ns, arrives), events in groupby(sorted(_events(record.jobs)), lambda event: event[:2]):
        while session.plan and now_ns < at_ns and count < MOST_SLOTS:
            cycle = session.plan.cycle
            if cycle.end_ns is not None and cycle.end_ns <= now_ns:
                session.slot_end(now_ns)
                count += 1
                continue
            index, end_ns = cycle.slot_at(now_ns)
            until_ns = at_ns if end_ns is None else min(end_ns, at_ns)
            yield now_ns, until_ns, session.plan.decision.slots[index]
            count, now_ns = count + 1, until_ns
        if count >= MOST_SLOTS:
            return
        now_ns = at_ns
        first, *others = (number for _, _, number in events)
        if arrives:
            session.arrive(first, at_ns, *others)
        else:
            for number in (first, *others):
                session.depart(number, at_ns)


def _events(jobs: Sequence[JobRecord]) -> Iterator[tuple[int, bool, int]]:
    for job in jobs:
        yield job.arrival_ns, True, job.job
        if job.finish_ns is not None:
            yield job.finish_ns, False, job.job


def _job(job: JobRecord) -> Job:
    estimate = ExecutionTime(**job.estimate) if job.estimate else None
    return seen(job.job, job.work, job.arrival_ns / 1e9, estimate)
