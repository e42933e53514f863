"""Space sharing by hand, and its inner steps against plain slow ones."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sessions import session

from coordinator import policies
from coordinator.policies import allocation, scan
from coordinator.policies.ordered import Promises
from coordinator.view import Decision, ExecutionTime, Job, Machine, Reason, View, useful_processors
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs import simulate as by_job
from harness.simulator.jobs.model import Jobs


def job(number, most, work_s=10.0, beta_s=0.0, *, alpha_s=0.0, rigid=False, malleable=False):
    estimate = ExecutionTime(work_s, alpha_s=alpha_s, beta_s=beta_s)
    return Job(number, most, 0, not rigid, malleable, estimate)


def sizes(name, jobs, processors, events, **options):
    """Number of processors of each job after ``events``: +n for an arrival, ~n for a departure."""
    run = session(name, jobs, processors, **options)
    for time, event in enumerate(events):
        plan = (run.arrive(event) if event >= 0 else run.depart(~event)).decide(time)
    return {number: len(place) for number, place in plan.decision.placements.items()}


def sizes_together(name, jobs, processors, already=None):
    """Number of processors of each job that starts, if all arrive at one instant beside a running one."""
    run = session(name, [already, *jobs] if already else jobs, processors, arrived=bool(already))
    placed = run.arrive(*(one.number for one in jobs)).decide(1).decision.placements
    return [len(placed[one.number]) for one in jobs if one.number in placed]


FULL = [job(0, 32), job(1, 32), job(2, 4), job(3, 32)]
SMALL = [job(0, 8), *FULL[1:]]
DEMANDS = [job(0, 8), job(1, 8, 50), job(2, 8, 5)]
RIGID = [job(0, 3, rigid=True), job(1, 2, rigid=True), job(2, 1, 1.0, rigid=True)]
WAITING = [job(0, 8, rigid=True), job(1, 8, 4.0), job(2, 8, 36.0)]
MALLEABLE = [*(job(number, 8, malleable=True) for number in range(3)), job(3, 2, malleable=True)]

BY_HAND = [
    # policy, options, jobs, processors, events, number of processors of each job
    ("asp", {}, FULL, 32, [0, 1, 2, 3], {0: 32}),
    ("asp", {}, FULL, 32, [0, 1, 2, 3, ~0], {1: 14, 2: 4, 3: 14}),
    ("ap1", {}, FULL, 32, [0, 1, 2, 3, ~0], {1: 11, 2: 4, 3: 11}),
    ("aep", {}, FULL, 32, [0], {0: 32}),
    ("aep", {}, SMALL, 32, [0, 1], {0: 8, 1: 16}),  # 32 over two jobs
    ("aep", {}, SMALL, 32, [0, 1, 3], {0: 8, 1: 16, 3: 8}),  # 11 are more than are free
    ("sdf", {}, DEMANDS, 8, [0, 1, 2, ~0], {2: 8}),
    ("sdf-max", {"maximum": 3}, DEMANDS, 8, [0, 1, 2, ~0], {1: 3, 2: 2}),
    ("aep", {"order": 0}, DEMANDS, 2, [0, 1, 2, ~0], {1: 1, 2: 1}),
    ("equipartition", {"parts": 4}, [job(n, 8) for n in range(5)], 8, range(5), dict.fromkeys(range(4), 2)),
    # Rigid jobs are never moulded, and nobody overtakes unless by backfilling.
    *((name, {}, RIGID[:2], 4, [0, 1], {0: 3}) for name in ("fcfs", "asp", "ap1", "aep", "sdf")),
    ("fcfs", {}, RIGID, 4, [0, 1, 2], {0: 3}),
    ("easy", {}, RIGID, 4, [0, 1, 2], {0: 3, 2: 1}),
    # Jobs that start together share by their work.
    ("aep", {}, WAITING, 8, [0, 1, 2, ~0], {1: 4, 2: 4}),
    ("square-root", {}, WAITING, 8, [0, 1, 2, ~0], {1: 2, 2: 6}),
    ("equal-time", {}, WAITING, 8, [0, 1, 2, ~0], {1: 1, 2: 7}),
    ("dyn-equi", {}, MALLEABLE, 8, [0, 1, 2], {0: 3, 1: 3, 2: 2}),
    ("dyn-equi", {}, MALLEABLE, 8, [0, 1, 3], {0: 3, 1: 3, 3: 2}),
]


@pytest.mark.parametrize(("name", "options", "jobs", "processors", "events", "expected"), BY_HAND)
def test_processors_are_divided_so(name, options, jobs, processors, events, expected):
    assert sizes(name, jobs, processors, events, **options) == expected


TWO, THIRDS = [job(0, 4, 3), job(1, 4, 2)], [job(number, 8, 5) for number in range(3)]
SHORT_AND_LONG = [job(0, 16, 1), job(1, 16, 100)]


@pytest.mark.parametrize(
    ("name", "options", "jobs", "expected"),
    [
        *(("square-root", {"order": order}, TWO, [2, 2]) for order in range(3)),  # 2.2, and the rest
        *(("equal-time", {"order": order}, TWO, [2, 2]) for order in range(3)),  # 2.4, and the rest
        *(("square-root", {"order": order}, THIRDS, [2, 3, 3]) for order in range(3)),
        ("square-root", {}, SHORT_AND_LONG, [2, 14]),  # 0.5 + 7.1 s; 1 + 6.7 s with 1 and 15
        ("asp", {}, SHORT_AND_LONG, [8, 8]),
    ],
)
def test_jobs_that_arrive_at_one_instant_start_together(name, options, jobs, expected):
    run = session(name, jobs, sum(expected), **options)
    placed = run.arrive(0, *range(1, len(jobs))).decide(0).decision.placements
    assert sorted(map(len, placed.values())) == expected


@pytest.mark.parametrize("name", ["square-root", "asp", "easy", "scan-up", "dyn-equi"])
def test_the_simulators_let_jobs_of_one_instant_arrive_together(name):
    """The kernels, and the policy asked event by event."""
    work_s, none = np.array([1.0, 100, 3, 50, 7]), np.zeros(5)
    once = np.array([0, 0, 0, 2, 2]) * 1_000_000_000
    least = np.full(5, 4 if name in ("easy", "scan-up") else 1)
    jobs = Jobs(
        once, least, np.full(5, 4 if name in ("easy", "scan-up") else 16), work_s, none, none, none + 1
    )
    policy = policies.create(name, {})
    plans = []
    asked, _ = event_by_event.simulate(
        jobs, 16, policy, malleable=name == "dyn-equi", watch=lambda plan, now_ns: plans.append(now_ns)
    )
    assert (by_job.simulate(jobs, 16, policy).finish_ns == asked.finish_ns).all()
    assert plans.count(0) == 1


MEASURES = {
    "square-root": lambda work_s, shares, found: sum(w / p for w, p in zip(work_s, found, strict=True)),
    "equal-time": lambda work_s, shares, found: max(w / p for w, p in zip(work_s, found, strict=True)),
    "parallelism-range": lambda work_s, shares, found: sum(
        (p - share) ** 2 / share for p, share in zip(found, shares, strict=True)
    ),
}
"""What a policy is to make least: the sum of times, the longest, the distance from the shares."""


@given(
    st.sampled_from(sorted(MEASURES)),
    st.integers(1, 8),
    st.lists(st.tuples(st.floats(0.01, 1000), st.integers(1, 9)), min_size=1, max_size=3),
)
@example("square-root", 3, [(36.0, 9), (1.0, 9)])
@example("equal-time", 3, [(36.0, 9), (1.0, 9)])
@example("parallelism-range", 3, [(9.0, 9), (9.0, 1)])
@example("square-root", 9, [(1000.0, 2), (1.0, 9), (1.0, 9)])
def test_no_whole_numbers_of_processors_serve_a_rule_better(name, processors, rows):
    """Against all divisions among jobs of perfect speedup that start together, as many of them as can."""
    jobs = [job(n, most, work_s) for n, (work_s, most) in enumerate(rows)]
    found = sizes_together(name, jobs, processors)
    able = rows[: len(found)]
    assert len(found) == min(processors, len(jobs))
    work_s, most = zip(*able, strict=True)
    summed = min(processors, sum(most))
    averages = [one.average for one in jobs[: len(found)]]
    shares = [summed * average / sum(averages) for average in averages]
    divisions = itertools.product(*(range(1, min(cap, summed) + 1) for cap in most))
    best = min(MEASURES[name](work_s, shares, one) for one in divisions if sum(one) == summed)
    assert sum(found) == summed
    assert MEASURES[name](work_s, shares, found) == pytest.approx(best, rel=1e-4)


def test_shares_leave_processors_to_the_jobs_that_run():
    """A job beside one of the same work may have half of the machine, and two a third each."""
    for name in ("square-root", "equal-time"):
        jobs = [job(0, 2), job(1, 12), job(2, 12)]
        assert sizes(name, jobs, 12, [0, 1]) == {0: 2, 1: 6}
        assert sizes_together(name, jobs[1:], 12, already=jobs[0]) == [4, 4]


BY_PARALLELISM = {
    "average-parallelism": (9, 9),
    "knee": (10, 4),
    "parallelism-range": (40, 4),
    "parallelism-variance": (24, 4),
    "square-root": (40, 4),
    "equal-time": (40, 4),
}


@pytest.mark.parametrize("name", BY_PARALLELISM)
def test_a_job_gets_what_its_parallelism_calls_for(name):
    """T(p) = 100/p + 10 on up to 40 processors: average 110/12.5 = 8.8, knee 100/10, deviation 15.6.

    The first number is of such a job alone on 64 processors, the second of each of 16 that start there
    together. The average takes no account of others: the last of them finds one processor.
    """
    jobs = [job(0, 64, rigid=True), *(job(number, 40, 100.0, alpha_s=10.0) for number in range(1, 17))]
    alone, together = BY_PARALLELISM[name]
    assert sizes(name, jobs, 64, [1]) == {1: alone}
    assert sizes(name, [Job(0, 8, 0, True)], 8, [0]) == {0: 8}, "without an estimate"
    result = sizes(name, jobs, 64, [0, *range(1, 17), ~0])
    assert list(result.values()) == ([9] * 7 + [1] if together == 9 else [together] * 16)


@pytest.mark.parametrize("name", [name for name in BY_PARALLELISM if name != "average-parallelism"])
def test_rules_about_differences_give_jobs_that_are_all_alike_equal_shares(name):
    jobs = [job(number, 12) for number in range(7)]
    for events in ([0], [0, 1, 2], [0, 1, 2, ~0, 3], [*range(7), ~0, ~1]):
        assert sizes(name, jobs, 12, events) == sizes("aep", jobs, 12, events)


@given(st.floats(0.1, 1000), st.floats(0, 100), st.integers(1, 200))
def test_on_its_average_parallelism_a_job_has_half_of_the_best_speedup_and_efficiency(work_s, alpha_s, most):
    """Eager, Zahorjan and Lazowska 1989; their jobs have no cost of communication."""
    one = job(0, most, work_s, alpha_s=alpha_s)
    assert 1 <= one.average <= one.max_processes
    given = allocation.bound(allocation.AVERAGE, 1, one.max_processes, one.average, work_s, alpha_s, 0.0)
    speedup = one.estimate.on(1) / one.estimate.on(given)
    assert speedup >= 0.5 * one.average
    assert speedup >= 0.5 * given


@given(st.floats(0.1, 1000), st.floats(0, 100), st.floats(0, 1), st.integers(1, 60))
@example(10.0, 0.0, 0.0, 8)
@example(1.45, 1.0, 0.0, 8)
def test_at_the_knee_efficiency_over_execution_time_is_greatest(work_s, alpha_s, beta_s, most):
    time = ExecutionTime(work_s, 1.0, alpha_s, beta_s)
    knee = allocation.bound(allocation.KNEE, 1, most, 1.0, work_s, alpha_s, beta_s)
    best = min(p * time.on(p) ** 2 for p in range(1, most + 1))
    assert knee * time.on(knee) ** 2 == pytest.approx(best, rel=1e-12)


@given(
    st.lists(st.tuples(st.floats(0.01, 1000), st.floats(0.01, 100)), min_size=1, max_size=8),
)
def test_no_shares_give_a_smaller_sum_of_times_than_those_by_the_root_of_work(rows):
    work_s, others = zip(*rows, strict=True)
    roots = [allocation.weight(allocation.BY_ROOT, 1.0, work) for work in work_s]

    def summed_s(weights):
        return sum(work * sum(weights) / weight for work, weight in zip(work_s, weights, strict=True))

    assert summed_s(roots) <= summed_s(others) * (1 + 1e-6)
    by_work = [allocation.weight(allocation.BY_WORK, 1.0, work) for work in work_s]
    times_s = [work / weight for work, weight in zip(work_s, by_work, strict=True)]
    assert max(times_s) == pytest.approx(min(times_s), rel=1e-4)


@given(st.integers(1, 20), st.lists(st.integers(1, 8), min_size=1, max_size=10))
def test_equal_parts_differ_by_one_unless_capped(processors, most):
    parts = [0] * len(most)
    allocation.share(processors, len(most), most, parts)
    assert sum(parts) == min(processors, sum(most))
    assert all(part <= cap for part, cap in zip(parts, most, strict=True))
    free = [part for part, cap in zip(parts, most, strict=True) if part < cap]
    if free:
        assert max(parts) <= min(free) + 1


@given(
    st.lists(st.tuples(st.floats(0.1, 50), st.floats(0, 0.2), st.integers(1, 5)), min_size=1, max_size=3),
    st.integers(0, 8),
)
def test_differential_allocation_is_optimal(rows, more):
    """Against all divisions, not all of which use every processor: the sum of execution times is least."""
    work_s, beta_s, most = zip(*rows, strict=True)
    count = len(rows)
    total = min(sum(most), count + more)
    grants = [1] * count
    for index in itertools.islice(itertools.cycle(range(count)), 100):
        if sum(grants) < total and grants[index] < most[index]:
            grants[index] += 1
    demands = allocation.Demands([1] * count, most, [1] * count, work_s, beta_s)
    allocation.differ(count, range(count), demands, grants)

    def time_s(division):
        return sum(w / p + b * p for w, b, p in zip(work_s, beta_s, division, strict=True))

    divisions = itertools.product(*(range(1, cap + 1) for cap in most))
    best = min(time_s(division) for division in divisions if sum(division) <= total)
    assert sum(grants) <= total
    assert time_s(grants) <= best + 1e-9


@given(st.floats(0.1, 100), st.floats(0, 3), st.integers(1, 40))
@example(10.0, 0.5, 16)
@example(20.0, 1.0, 16)
def test_no_more_processors_are_useful_than_make_the_execution_time_least(work_s, beta_s, most):
    time = ExecutionTime(work_s, beta_s=beta_s)
    useful = useful_processors(1, most, work_s, beta_s)
    fewest = min(range(1, most + 1), key=lambda p: (time.on(p), p))
    assert time.on(useful) == pytest.approx(time.on(fewest), rel=1e-12)
    assert useful == fewest or abs(time.on(useful - 1) - time.on(useful)) < 1e-9 * time.on(useful)


MOULDING = [
    ("asp", {}),
    ("asp", {"order": 2}),
    ("ap1", {}),
    ("aep", {}),
    ("aep", {"order": 2}),
    ("sdf", {}),
    ("sdf-max", {"maximum": 12}),
    ("rtc-sdf", {}),
    ("equipartition", {"parts": 1}),
    ("partitioned", {}),
    ("dyn-equi", {}),
]


@given(
    st.sampled_from([*MOULDING, *((name, {}) for name in BY_PARALLELISM)]),
    st.integers(1, 24),
    st.lists(
        st.tuples(st.integers(1, 24), st.floats(0.1, 50), st.floats(0, 5), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_no_policy_ever_gives_a_job_more_than_it_can_use(policy, processors, rows, random):
    name, options = policy
    jobs = [
        job(n, most, work_s, beta_s, malleable=flag) for n, (most, work_s, beta_s, flag) in enumerate(rows)
    ]
    run = session(name, jobs, processors, **options)
    coming, time = list(range(len(jobs))), 0
    placed = {}
    while coming or placed:
        time += 1
        if coming and (not placed or random.random() < 0.6):
            plan = run.arrive(coming.pop(0)).decide(time)
        else:
            plan = run.depart(random.choice(sorted(placed))).decide(time)
        placed = plan.decision.placements
        for number, place in placed.items():
            alone = [jobs[number].estimate.on(p) for p in range(1, len(place) + 1)]
            assert len(place) == 1 or alone[-1] < alone[-2] * (1 + 1e-12)


@st.composite
def queues(draw):
    processors = draw(st.integers(1, 12))
    running, free = [], processors
    for _ in range(draw(st.integers(0, 4))):
        size = draw(st.integers(1, 6))
        if size <= free:
            running.append((draw(st.integers(0, 20)), size))
            free -= size
    waiting = [
        (draw(st.integers(1, processors)), draw(st.integers(1, 20))) for _ in range(draw(st.integers(0, 6)))
    ]
    return processors, free, sorted(running), waiting


def naive_easy(free, running, waiting, now=5):
    """EASY by replaying the future with sorted lists."""
    started, ends = [], [(max(now, end), size) for end, size in running]
    queue = list(range(len(waiting)))
    while queue and waiting[queue[0]][0] <= free:
        place = queue.pop(0)
        size, time = waiting[place]
        started.append(place)
        free -= size
        ends.append((now + time, size))
    if not queue:
        return started
    needed, spare, shadow = waiting[queue[0]][0], free, now
    for end, size in sorted(ends):
        if spare >= needed and end > shadow:
            break
        spare += size
        shadow = end
    spare -= needed
    for place in queue[1:]:
        size, time = waiting[place]
        if size <= free and (now + time <= shadow or size <= spare):
            started.append(place)
            free -= size
            spare -= size if now + time > shadow else 0
    return started


@given(queues())
@example((4, 1, [(0, 2), (1, 1)], [(2, 1), (1, 1)]))
@example((4, 1, [(9, 2), (9, 1)], [(3, 1), (1, 20)]))  # all processors count that end at its time
@settings(max_examples=500)
def test_easy_is_what_replaying_the_future_gives(queue):
    _, free, running, waiting = queue
    assert started(free, running, waiting) == naive_easy(free, running, waiting)


def started(free, running, waiting, now=5):
    """The jobs that EASY starts now, beside jobs of which the ends and sizes are known."""
    taken = sum(size for _, size in running)
    places = iter(range(taken))
    held = {~n: tuple(itertools.islice(places, size)) for n, (_, size) in enumerate(running)}
    jobs = [Job(~n, size, estimate=ExecutionTime(end * size / 1e9)) for n, (end, size) in enumerate(running)]
    for number, (size, time) in enumerate(waiting):
        jobs.append(Job(number, size, estimate=ExecutionTime(time * size / 1e9)))
    begins_ns = dict.fromkeys(held, 0)
    view = View(
        Machine(free + taken), now, tuple(jobs), len(jobs), Decision(held, (), state=Promises(begins_ns))
    )
    placed = policies.create("easy", {}).decide(view, Reason.ARRIVAL).placements
    return [number for number in placed if number >= 0]


@given(st.integers(0, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=40))
def test_buddy_blocks_never_overlap_and_all_come_back(levels, steps):
    free, counts = [0] * (2 << levels), [0] * (levels + 1)
    free[1] = counts[0] = 1
    held = []

    def leaves(block):
        depth = block.bit_length() - 1
        return set(range(block << (levels - depth), (block + 1) << (levels - depth)))

    for take, number in steps:
        if take:
            depth = min(number, levels)
            block = scan.take(free, counts, depth)
            used = set().union(*map(leaves, held)) if held else set()
            if block:
                assert block.bit_length() - 1 == depth
                assert used.isdisjoint(leaves(block))
                held.append(block)
            else:
                blocks = range(1 << depth, 2 << depth)
                assert all(leaves(b) & used for b in blocks), "there was one"
        elif held:
            scan.give(free, counts, held.pop(number % len(held)))
    while held:
        scan.give(free, counts, held.pop())
    assert (sum(free), free[1], sum(counts)) == (1, 1, 1)
