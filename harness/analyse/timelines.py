"""Who ran where: states of ranks, from the timelines of a run, or slots as its policy planned them.

Runs of commands have no timelines. A policy is a pure function, so the recorded arrivals and ends of the jobs
give its decisions again.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.decide.session import Agenda, Session
from coordinator.policies import Policy
from coordinator.topology import Topology
from coordinator.view import Job, Machine, Reason, Slot
from coordinator.workload import SubmittedJob
from harness.spec.settings import of_table
from harness.store.records import JobRecord, RunRecord
from workloads.record import RankResult
from workloads.timeline import ACTIVITIES, BARRIER, GONE, RAN, READ, RECEIVED, SENT, SLEPT, unpack

COMPUTING, COMMUNICATING, SYNCHRONIZING, SWITCHING = ACTIVITIES
BLOCKED, PREEMPTED = "blocked", "preempted"
RUNNING = ACTIVITIES  # states in which a rank has its processor
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """A rank in one state; times in nanoseconds since the start of the run."""

    processor: int
    job: int
    rank: int
    state: str
    begin_ns: int
    end_ns: int
    peer: int = -1  # the rank that it reads from, or waits for in a read


@dataclass(frozen=True)
class Lanes:
    """The spans on each processor, in a measured run and in its simulated counterpart."""

    name: str
    sides: Mapping[str, Mapping[int, Sequence[Span]]]


@dataclass(frozen=True)
class Message:
    """One end of a message: ``count`` numbers the messages from ``sender`` to ``receiver``."""

    sender: int
    receiver: int
    count: int
    kind: int
    at_ns: int
    sent: bool


def spans(result: RankResult, packed: bytes) -> Iterator[Span]:
    """The states of a rank in order of time; ``packed`` is its timeline, which may lack its beginning."""
    rows = unpack(packed)
    rows = rows[rows[:, 0] < SENT]
    place = result.processor, result.job, result.rank
    origin_ns = result.start_ns
    if (rows[:, 0] >= RAN).any():
        states = {code + RAN: state for code, state in enumerate(ACTIVITIES)} | {SLEPT: BLOCKED}
        for code, begin, end, peer in rows.tolist():
            yield Span(*place, states[code], begin + origin_ns, end + origin_ns, peer)
        return
    first = int(rows[:, 1].min()) if result.timeline_lost and len(rows) else 0
    for state, begin, end, peer in _states(rows, first, result.elapsed_ns):
        yield Span(*place, state, begin + origin_ns, end + origin_ns, peer)


def messages(result: RankResult, packed: bytes) -> Iterator[Message]:
    rows = unpack(packed)
    me, origin_ns = result.rank, result.start_ns
    for code, at, count, peer in rows[rows[:, 0] >= SENT].tolist():
        if code >= RECEIVED:
            yield Message(peer, me, count, code - RECEIVED, at + origin_ns, False)
        else:
            yield Message(me, peer, count, code - SENT, at + origin_ns, True)


def _states(rows: Ints, first: int, last: int) -> Iterator[tuple[str, int, int, int]]:
    """Each state from ``first`` to ``last``, when it begins and ends, and the peer of a read."""
    edges = np.unique(np.clip(np.concatenate([rows[:, 1], rows[:, 2], [first, last]]), first, last))
    middles = (edges[:-1] + edges[1:]) // 2
    state, peer = np.zeros((2, len(middles)), dtype=np.int64)
    for number, code in enumerate((READ, BARRIER, GONE, SLEPT), start=1):
        state[inside(rows[rows[:, 0] == code], middles)] = number
    for request in np.unique(rows[rows[:, 0] == READ, 3]):
        peer[inside(rows[(rows[:, 0] == READ) & (rows[:, 3] == request)], middles)] = request + 1
    changes = np.flatnonzero(np.diff(state, prepend=-1) | np.diff(peer, prepend=-1))
    names = (COMPUTING, COMMUNICATING, SYNCHRONIZING, PREEMPTED, BLOCKED)
    begins, ends, peers = edges[changes], np.append(edges[changes[1:]], last), peer[changes] - 1
    states = (names[number] for number in state[changes])
    return zip(states, begins.tolist(), ends.tolist(), peers.tolist(), strict=True)


def inside(intervals: Ints, times: Ints) -> NDArray[np.bool_]:
    """Whether each of the ascending ``times`` lies in an interval; intervals do not overlap."""
    if not len(intervals):
        return np.zeros(len(times), dtype=np.bool_)
    intervals = intervals[np.argsort(intervals[:, 1], kind="stable")]
    ends = np.maximum.accumulate(intervals[:, 2])
    at = np.searchsorted(intervals[:, 1], times, side="right") - 1
    inside: NDArray[np.bool_] = (at >= 0) & (times < ends[np.maximum(at, 0)])
    return inside


def occupancy(spans: Sequence[Span]) -> dict[int, list[Span]]:
    """The spans of RUNNING states on each processor, in order; consecutive ones of a rank become one.

    Where measured spans overlap by a few microseconds, the later one begins when the earlier one ends.
    """
    spans_of: dict[int, list[Span]] = {}
    for span in sorted((one for one in spans if one.state in RUNNING), key=lambda one: one.begin_ns):
        lane = spans_of.setdefault(span.processor, [])
        last = lane[-1] if lane else None
        begin_ns = max(span.begin_ns, last.end_ns) if last else span.begin_ns
        if span.end_ns <= begin_ns:
            continue
        if last and (last.job, last.rank) == (span.job, span.rank) and begin_ns == last.end_ns:
            lane[-1] = Span(last.processor, last.job, last.rank, last.state, last.begin_ns, span.end_ns)
        else:
            lane.append(Span(span.processor, span.job, span.rank, span.state, begin_ns, span.end_ns))
    return spans_of


PLANNED = "planned"  # the side of lanes that come from a plan, alongside "measured" and "simulated"
MOST_SLOTS = 400  # after so many slots the replay ends: a chart shows the beginning of a run


def planned_slots(record: RunRecord) -> dict[int, list[Span]]:
    """The job that had each processor by the plan; each of its spans is a slot, or a part of one.

    Empty if the local scheduler shares a processor between jobs, the run failed, or the policy followed what
    is not on record: the parallelism of evolving programs, or messages. Also empty if it is a setting
    or a cluster: then none is known.
    The plan is the policy's; real switches were some microseconds later.
    """
    scheduler = of_table(record.scheduler)
    if record.makespan_ns is None or record.conditions.nodes:
        return {}
    if scheduler.policy.observation or not scheduler.decides:
        return {}
    if scheduler.policy.reacts_to_phases and any("parallelism" in job.program for job in record.jobs):
        return {}
    spans_of: dict[int, list[Span]] = {}
    for begin_ns, end_ns, slot in _slots(record, scheduler.policy):
        if any(len(jobs) > 1 for jobs in slot.runs):
            return {}
        for processor, (job,) in ((place, jobs) for place, jobs in enumerate(slot.runs) if jobs):
            core = record.processors[processor]
            spans_of.setdefault(core, []).append(Span(core, job, 0, COMPUTING, begin_ns, end_ns))
    return spans_of


def _slots(record: RunRecord, policy: Policy) -> Iterator[tuple[int, int, Slot]]:
    processors = len(record.processors)
    machine = Machine(processors, Topology.of(record.conditions.recorded(), processors))
    session = Session(policy, machine, map(_job, record.jobs))
    agenda = Agenda(session)
    finishes = deque(sorted((job.finish_ns, job.job) for job in record.jobs if job.finish_ns is not None))
    count, now_ns = 0, 0
    while finishes and count < MOST_SLOTS:
        due_ns = agenda.due_ns()
        at_ns = finishes[0][0] if due_ns is None else min(due_ns, finishes[0][0])
        if session.plan and now_ns < at_ns:
            index, end_ns = session.plan.cycle.slot_at(now_ns)
            until_ns = at_ns if end_ns is None else min(end_ns, at_ns)
            yield now_ns, until_ns, session.plan.decision.slots[index]
            count, now_ns = count + 1, until_ns
        else:
            now_ns = max(now_ns, at_ns)
            agenda.happen(now_ns)
            while finishes and finishes[0][0] <= now_ns:
                session.depart(finishes.popleft()[1])
            count += session.reason is Reason.SLOT_END
            session.decide(now_ns)


def _job(job: JobRecord) -> Job:
    return SubmittedJob(job.job, job.work, job.arrival_ns / 1e9, job.execution_time, job.submitted_by).seen()


STATES = ("computing", "spinning", "spinning uselessly", "switching", "blocked", "idle")
"""States of a processor. Spinning: the process that is read from runs, or at a barrier all others of the job;
uselessly: it does not, or one of them. Blocked: none runs, and the last that did waits for a message."""

_COMPUTING, _SPINNING, _IN_VAIN, _SWITCHING, _BLOCKED, _IDLE = range(len(STATES))


Process = tuple[int, int]  # a job and a rank


class Lane(NamedTuple):
    """The states of a processor: when each begins, and its code."""

    begins_ns: Ints
    # (wait * processes + process) * len(STATES) + state; a wait is 2 * (rank read from + 1), where there is
    # one, + 1 if the process then blocks.
    codes: Ints


def lanes(
    spans: Iterable[Span], processes: Sequence[Process], processors: Sequence[int], window_ns: tuple[int, int]
) -> list[Lane]:
    """A lane for each processor, with times since the window begins; ``processes`` are all (job, rank)."""
    number = {process: index for index, process in enumerate(processes)}
    kinds, rows_of_rank = {COMPUTING: _COMPUTING, SWITCHING: _SWITCHING}, list(spans)
    slept = {(one.job, one.rank, one.begin_ns): one.peer for one in rows_of_rank if one.state == BLOCKED}
    rows = [(place, -1, -1, _IDLE, 0, 0, 0) for place in processors]  # over before the first begins
    for one in rows_of_rank:
        if one.state in RUNNING and one.end_ns > one.begin_ns:
            wait_of_rank = slept.get((one.job, one.rank, one.end_ns))
            peer = one.peer if one.state == COMMUNICATING or wait_of_rank is None else wait_of_rank
            partners = number[one.job, peer] if peer >= 0 else ~one.job
            wait, kind = 2 * (peer + 1) + (wait_of_rank is not None), kinds.get(one.state, _SPINNING)
            who = number[one.job, one.rank], partners, wait
            rows.append((one.processor, one.begin_ns, one.end_ns, kind, *who))
    every = np.array(sorted(rows), dtype=np.int64)
    times = np.unique(np.append(every[:, 1:3], window_ns[0]))
    times = times[(window_ns[0] <= times) & (times < window_ns[1])]
    runs, jobs = every[every[:, 3] != _SWITCHING], np.array([job for job, _ in processes])
    running = [inside(runs[runs[:, 4] == one], times) for one in range(len(processes))]
    whole = [np.all(running, axis=0, where=(jobs == job)[:, None]) for job in range(max(jobs) + 1)]
    together = np.array([*running, *whole[::-1]])  # its rows are partners: processes, and ~job for whole jobs
    ranks = []
    for place in processors:
        ours = every[every[:, 0] == place]
        here = ours[np.searchsorted(ours[:, 1], times, side="right") - 1]
        _, _, ends, kind, process, partners, wait = here.T
        alone, left = ~together[partners, np.arange(len(times))], ends <= times
        states = np.where((kind == _SPINNING) & alone, _IN_VAIN, kind)
        states = np.where(left, np.where(wait % 2, _BLOCKED, _IDLE), states)
        codes = (np.where(left, 0, wait) * len(processes) + process) * len(STATES) + states
        new = np.diff(codes, prepend=-1) != 0
        ranks.append(Lane(times[new] - window_ns[0], codes[new]))
    return ranks
