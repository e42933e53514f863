"""Space sharing once more, plain and slow, written from docs/policies.md: it imports nothing of ours.

Times are whole nanoseconds. At each instant at which jobs end or arrive, all of them do so; then the rule of
the policy decides once which waiting jobs start, and on how many processors.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations

NS = 1_000_000_000


@dataclass
class Job:
    """A job takes work / p + alpha + beta p seconds on p processors, and its user thinks that it takes
    ``factor`` times as long."""

    number: int
    arrival_ns: int
    min_processes: int
    max_processes: int
    work: float
    alpha: float = 0.0
    beta: float = 0.0
    factor: float = 1.0
    begin_ns: int = -1
    end_ns: int = -1
    size: int = 0
    served_ns: int = 0
    """CPU time that it has had."""
    place: frozenset = frozenset()
    told_ns: int | None = None
    """When it ends, if that is told, however long it should take."""

    def seconds(self, p, factor=1.0):
        return self.work * factor / p + self.alpha * factor + self.beta * factor * p

    def time_ns(self, p):
        return max(1, round(self.seconds(p) * NS))

    def guess_ns(self, p):
        return round(self.seconds(p, self.factor) * NS)

    @property
    def demand(self):
        return self.seconds(1, self.factor)

    @cached_property
    def useful(self):
        """With more processors it would not be faster."""
        return min(range(self.min_processes, self.max_processes + 1), key=lambda p: (self.exactly(p), p))

    def exactly(self, p):
        return Fraction(self.work) / p + Fraction(self.alpha) + Fraction(self.beta) * p

    @property
    def average(self):
        """Its average parallelism."""
        return min(float(self.useful), self.seconds(1, self.factor) / self.seconds(self.useful, self.factor))


@dataclass
class State:
    """All that is known at an instant."""

    processors: int
    count: int
    """Jobs of the whole log."""
    now_ns: int = 0
    waiting: list = field(default_factory=list)
    running: list = field(default_factory=list)
    memory: dict = field(default_factory=dict)
    again_ns: int | None = None
    """When the rule wants to decide again, if nothing else happens before."""

    @property
    def free(self):
        return self.processors - sum(job.size for job in self.running)


def schedule(jobs, processors, rule):
    """Run all jobs to their ends; returns the processors of all that run, after each instant."""
    history = {}
    coming = sorted(jobs, key=lambda job: (job.arrival_ns, job.number))
    state = State(processors, len(jobs))
    while coming or state.running:
        times = [job.end_ns for job in state.running] + [job.arrival_ns for job in coming]
        times += [] if state.again_ns is None else [state.again_ns]
        before_ns, state.now_ns = state.now_ns, min(times)
        for job in state.running:
            job.served_ns += job.size * (state.now_ns - before_ns)
        state.running = [job for job in state.running if job.end_ns > state.now_ns]
        state.waiting += [job for job in coming if job.arrival_ns == state.now_ns]
        coming = [job for job in coming if job.arrival_ns > state.now_ns]
        state.again_ns = None
        rule(state)
        state.waiting = [job for job in state.waiting if job.begin_ns < 0]
        history[state.now_ns] = {job.number: set(job.place) for job in state.running}
    return history


def start(state, job, size):
    job.begin_ns = state.now_ns
    job.end_ns = state.now_ns + job.time_ns(size) if job.told_ns is None else job.told_ns
    job.size = size
    state.running.append(job)


def in_turn(state, order, size_of):
    """Start jobs in order as long as the first one fits on ``size_of`` it."""
    for job in order:
        size = size_of(job)
        if size > state.free or state.free == 0:
            break
        start(state, job, size)


# Rigid jobs.


def fcfs(state):
    in_turn(state, state.waiting, lambda job: job.max_processes)


def batch(state):
    if not state.running and state.waiting:
        start(state, state.waiting[0], state.waiting[0].max_processes)


def partitioned(state):
    part = state.processors // min(state.count, state.processors)
    in_turn(
        state,
        state.waiting,
        lambda job: min(job.useful, part) if job.min_processes < job.max_processes else job.max_processes,
    )


def easy(state, order=lambda state: state.waiting):
    """The first job that does not fit gets the earliest time by the estimates; no other may delay it."""
    queue = order(state)
    in_turn(state, queue, lambda job: job.max_processes)
    late = [job for job in queue if job.begin_ns < 0]
    if not late:
        return
    first, *others = late

    def guessed_end_ns(job):
        return max(job.begin_ns + job.guess_ns(job.size), state.now_ns)

    reserved_ns = next(
        at_ns
        for at_ns in sorted({state.now_ns, *map(guessed_end_ns, state.running)})
        if state.processors - sum(job.size for job in state.running if guessed_end_ns(job) > at_ns)
        >= first.max_processes
    )
    for job in others:
        if job.max_processes > state.free:
            continue
        still = sum(one.size for one in state.running if guessed_end_ns(one) > reserved_ns)
        in_time = state.now_ns + job.guess_ns(job.max_processes) <= reserved_ns
        if in_time or still + job.max_processes + first.max_processes <= state.processors:
            start(state, job, job.max_processes)


def log10_since(job):
    return math.log10(max(1.0, job.arrival_ns / NS))


SCORES = {
    "sjf": lambda r, n, w, job: r,
    "ljf": lambda r, n, w, job: -r,
    "smallest": lambda r, n, w, job: n,
    "largest": lambda r, n, w, job: -n,
    "wfp3": lambda r, n, w, job: -((w / r) * (w / r) * (w / r)) * n,
    "unicep": lambda r, n, w, job: -w / (math.log2(max(2, n)) * r),
    "f1": lambda r, n, w, job: math.log10(r) * n + 870 * log10_since(job),
    "f2": lambda r, n, w, job: math.sqrt(r) * n + 25600 * log10_since(job),
    "f3": lambda r, n, w, job: r * n + 6860000 * log10_since(job),
    "f4": lambda r, n, w, job: r * math.sqrt(n) + 530000 * log10_since(job),
    "expansion": lambda r, n, w, job: -(w + r) / r,
}
"""Of a job with estimate r, n processors and wait w; the least comes first."""


def by_score(name):
    """The waiting jobs in an order; those with equal scores as they came."""
    if name == "fcfs":
        return lambda state: state.waiting
    return lambda state: sorted(
        state.waiting,
        key=lambda job: SCORES[name](
            job.guess_ns(job.max_processes) / NS,
            job.max_processes,
            (state.now_ns - job.arrival_ns) / NS,
            job,
        ),
    )


def conservative(order):
    """Each job, in order, gets the earliest time by the estimates that no other job's reservation forbids."""

    def rule(state):
        queue, reserved = order(state), state.memory.setdefault("reserved", {})
        until = {}
        for job in state.running:
            until[job.number] = max(job.begin_ns + job.guess_ns(job.size), state.now_ns + 1)
        for job in queue:
            if job.number in reserved:
                reserved[job.number] = max(reserved[job.number], state.now_ns)
        for job in queue:
            length_ns = job.guess_ns(job.max_processes)
            spans = [(state.now_ns, until[one.number], one.size) for one in state.running]
            for other in queue:
                if other is not job and other.number in reserved:
                    at_ns = reserved[other.number]
                    end_ns = at_ns + other.guess_ns(other.max_processes)
                    spans.append((at_ns, end_ns, other.max_processes))

            def fits(at_ns, spans=spans, job=job, length_ns=length_ns):
                moments = {at_ns, *(begin for begin, _, _ in spans if at_ns < begin < at_ns + length_ns)}
                return all(
                    sum(size for begin, end, size in spans if begin <= moment < end) + job.max_processes
                    <= state.processors
                    for moment in moments
                )

            moments = {state.now_ns, *(end for _, end, _ in spans if end > state.now_ns)}
            reserved[job.number] = next(at_ns for at_ns in sorted(moments) if fits(at_ns))
        for job in queue:
            if reserved[job.number] == state.now_ns and job.max_processes <= state.free:
                del reserved[job.number]
                start(state, job, job.max_processes)

    return rule


def reordered(name, backfill):
    order = by_score(name)
    if backfill == "conservative":
        return conservative(order)
    if backfill == "easy":
        return lambda state: easy(state, order)
    return lambda state: in_turn(state, order(state), lambda job: job.max_processes)


# Jobs that start with any number of processors from ``min_processes`` on, and keep them.


def bounded(kind, job):
    """The most processors that a job gets."""
    wanted = {
        "largest": job.useful,
        "average": int(job.average + 0.5),
        "deviation": int(job.average + max(0.0, (job.useful - job.average) * (job.average - 1)) ** 0.5 + 0.5),
        "knee": min(range(job.min_processes, job.useful + 1), key=lambda p: (p * job.exactly(p) ** 2, p)),
    }
    return max(job.min_processes, min(job.useful, wanted[kind]))


def weight(kind, job):
    work = job.work * job.factor
    value = {"equal": 1e-6, "average": job.average, "root": work**0.5, "work": work}[kind]
    return max(1, int(1e6 * value + 0.5))


def limited(limit_of, bound="largest"):
    """Each job gets at most ``limit_of(state)``, and what is free."""

    def rule(state, order):
        limit = limit_of(state)
        in_turn(state, order, lambda job: max(job.min_processes, min(bounded(bound, job), limit, state.free)))
        return [job for job in order if job.begin_ns >= 0]

    return rule


def fitting(state, order):
    """The first jobs that can start together, each with ``min_processes``."""
    places, free = [], state.free
    for job in order:
        if job.min_processes > free:
            break
        places.append(job)
        free -= job.min_processes
    return places


def hand_out(sizes, caps, count, worth):
    """Give ``count`` processors one by one to the job that is worth most, the first of equals."""
    for _ in range(count):
        able = [i for i in range(len(sizes)) if sizes[i] < caps[i]]
        if not able or max(worth(i) for i in able) <= 0:
            break
        sizes[max(able, key=lambda i: (worth(i), -i))] += 1


def shared(worth_of, share="equal", bound="largest"):
    """Jobs that start together divide what they get one by one, by ``worth_of(weight, processors)``."""

    def rule(state, order):
        total = sum(weight(share, job) for job in [*state.waiting, *state.running])
        jobs = fitting(state, order)
        sizes, caps = [job.min_processes for job in jobs], [bounded(bound, job) for job in jobs]
        weights = [weight(share, job) for job in jobs]
        budget = state.free
        if share != "equal" and jobs:
            budget = min(budget, -(-state.processors * sum(weights) // total))
        hand_out(sizes, caps, budget - sum(sizes), lambda i: worth_of(weights[i], sizes[i]))
        for job, size in zip(jobs, sizes, strict=True):
            start(state, job, size)
        return jobs

    return rule


def ordered(rule, order=0, bound="largest"):
    """The queue by arrival (order 0) or demand (1, 2); with 2 differential allocation of what they get."""

    def decide(state):
        queue = sorted(state.waiting, key=lambda job: job.demand) if order else state.waiting
        jobs = rule(state, queue)
        if order < 2:
            return
        total, sizes = sum(job.size for job in jobs), [job.min_processes for job in jobs]
        caps = [bounded(bound, job) for job in jobs]

        def saved(i):
            job, p = jobs[i], sizes[i]
            return job.work * job.factor / (p * (p + 1.0)) - job.beta * job.factor

        hand_out(sizes, caps, total - sum(sizes), saved)
        state.running = [job for job in state.running if job not in jobs]
        for job, size in zip(jobs, sizes, strict=True):
            start(state, job, size)

    return decide


def all_here(state):
    return len(state.waiting) + len(state.running)


def rounded_up(count_of):
    return lambda state: -(-state.processors // max(1, count_of(state)))


# Blocks of a buddy system, queues by their size, and subcubes.


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


# Submeshes.


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


def processor_sets(hold_s):
    """A job has processors that no other has for a time; then it shares them with jobs that wait."""

    def rule(state):
        until_ns = state.memory.setdefault("until_ns", {})
        late = []
        for job in state.waiting:
            held = [one for one in state.running if until_ns.get(one.number, 0) > state.now_ns]
            pool = set(range(state.processors)).difference(*(one.place for one in held))
            crowd = {p: sum(p in one.place for one in state.running) for p in pool}
            if late or job.max_processes > len(pool):
                late.append(job)
                continue
            chosen = sorted(pool, key=lambda p: (crowd[p], p))[: job.max_processes]
            job.place = frozenset(chosen)
            start(state, job, job.max_processes)
            if not any(crowd[p] for p in chosen):
                until_ns[job.number] = state.now_ns + hold_s * NS
        ends = [until_ns.get(job.number, 0) for job in state.running]
        state.again_ns = min((ns for ns in ends if ns > state.now_ns), default=None) if late else None

    return rule


# Jobs that change their processors while they run.


def malleable(jobs, processors, divide):
    """Processors that are divided again at each instant; returns the sizes of all jobs after each."""
    history = {}
    coming = sorted(jobs, key=lambda job: (job.arrival_ns, job.number))
    here, left_ns, now_ns = [], {}, 0
    while coming or here:
        ends = [
            now_ns + left_ns[job.number] if job.told_ns is None else job.told_ns for job in here if job.size
        ]
        before_ns, now_ns = now_ns, min(ends + [job.arrival_ns for job in coming])
        for job in here:
            if job.size:
                left_ns[job.number] -= now_ns - before_ns
                job.served_ns += job.size * (now_ns - before_ns)
                over = left_ns[job.number] == 0 if job.told_ns is None else job.told_ns == now_ns
                job.end_ns = now_ns if over else -1
        here = [job for job in here if job.end_ns < 0]
        here += [job for job in coming if job.arrival_ns == now_ns]
        coming = [job for job in coming if job.arrival_ns > now_ns]
        sizes = divide(here, processors)
        for job in here:
            new, old = sizes[job.number], job.size
            if new and not old:
                job.begin_ns, left_ns[job.number] = now_ns, job.time_ns(new)
            elif new != old:
                left_ns[job.number] = round(left_ns[job.number] * (job.time_ns(new) / job.time_ns(old)))
            job.size = new
        history[now_ns] = {job.number: job.size for job in here if job.size}
    return history


def by_service(here, processors):
    """As ``divided``, those first that had least service so far."""
    return divided(sorted(here, key=lambda job: job.served_ns), processors)


def controlled(here, processors):
    """Equal parts of what rigid jobs leave, the larger ones to earlier jobs, one processor at least."""
    rigid = {job.number: job.max_processes for job in here if job.min_processes == job.max_processes}
    able = [job for job in here if job.number not in rigid]
    sizes = {job.number: 0 for job in able}
    for _ in range(processors - sum(rigid.values())):
        more = [job for job in able if sizes[job.number] < job.useful]
        if more:
            sizes[min(more, key=lambda job: sizes[job.number]).number] += 1
    return rigid | {number: max(1, size) for number, size in sizes.items()}


def divided(order, processors):
    """The processors of each job: at least one for all that have begun, equal parts of what they can use."""
    sizes = {
        job.number: job.size if job.min_processes == job.max_processes else min(1, job.size) for job in order
    }
    for job in order:
        if job.size == 0:
            if sum(sizes.values()) + job.min_processes > processors:
                break
            sizes[job.number] = job.min_processes
    able = [job for job in order if job.min_processes < job.max_processes and sizes[job.number]]
    for _ in range(processors - sum(sizes.values())):
        more = [job for job in able if sizes[job.number] < job.useful]
        if not more:
            break
        sizes[min(more, key=lambda job: sizes[job.number]).number] += 1
    return sizes


# The policies.

TARGETS = {"ap1": rounded_up(lambda state: len(state.waiting)), "aep": rounded_up(all_here)}
WORTH = {
    "parallelism-range": (lambda w, p: Fraction(2 * w, 2 * p + 1), "average", "largest"),
    "parallelism-variance": (lambda w, p: Fraction(2 * w, 2 * p + 1), "average", "deviation"),
    "square-root": (lambda w, p: Fraction(w * w, p * (p + 1)), "root", "largest"),
    "equal-time": (Fraction, "work", "largest"),
}
EQUAL = shared(lambda _, p: Fraction(1, p))


def rules():
    """A rule for each policy with its options."""
    rules_by_name = {
        ("fcfs", ()): fcfs,
        ("batch", ()): batch,
        ("partitioned", ()): partitioned,
        ("easy", ()): easy,
    }
    for order in ("fcfs", *SCORES):
        for backfill in ("none", "easy", "conservative"):
            settings = (("order", order), ("backfill", backfill))
            rules_by_name["ordered", settings] = reordered(order, backfill)
    rules_by_name["fcfs-bb", ()] = placed(block)
    rules_by_name |= {("scan-up", ()): scan(1), ("scan-down", ()): scan(-1)}
    for order in range(3):
        of_order = (("order", order),)
        for name, target in TARGETS.items():
            rules_by_name[name, of_order] = ordered(limited(target), order)
        rules_by_name["knee", of_order] = ordered(limited(TARGETS["aep"], "knee"), order, "knee")
        every = limited(lambda state: state.processors, "average")
        rules_by_name["average-parallelism", of_order] = ordered(every, order, "average")
        rules_by_name["asp", of_order] = ordered(EQUAL, order)
        for name, (worth, share, bound) in WORTH.items():
            rules_by_name[name, of_order] = ordered(shared(worth, share, bound), order, bound)
    rules_by_name["rtc-sdf", ()] = ordered(EQUAL, 2)
    rules_by_name["sdf", ()] = ordered(limited(lambda state: state.processors), 1)
    for max_processes in (2, 6):
        rules_by_name["sdf-max", (("maximum", max_processes),)] = ordered(
            limited(lambda _, max_processes=max_processes: max_processes), 1
        )
    for parts in (2, 4):
        part = limited(lambda state, parts=parts: max(1, state.processors // parts))
        rules_by_name["equipartition", (("parts", parts),)] = ordered(part)
    cubes = {
        "buddy": subcube(lambda _, k: [range(k)], by_choice=False),
        "gray-code": gray,
        "modified-buddy": subcube(higher, by_choice=False),
        "tree-collapsing": subcube(lambda n, k: combinations(range(n), k), by_choice=True),
        "all-subcubes": subcube(lambda n, k: combinations(range(n), k), by_choice=False),
    }
    for name, find in cubes.items():
        rules_by_name["hypercube", (("allocator", name),)] = placed(find)
    meshes = {
        "first-fit": submesh(turns=True),
        "interval-sets": submesh(turns=True),
        "adaptive-scan": submesh(turns=False),
        "frame-sliding": frames,
        "buddy": square,
    }
    for name, find in meshes.items():
        rules_by_name["mesh", (("allocator", name),)] = placed(find)
    rules_by_name["mesh", (("allocator", "paging"), ("page", 2))] = placed(pages(2))
    for name in ("paging", "multiple-buddy"):  # any processors will do
        rules_by_name["mesh", (("allocator", name),)] = fcfs
    for hold_s in (1, 3):
        rules_by_name["processor-sets", (("hold_ms", 1000.0 * hold_s),)] = processor_sets(hold_s)
    for name in ("condor", "idle-partition", "owner-share"):  # no workstation has an owner
        rules_by_name[name, ()] = fcfs
    return rules_by_name


RULES = rules()
MALLEABLE = {"dyn-equi": divided, "dynamic": by_service, "process-control": controlled}
"""How they divide the processors."""


def scheduled(name, options, jobs, processors):
    """What runs after each instant: the processors of jobs, or if they change how many each has.

    The jobs, which are new ones, get their times.
    """
    if name in MALLEABLE:
        return malleable(jobs, processors, MALLEABLE[name])
    return schedule(jobs, processors, RULES[name, options])
