"""What each processor did over time, as arrays: from the spans of ranks, measured or simulated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.analyse.timelines import COMPUTING, RUNNING, SWITCHING, Span

STATES = ("computing", "spinning", "spinning in vain", "switching", "blocked", "idle")
"""States of a processor. Spinning: all other processes of the job run, too; in vain: one of them does not.
Blocked: nobody runs, since all who may run here wait for messages."""

_COMPUTING, _SPINNING, _IN_VAIN, _SWITCHING, _BLOCKED, _IDLE = range(len(STATES))

Ints = NDArray[np.int64]


class Lane(NamedTuple):
    """The states of a processor: when each begins, in nanoseconds, and process * len(STATES) + state."""

    begins_ns: Ints
    codes: Ints


def lanes(
    spans: Iterable[Span],
    processes: Sequence[tuple[int, int]],
    processors: Sequence[int],
    window_ns: tuple[int, int],
    *,
    blocks: bool,
) -> list[Lane]:
    """A lane for each processor, from the begin to the end of a window; times count from its begin.

    ``processes`` are all pairs of a job and a rank. If none of them ``blocks``, a processor without a process
    is idle: none may run in this slot, or somebody else does.
    """
    number = {process: index for index, process in enumerate(processes)}
    kinds = {COMPUTING: _COMPUTING, SWITCHING: _SWITCHING}
    rows = [
        (one.begin_ns, one.end_ns, kinds.get(one.state, _SPINNING), number[one.job, one.rank], one.processor)
        for one in spans
        if one.state in RUNNING and one.end_ns > one.begin_ns
    ]
    every = np.array(sorted(rows), dtype=np.int64).reshape(-1, 5)
    jobs = np.array([job for job, _ in processes])
    together = {job: _together(every, np.flatnonzero(jobs == job)) for job in set(jobs.tolist())}
    return [
        _lane(every[every[:, 4] == processor], jobs, together, window_ns, _BLOCKED if blocks else _IDLE)
        for processor in processors
    ]


def _together(every: Ints, ours: Ints) -> Ints:
    """When all ``ours`` begin to run at the same time, when one of them stops, and so on, by turns."""
    runs = every[np.isin(every[:, 3], ours) & (every[:, 2] != _SWITCHING)]
    times, places = np.unique(np.concatenate([runs[:, 0], runs[:, 1]]), return_inverse=True)
    change = np.bincount(places, np.repeat([1, -1], len(runs)), len(times))
    all_run = np.cumsum(change) >= len(ours)
    return times[np.flatnonzero(np.diff(all_run, prepend=False))]


def _lane(rows: Ints, jobs: Ints, together: dict[int, Ints], window_ns: tuple[int, int], gap: int) -> Lane:
    begin_ns, end_ns = window_ns
    if not len(rows):
        return Lane(np.zeros(1, dtype=np.int64), np.full(1, _IDLE))
    starts, ends = rows[:, 0], np.minimum(rows[:, 1], np.append(rows[1:, 0], end_ns))
    parts = [rows[:, [0, 2, 3]]]
    for job, turns in together.items():
        spun = (rows[:, 2] == _SPINNING) & (jobs[rows[:, 3]] == job)
        place = np.searchsorted(starts[spun], turns, side="right") - 1
        inside = (place >= 0) & (turns < np.append(ends[spun], 0)[place])
        more = rows[spun][place[inside]][:, [0, 2, 3]]
        more[:, 0] = turns[inside]
        parts.append(more)
    free = ends < np.append(starts[1:], end_ns)
    idle = np.stack([ends[free], np.full(free.sum(), gap), rows[free, 3]], axis=1)
    if len(idle) and ends[-1] == idle[-1, 0]:
        idle[-1, 1] = _IDLE  # all have ended
    found = np.concatenate([[[min(begin_ns, starts[0]), _IDLE, rows[0, 3]]], *parts, idle])
    found = found[np.argsort(found[:, 0], kind="stable")]
    for job, turns in together.items():
        spun = (found[:, 1] == _SPINNING) & (jobs[found[:, 2]] == job)
        alone = np.searchsorted(turns, found[spun, 0], side="right") % 2 == 0
        found[spun, 1] = np.where(alone, _IN_VAIN, _SPINNING)
    first = max(0, int(np.searchsorted(found[:, 0], begin_ns, side="right")) - 1)
    found = found[first : np.searchsorted(found[:, 0], end_ns)]
    codes = found[:, 2] * len(STATES) + found[:, 1]
    begins = np.maximum(found[:, 0] - begin_ns, 0)
    last = np.append(np.diff(begins) > 0, True)
    begins, codes = begins[last], codes[last]
    new = np.diff(codes, prepend=-1) != 0
    return Lane(begins[new], codes[new])
