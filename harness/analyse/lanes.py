"""What each processor did over time, as arrays: from the spans of ranks, measured or simulated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.analyse.timelines import BLOCKED, COMMUNICATING, COMPUTING, RUNNING, SWITCHING, Span

STATES = ("computing", "spinning", "spinning in vain", "switching", "blocked", "idle")
"""States of a processor. Spinning: the process that is read from runs, or at a barrier all others of the job;
in vain: it does not, or one of them. Blocked: nobody runs, and the last who did waits for a message."""

_COMPUTING, _SPINNING, _IN_VAIN, _SWITCHING, _BLOCKED, _IDLE = range(len(STATES))

Ints = NDArray[np.int64]


class Lane(NamedTuple):
    """The states of a processor: when each begins, in nanoseconds, and a code.

    A code is (wait * processes + process) * len(STATES) + state. A wait is 2 * (rank read from + 1), where
    there is one, + 1 if the process then blocks.
    """

    begins_ns: Ints
    codes: Ints


def lanes(
    spans: Iterable[Span],
    processes: Sequence[tuple[int, int]],
    processors: Sequence[int],
    window_ns: tuple[int, int],
) -> list[Lane]:
    """A lane for each processor, from the begin to the end of a window; times count from its begin.

    ``processes`` are all pairs of a job and a rank.
    """
    number = {process: index for index, process in enumerate(processes)}
    kinds, known, rows = {COMPUTING: _COMPUTING, SWITCHING: _SWITCHING}, list(spans), []
    slept = {(one.job, one.rank, one.begin_ns): one.peer for one in known if one.state == BLOCKED}
    for one in known:
        if one.state in RUNNING and one.end_ns > one.begin_ns:
            asked = slept.get((one.job, one.rank, one.end_ns))
            peer = one.peer if one.state == COMMUNICATING or asked is None else asked
            partners = number[one.job, peer] if peer >= 0 else ~one.job
            wait, kind = 2 * (peer + 1) + (asked is not None), kinds.get(one.state, _SPINNING)
            who = number[one.job, one.rank], partners, wait, one.processor
            rows.append((one.begin_ns, one.end_ns, kind, *who))
    every = np.array(sorted(rows), dtype=np.int64).reshape(-1, 7)
    jobs = np.array([job for job, _ in processes])
    together = {
        one: _together(every, np.flatnonzero(jobs == ~one) if one < 0 else [one])
        for one in set(every[every[:, 2] == _SPINNING, 4].tolist())
    }
    return [_lane(every[every[:, 6] == place], together, window_ns, len(processes)) for place in processors]


def _together(every: Ints, ours: Sequence[int] | Ints) -> Ints:
    """When all ``ours`` begin to run at the same time, when one of them stops, and so on, by turns."""
    runs = every[np.isin(every[:, 3], ours) & (every[:, 2] != _SWITCHING)]
    times, places = np.unique(np.concatenate([runs[:, 0], runs[:, 1]]), return_inverse=True)
    change = np.bincount(places, np.repeat([1, -1], len(runs)), len(times))
    all_run = np.cumsum(change) >= len(ours)
    return times[np.flatnonzero(np.diff(all_run, prepend=False))]


def _lane(rows: Ints, together: dict[int, Ints], window_ns: tuple[int, int], processes: int) -> Lane:
    begin_ns, end_ns = window_ns
    if not len(rows):
        return Lane(np.zeros(1, dtype=np.int64), np.full(1, _IDLE))
    ends = np.minimum(rows[:, 1], np.append(rows[1:, 0], end_ns))
    before, gaps, parts = rows[:1].copy(), rows[ends < np.append(rows[1:, 0], end_ns)].copy(), []
    before[:, [0, 2, 5]] = min(begin_ns, rows[0, 0]), _IDLE, 0
    gaps[:, 0], gaps[:, 2] = np.minimum(gaps[:, 1], end_ns), np.where(gaps[:, 5] % 2, _BLOCKED, _IDLE)
    gaps[:, 5] = 0
    for partners, turns in together.items():
        spun = (rows[:, 2] == _SPINNING) & (rows[:, 4] == partners)
        place = np.searchsorted(rows[spun, 0], turns, side="right") - 1
        inside = (place >= 0) & (turns < np.append(ends[spun], 0)[place])
        parts.append(rows[spun][place[inside]])
        parts[-1][:, 0] = turns[inside]
    found = np.concatenate([before, rows, *parts, gaps])
    found = found[np.argsort(found[:, 0], kind="stable")]
    for partners, turns in together.items():
        spun = (found[:, 2] == _SPINNING) & (found[:, 4] == partners)
        alone = np.searchsorted(turns, found[spun, 0], side="right") % 2 == 0
        found[spun, 2] = np.where(alone, _IN_VAIN, _SPINNING)
    first = max(0, int(np.searchsorted(found[:, 0], begin_ns, side="right")) - 1)
    found = found[first : np.searchsorted(found[:, 0], end_ns)]
    codes = (found[:, 5] * processes + found[:, 3]) * len(STATES) + found[:, 2]
    begins = np.maximum(found[:, 0] - begin_ns, 0)
    last = np.append(np.diff(begins) > 0, True)
    begins, codes = begins[last], codes[last]
    new = np.diff(codes, prepend=-1) != 0
    return Lane(begins[new], codes[new])
