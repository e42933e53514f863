"""The seats of a new gang, and the gangs that run together.

All packings use Ousterhout's linear array of process slots: slot n belongs to
processor n mod P in row n div P, and a gang's *seats* are the slots of its
processes. A *window* is P neighbouring slots, one of each processor, which run at the same time.
In the matrix packings windows are rows; in the linear ones they begin anywhere. Every
packing gets the number of rows, and returns None if it finds no place in them.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import filterfalse, islice

from coordinator.policies.partitions import width

Seats = tuple[int, ...]
"""Slots of the linear array, ascending, no two of one processor."""

Seating = Mapping[int, Seats]
"""The seats of gangs, by the numbers of their jobs."""


def matrix(taken: set[int], size: int, processors: int, rows: int) -> Seats | None:
    """The first row with enough empty slots (Ousterhout 1982; survey, Matrix Algorithm)."""
    for first in range(0, rows * processors, processors):
        empty = filterfalse(taken.__contains__, range(first, first + processors))
        if len(free := tuple(islice(empty, size))) == size:
            return free
    return None


def buddy(taken: set[int], size: int, processors: int, rows: int) -> Seats | None:
    """The first row with room in the least loaded block of the right size that has one.

    A block's load is the number of processes on its processors. Distributed hierarchical control has
    the same blocks and chooses among them alike, but it has no rows: every block has its own turns
    (Feitelson and Rudolph 1990; :mod:`coordinator.policies.hierarchical`).
    """
    block = min(width(size), processors)
    starts = [s for s in range(0, processors, block) if min(s + block, processors) - s >= size]
    loads = Counter(n % processors // block for n in taken)
    for start in sorted(starts, key=lambda s: loads[s // block]):
        for first in range(start, rows * processors, processors):
            if taken.isdisjoint(range(first, first + min(block, processors - start))):
                return tuple(range(first, first + size))
    return None


def continuous(taken: set[int], size: int, processors: int, rows: int) -> Seats | None:
    """The first empty slots of the first window, from an empty slot on, that has enough (survey)."""
    end = rows * processors
    for start in range(end):
        if start not in taken:
            empty = [n for n in range(start, min(start + processors, end)) if n not in taken]
            if len(empty) >= size:
                return tuple(empty[:size])
    return None


def undivided(taken: set[int], size: int, processors: int, rows: int) -> Seats | None:
    """The first run of neighbouring empty slots that is long enough (survey, Undivided Algorithm)."""
    for start in range(rows * processors - size + 1):
        if taken.isdisjoint(range(start, start + size)):
            return tuple(range(start, start + size))
    return None


PACKINGS: Mapping[str, Callable[[set[int], int, int, int], Seats | None]] = {
    "matrix": matrix,
    "continuous": continuous,
    "undivided": undivided,
    "buddy": buddy,
}
LINEAR = ("continuous", "undivided")


def seat(
    packing: str,
    taken: set[int],
    size: int,
    processors: int,
    *,
    rows: int = 0,
    lost: frozenset[int] = frozenset(),
) -> Seats | None:
    """The seats of a gang of ``size`` in the named packing, none on ``lost`` processors.

    None if so many ``rows`` have no place for it; 0 means any number. A gang for which the packing has no
    place on the remaining processors of an empty machine gets seats by the matrix packing; if it is
    larger than these are, as if none were lost.
    """
    # Three rows beyond the last used one are enough for any gang that fits, also across row ends.
    enough = max(taken, default=0) // processors + 4
    rows = min(rows or enough, enough)
    closed = _closed(rows, processors, lost)
    if closed and PACKINGS[packing](closed, size, processors, rows) is None:
        if size <= processors - len(lost):
            packing = "matrix"
        else:
            closed = set()
    return PACKINGS[packing](taken | closed if closed else taken, size, processors, rows)


def _closed(rows: int, processors: int, lost: frozenset[int]) -> set[int]:
    return {row * processors + p for row in range(rows) for p in lost}


def windows(seats: Seating, processors: int, linear: bool) -> list[int]:
    """The first slots of windows that together run every gang whole; linear ones begin with a gang."""
    starts = sorted({place[0] for place in seats.values()})
    if not linear:
        return sorted({start // processors * processors for start in starts})
    separate: list[int] = []
    seen: set[int] = set()
    first = {place[0]: number for number, place in seats.items()}
    for start, gangs in zip(starts, whole(seats, starts, processors), strict=True):
        if first[start] not in seen:
            separate.append(start)
            seen.update(gangs)
    return separate


def whole(seats: Seating, starts: Iterable[int], processors: int) -> Iterator[list[int]]:
    """For each window that begins at one of ``starts``, the gangs all of whose processes are in it."""
    order = sorted(seats, key=lambda number: seats[number][0])
    firsts = [seats[number][0] for number in order]
    for start in starts:
        end = start + processors
        here = order[bisect_left(firsts, start) : bisect_left(firsts, end)]
        yield [number for number in here if seats[number][-1] < end]


def unify(seats: Seating, processors: int) -> dict[int, Seats]:
    """The seats after joining rows that use different processors, each with the first row that it fits in."""
    rows: dict[int, dict[int, Seats]] = {}
    for number, place in sorted(seats.items(), key=lambda item: item[1]):
        rows.setdefault(place[0] // processors, {})[number] = place
    joined: list[tuple[int, set[int], dict[int, Seats]]] = []
    for row, gangs in rows.items():
        columns = {n % processors for place in gangs.values() for n in place}
        for target, taken, members in joined:
            if taken.isdisjoint(columns):
                members |= {
                    n: tuple(s + (target - row) * processors for s in place) for n, place in gangs.items()
                }
                taken.update(columns)
                break
        else:
            joined.append((row, columns, gangs))
    return {number: place for _, _, members in joined for number, place in members.items()}


def migrate(
    packing: str, seats: Seating, processors: int, lost: frozenset[int] = frozenset()
) -> dict[int, Seats]:
    """The seats after emptying rows whose gangs all find seats in the other rows, the emptiest row first.

    Only the gangs of those rows get other seats, the largest first, by the named matrix packing, and none
    on ``lost`` processors.
    """
    result = dict(seats)
    load = _load(seats, processors)
    for row in sorted(load, key=lambda row: (load[row], -row)):
        moved = _elsewhere(packing, result, load, row, processors, lost)
        if moved is not None:
            result |= moved
            load = _load(result, processors)
    return result


def _load(seats: Seating, processors: int) -> Counter[int]:
    """The seats that gangs have in each row; no gang is in two."""
    load: Counter[int] = Counter()
    for place in seats.values():
        load[place[0] // processors] += len(place)
    return load


def _elsewhere(
    packing: str,
    seats: Seating,
    load: Mapping[int, int],
    row: int,
    processors: int,
    lost: frozenset[int],
) -> dict[int, Seats] | None:
    """Seats in the other rows that are used for the gangs of ``row``; None if one of them finds none."""
    free = [processors - size for other, size in load.items() if other != row]
    if sum(free) < load[row]:
        return None  # wherever the free seats are, and before a look at every gang
    gangs = [number for number, place in seats.items() if place[0] // processors == row]
    gangs.sort(key=lambda number: -len(seats[number]))
    if max(free) < len(seats[gangs[0]]):
        return None
    other_rows = load.keys() - {row}
    count = max(other_rows) + 1
    shut = [range(r * processors, (r + 1) * processors) for r in range(count) if r not in other_rows]
    taken = set[int]().union(*shut)
    taken.update(_closed(count, processors, lost), *seats.values())
    moved: dict[int, Seats] = {}
    for number in gangs:
        place = PACKINGS[packing](taken, len(seats[number]), processors, count)
        if place is None:
            return None
        moved[number] = place
        taken.update(place)
    return moved
