"""Stretches of a recording: operations of all ranks between two points of the program."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.store.recording import KIND, RankRecording, Recording, Rows

STEADY = 2.0
"""A window belongs to the steady part if its rate of operations is within this factor of the median."""

KEEPS = 0.5


@dataclass(frozen=True)
class Stretch:
    """Operations between two points that all ranks pass: begin, end, or a collective operation."""

    rows: tuple[Rows, ...]  # of each rank, in the order of the recording's ranks
    kept_s: float  # the time that they took, the mean of the ranks
    operations: int  # how many operations of the program they represent


def rates(recording: Recording) -> NDArray[Any]:
    """Operations a second of all ranks, in each window; also of those that are not kept."""
    result = np.zeros(max(len(rank.windows) for rank in recording.ranks))
    for rank in recording.ranks:
        begins_ns = rank.windows["begin_ns"].astype(float)
        lengths_ns = np.diff(begins_ns, append=max(float(rank.finish_ns), begins_ns[-1] + 1))
        result[: len(rank.windows)] += rank.windows["operations"] / lengths_ns * 1e9
    return result


def steady(recording: Recording) -> tuple[int, int]:
    """The first window of the steady part, and the one after its last; everything if there are but three."""
    values = rates(recording)
    if len(values) < 4:
        return 0, len(values)
    middle = float(np.median(values))
    like = np.flatnonzero((values >= middle / STEADY) & (values <= middle * STEADY))
    return (int(like[0]), int(like[-1]) + 1) if len(like) else (0, len(values))


def stretches(recording: Recording, first: int = 0, after: int | None = None) -> list[Stretch]:
    """The stretches from window ``first`` on, up to the one ``after`` the last.

    Windows of which everything is kept are one stretch with the window after them. A stretch that begins
    or ends inside the program is cut at collective operations on MPI_COMM_WORLD that all ranks have. Where
    that would leave less than KEEPS of it, it is not cut, and messages may cross its ends.
    """
    count = max(len(rank.windows) for rank in recording.ranks)
    last = count if after is None else after
    parts = []
    begin = first
    for number in range(first, last):
        whole = all(_whole(rank, number) for rank in recording.ranks)
        if not whole or number + 1 == last:
            part = _stretch(recording, begin, number + 1, count)
            parts += [part] if part else []
            begin = number + 1
    return parts


def _whole(rank: RankRecording, number: int) -> bool:
    if number >= len(rank.windows):
        return True
    return bool(rank.windows[number]["kept"] == rank.windows[number]["operations"])


def _stretch(recording: Recording, begin: int, end: int, count: int) -> Stretch | None:
    """The stretch of windows ``begin`` to ``end``; none if some rank has nothing in it."""
    rows = [np.concatenate([rank.window(n) for n in range(begin, end)]) for rank in recording.ranks]
    at_end = end == count and all(_whole(rank, end - 1) for rank in recording.ranks)
    if not (begin == 0 and at_end):
        windows = [rank.windows[begin : begin + 1]["collectives"] for rank in recording.ranks]
        before = [int(collectives.sum()) for collectives in windows]  # 0 for a rank that has ended
        shorter = _cut(rows, before, at_begin=begin == 0, at_end=at_end)
        if sum(map(len, shorter)) >= KEEPS * sum(map(len, rows)):
            rows = shorter
    if not all(len(one) for one in rows):
        return None
    kept_ns = np.mean([float(one["compute_ns"].sum() + one["within_ns"].sum()) for one in rows])
    operations = sum(int(rank.windows["operations"][begin:end].sum()) for rank in recording.ranks)
    return Stretch(tuple(rows), float(kept_ns) / 1e9, operations)


def _cut(rows: Sequence[Rows], before: Sequence[int], *, at_begin: bool, at_end: bool) -> list[Rows]:
    """The operations after the last of the ranks' first points, up to the first of their last ones.

    A point is an end of a collective operation on MPI_COMM_WORLD, of which ``before`` came earlier.
    """
    places = [np.flatnonzero((one["comm"] == 0) & (one["kind"] >= KIND["BARRIER"])) for one in rows]
    first = max(before) + (not at_begin)  # a window may begin behind messages since the operation before it
    final = min(number + len(place) for number, place in zip(before, places, strict=True))
    if final <= first:
        return [one[:0] for one in rows]
    pieces = []
    for one, number, place in zip(rows, before, places, strict=True):
        start = 0 if at_begin else int(place[first - number - 1]) + 1
        stop = len(one) if at_end else int(place[final - number - 1]) + 1
        pieces.append(one[start:stop])
    return pieces
