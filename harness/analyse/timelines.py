"""The states of each rank over time, from the timelines of a measured or simulated run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.timeline import ACTIVITIES, BARRIER, GONE, RAN, READ, RECEIVED, SENT, SLEPT, unpack

COMPUTING, COMMUNICATING, SYNCHRONIZING, SWITCHING = ACTIVITIES
BLOCKED, PREEMPTED = "blocked", "preempted"
RUNNING = ACTIVITIES
"""States in which a rank has its processor."""

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


def spans(record: Mapping[str, Any], packed: bytes) -> Iterator[Span]:
    """The states of a rank in order of time; a measured rank has no gaps.

    ``record`` is its rank record, ``packed`` its timeline, which may lack its beginning.
    """
    rows = unpack(packed)
    rows = rows[rows[:, 0] < SENT]
    place = record["processor"], record["job"], record["rank"]
    origin_ns = record["start_ns"]
    if len(rows) and rows[0, 0] >= RAN:
        for code, begin, end, _ in rows.tolist():
            yield Span(*place, ACTIVITIES[code - RAN], begin + origin_ns, end + origin_ns)
        return
    first = int(rows[:, 1].min()) if record.get("timeline_lost") and len(rows) else 0
    edges, states = _states(rows, first, record["finish_ns"] - origin_ns)
    for state, begin, end in zip(states, edges[:-1], edges[1:], strict=True):
        yield Span(*place, state, begin + origin_ns, end + origin_ns)


def messages(record: Mapping[str, Any], packed: bytes) -> Iterator[Message]:
    rows = unpack(packed)
    me, origin_ns = record["rank"], record["start_ns"]
    for code, at, count, peer in rows[rows[:, 0] >= SENT].tolist():
        if code >= RECEIVED:
            yield Message(peer, me, count, code - RECEIVED, at + origin_ns, False)
        else:
            yield Message(me, peer, count, code - SENT, at + origin_ns, True)


def _states(rows: Ints, first: int, last: int) -> tuple[list[int], list[str]]:
    """The states from ``first`` to ``last``, and the times at which they begin and end."""
    edges = np.unique(np.clip(np.concatenate([rows[:, 1], rows[:, 2], [first, last]]), first, last))
    middles = (edges[:-1] + edges[1:]) // 2
    state = np.zeros(len(middles), dtype=np.int64)
    for number, code in enumerate((READ, BARRIER, GONE, SLEPT), start=1):
        state[_inside(rows[rows[:, 0] == code], middles)] = number
    changes = np.flatnonzero(np.diff(state, prepend=-1))
    names = (COMPUTING, COMMUNICATING, SYNCHRONIZING, PREEMPTED, BLOCKED)
    return [*edges[changes].tolist(), last], [names[number] for number in state[changes]]


def _inside(intervals: Ints, times: Ints) -> NDArray[np.bool_]:
    """Whether each of the ascending ``times`` lies in an interval; intervals do not overlap."""
    if not len(intervals):
        return np.zeros(len(times), dtype=np.bool_)
    intervals = intervals[np.argsort(intervals[:, 1], kind="stable")]
    ends = np.maximum.accumulate(intervals[:, 2])
    at = np.searchsorted(intervals[:, 1], times, side="right") - 1
    inside: NDArray[np.bool_] = (at >= 0) & (times < ends[np.maximum(at, 0)])
    return inside


def occupancy(spans: Sequence[Span]) -> dict[int, list[Span]]:
    """The spans of RUNNING states on each processor, in order of time and without overlap.

    Consecutive spans of one rank become one, with the state of the first. Where measured spans
    overlap by a few microseconds, the later one begins when the earlier one ends.
    """
    found: dict[int, list[Span]] = {}
    for span in sorted((one for one in spans if one.state in RUNNING), key=lambda one: one.begin_ns):
        lane = found.setdefault(span.processor, [])
        last = lane[-1] if lane else None
        begin_ns = max(span.begin_ns, last.end_ns) if last else span.begin_ns
        if span.end_ns <= begin_ns:
            continue
        if last and (last.job, last.rank) == (span.job, span.rank) and begin_ns == last.end_ns:
            lane[-1] = Span(last.processor, last.job, last.rank, last.state, last.begin_ns, span.end_ns)
        else:
            lane.append(Span(span.processor, span.job, span.rank, span.state, begin_ns, span.end_ns))
    return found
