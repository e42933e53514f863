"""Submeshes: rectangles of processors, and the rules that look for free ones."""

from independent_scheduler.subcubes import free_places


def sides(processors):
    """Columns and rows of the most nearly square mesh, which is not higher than wide."""
    rows = max(n for n in range(1, processors + 1) if processors % n == 0 and n * n <= processors)
    return processors // rows, rows


def rectangle(state, x, y, width, height):
    """The processors of a submesh, nothing if it is not all in the mesh, or not all free."""
    columns, rows = sides(state.processors)
    if x + width > columns or y + height > rows:
        return frozenset()
    places = frozenset(b * columns + a for a in range(x, x + width) for b in range(y, y + height))
    return places if places <= free_places(state) else frozenset()


def corners(state, strides=(1, 1), start=(0, 0)):
    """Where submeshes may begin, row by row: places of a lattice through ``start``."""
    columns, rows = sides(state.processors)
    return [
        (x, y)
        for y in range(rows)
        for x in range(columns)
        if (x - start[0]) % strides[0] == 0 and (y - start[1]) % strides[1] == 0
    ]


def wanted(state, job):
    """Width and height of the submesh of a job: least area, then most square, then wide."""
    columns, rows = sides(state.processors)
    square = next(1 << k for k in range(9) if (1 << 2 * k) >= job.max_processes)
    every = [(w, h) for w in range(1, columns + 1) for h in range(1, rows + 1) if w * h >= job.max_processes]
    good = [one for one in every if max(one) <= 2 * min(one) and max(one) <= square]
    return min(good or every, key=lambda one: (one[0] * one[1], max(one), -one[0]))


def submesh(turns):
    """The lowest free submesh: both ways at each corner, or upright at all corners and then turned."""

    def find(state, job):
        width, height = wanted(state, job)
        ways = [(width, height), (height, width)]
        order = [(corner, way) for corner in corners(state) for way in ways]
        if not turns:
            order = [(corner, way) for way in ways for corner in corners(state)]
        candidates = (rectangle(state, *corner, *way) for corner, way in order)
        return next(filter(None, candidates), frozenset()) or alone(state, job)

    return find


def alone(state, job):
    """On an empty machine, a job without a place there has the lowest processors."""
    return frozenset() if state.running else frozenset(range(job.max_processes))


def frames(state, job):
    """The first free one of the frames side by side, one of which begins at the lowest free place."""
    there = free_places(state)
    if not there:
        return frozenset()
    row, column = divmod(min(there), sides(state.processors)[0])
    frame = wanted(state, job)
    places = (rectangle(state, *corner, *frame) for corner in corners(state, frame, (column, row)))
    return next(filter(None, places), frozenset()) or alone(state, job)


def square(state, job):
    """An aligned square, out of the smallest free one that no larger free one contains, the lowest."""
    side = next(1 << k for k in range(9) if (1 << 2 * k) >= job.max_processes)
    free = {
        (size, y, x)
        for size in (side << k for k in range(9))
        for x, y in corners(state, (size, size))
        if rectangle(state, x, y, size, size)
    }
    for size, y, x in sorted(free):
        if (2 * size, y // (2 * size) * 2 * size, x // (2 * size) * 2 * size) not in free:
            return rectangle(state, x, y, side, side)
    return alone(state, job)


def pages(side):
    """Whole pages, row by row, until the job has enough processors."""

    def find(state, job):
        columns, rows = sides(state.processors)
        places = set()
        for x, y in corners(state, (side, side)):
            if len(places) < job.max_processes:
                places |= rectangle(state, x, y, min(side, columns - x), min(side, rows - y))
        return frozenset(places) if len(places) >= job.max_processes else alone(state, job)

    return find
