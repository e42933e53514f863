"""Backfilling: which jobs may pass others that wait for processors, and when a job can start.

The simulator compiles these leaf functions over arrays, too.
"""

from typing import Any


def reservation(now_ns: int, spare: int, ends_ns: Any, held: Any) -> tuple[int, int]:
    """The shadow time and the number of extra processors of a job that needs more than are free.

    ``spare`` is the number of free processors less those that the job needs, so it is below 0. The shadow
    time is the earliest time at which, by the estimates, enough processors are free. Extra processors are
    those that are free then and that the job does not need. ``ends_ns`` are the estimated ends of the running
    jobs in ascending order, ``held`` their numbers of processors; an end in the past counts as now.
    Source: Mu'alem and Feitelson 2001.
    """
    shadow_ns = now_ns
    passed = 0
    # Processors of other jobs that end at the shadow time are left over, too.
    while passed < len(ends_ns) and (spare < 0 or ends_ns[passed] <= shadow_ns):
        shadow_ns = max(shadow_ns, ends_ns[passed])
        spare += held[passed]
        passed += 1
    return shadow_ns, spare


def backfill(
    now_ns: int, free: int, reserved: tuple[int, int], line: Any, sizes: Any, estimates_ns: Any, starts: Any
) -> int:
    """Choose jobs of ``line`` that start now; return their number, and their places in ``starts``.

    They wait behind a job that has not enough processors, and for which the shadow time and the extra
    processors are ``reserved``. A job that fits now starts if, by the estimates, it ends by the shadow time,
    or if it needs only extra processors.
    Source: Lifka 1995, "The ANL/IBM SP scheduling system"; Mu'alem and Feitelson 2001.
    """
    shadow_ns, spare = reserved
    count = 0
    place = 0
    while place < len(line) and free > 0:
        job = line[place]
        size = sizes[job]
        if size <= free:
            in_time = now_ns + estimates_ns[job] <= shadow_ns
            if in_time or size <= spare:
                free -= size
                if not in_time:
                    spare -= size
                starts[count] = place
                count += 1
        place += 1
    return count


def earliest(
    size: int, length_ns: int, own_ns: tuple[int, int], begins_ns: Any, free: Any, steps: int
) -> int:
    """The first of the ``steps`` from which on ``size`` processors are free for ``length_ns``.

    From ``begins_ns[i]`` to ``begins_ns[i + 1]`` ``free[i]`` processors are free; after the last all are.
    What the job has taken itself, ``size`` from ``own_ns[0]`` to ``own_ns[1]``, counts as free.
    """
    first = 0
    place = 0
    while place < steps and (first == place or begins_ns[place] - begins_ns[first] < length_ns):
        there = free[place]
        if own_ns[0] <= begins_ns[place] < own_ns[1]:
            there += size
        if there < size:
            first = place + 1
        place += 1
    return first


def occupy(size: int, begin_ns: int, end_ns: int, begins_ns: Any, free: Any, steps: int) -> int:
    """Take ``size`` processors from ``begin_ns`` to ``end_ns`` out of the free ones of ``earliest``.

    A ``size`` below 0 gives them back. Both arrays are modified in place, and have room for two more steps.
    Returns how many there are.
    """
    first = 0
    for boundary_ns in (end_ns, begin_ns):
        first = 0
        behind = steps
        while first < behind:
            middle = (first + behind) >> 1
            if begins_ns[middle] < boundary_ns:
                first = middle + 1
            else:
                behind = middle
        if first == steps or begins_ns[first] > boundary_ns:
            for i in range(steps, first, -1):
                begins_ns[i] = begins_ns[i - 1]
                free[i] = free[i - 1]
            begins_ns[first] = boundary_ns
            free[first] = free[first - 1]
            steps += 1
    while begins_ns[first] < end_ns:
        free[first] -= size
        first += 1
    return steps
