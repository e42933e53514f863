"""Blocks of a buddy system, queues by their size, and subcubes."""

from independent_scheduler.loop import start


def width(processors):
    return 1 << (processors - 1).bit_length()


def taken(state):
    return frozenset().union(*(job.place for job in state.running))


def free_places(state):
    return frozenset(range(state.processors)) - taken(state)


def block(state, job):
    """A block, out of the smallest wholly free one that is large enough, the lowest of equals.

    A job for which even the empty machine has none gets all of it.
    """
    free, whole, needed = free_places(state), width(state.processors), width(job.max_processes)
    size = needed
    while size <= whole:
        for first in range(0, whole, size):
            larger = range(first // (2 * size) * 2 * size, first // (2 * size) * 2 * size + 2 * size)
            if free.issuperset(range(first, first + size)) and (size == whole or not free.issuperset(larger)):
                return frozenset(range(first, first + needed))
        size *= 2
    return free if not state.running else frozenset()


def placed(find):
    """First come, first served, each job on the processors that ``find`` finds for it."""

    def rule(state):
        for job in state.waiting:
            job.place = find(state, job)
            if not job.place:
                break
            start(state, job, job.max_processes)

    return rule


def scan(step):
    """A queue for each size of block: one is served until it is empty, then the next that is not."""

    def rule(state):
        sizes = [1 << k for k in range(width(state.processors).bit_length())]
        at = state.memory.setdefault("at", 0 if step > 0 else len(sizes) - 1)
        while waiting := [job for job in state.waiting if job.begin_ns < 0]:
            while not (queue := [job for job in waiting if width(job.max_processes) == sizes[at]]):
                at = (at + step) % len(sizes)
            queue[0].place = block(state, queue[0])
            if not queue[0].place:
                break
            start(state, queue[0], queue[0].max_processes)
        state.memory["at"] = at

    return rule


def cube(corner, dimensions):
    found = {corner}
    for dimension in dimensions:
        found |= {place ^ 1 << dimension for place in found}
    return frozenset(found)


def subcube(choices, by_choice):
    """The first free subcube of the ``choices`` of dimensions: by corner, or one choice after the other."""

    def find(state, job):
        n, k = (width(count).bit_length() - 1 for count in (state.processors, job.max_processes))
        free, places = free_places(state), []
        for number, dimensions in enumerate(choices(n, k)):
            for corner in range(1 << n):
                one = cube(corner, dimensions)
                if corner == min(one) and one <= free:
                    places.append(((number, corner) if by_choice else (corner, number), one))
        if places:
            return min(places, key=lambda each: each[0])[1]
        return frozenset(sorted(free)[: job.max_processes]) if not state.running else frozenset()

    return find


def gray(state, job):
    """Two neighbouring blocks in the order of the Gray code, whose ends are neighbours."""
    k = width(job.max_processes).bit_length() - 1
    free, half = free_places(state), 1 << max(0, k - 1)
    codes = [number ^ number >> 1 for number in range(width(state.processors) // half)]
    parts = [frozenset(range(code * half, (code + 1) * half)) for code in codes]
    pairs = zip(parts, parts[1:] + parts[:1], strict=True) if k else zip(parts, parts, strict=True)
    there = [one | other for one, other in pairs if one | other <= free]
    if there:
        return there[0]
    return frozenset(sorted(free)[: job.max_processes]) if not state.running else frozenset()


def higher(n, k):
    return [(*range(k - 1), other) for other in range(k - 1, n)] if k else [()]
