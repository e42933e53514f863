"""What each processor did over time, as arrays: from the spans of ranks, measured or simulated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.analyse.timelines import BLOCKED, COMMUNICATING, COMPUTING, RUNNING, SWITCHING, Span, inside

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
    kinds, known = {COMPUTING: _COMPUTING, SWITCHING: _SWITCHING}, list(spans)
    slept = {(one.job, one.rank, one.begin_ns): one.peer for one in known if one.state == BLOCKED}
    rows = [(place, -1, -1, _IDLE, 0, 0, 0) for place in processors]  # over before the first begins
    for one in known:
        if one.state in RUNNING and one.end_ns > one.begin_ns:
            asked = slept.get((one.job, one.rank, one.end_ns))
            peer = one.peer if one.state == COMMUNICATING or asked is None else asked
            partners = number[one.job, peer] if peer >= 0 else ~one.job
            wait, kind = 2 * (peer + 1) + (asked is not None), kinds.get(one.state, _SPINNING)
            who = number[one.job, one.rank], partners, wait
            rows.append((one.processor, one.begin_ns, one.end_ns, kind, *who))
    every = np.array(sorted(rows), dtype=np.int64)
    times = np.unique(np.append(every[:, 1:3], window_ns[0]))
    times = times[(window_ns[0] <= times) & (times < window_ns[1])]
    runs, jobs = every[every[:, 3] != _SWITCHING], np.array([job for job, _ in processes])
    running = [inside(runs[runs[:, 4] == one], times) for one in range(len(processes))]
    whole = [np.all(running, axis=0, where=(jobs == job)[:, None]) for job in range(max(jobs) + 1)]
    together = np.array([*running, *whole[::-1]])  # its rows are partners: processes, and ~job for whole jobs
    found = []
    for place in processors:
        ours = every[every[:, 0] == place]
        here = ours[np.searchsorted(ours[:, 1], times, side="right") - 1]
        _, _, ends, kind, process, partners, wait = here.T
        alone, left = ~together[partners, np.arange(len(times))], ends <= times
        states = np.where((kind == _SPINNING) & alone, _IN_VAIN, kind)
        states = np.where(left, np.where(wait % 2, _BLOCKED, _IDLE), states)
        codes = (np.where(left, 0, wait) * len(processes) + process) * len(STATES) + states
        new = np.diff(codes, prepend=-1) != 0
        found.append(Lane(times[new] - window_ns[0], codes[new]))
    return found
