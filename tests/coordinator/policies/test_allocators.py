"""Allocators of hypercubes and meshes: against plain slow ones, and what none of them may ever do."""

import itertools
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import session

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.policies.regions import hypercube, mesh
from coordinator.policies.regions.mesh import Grid, shape
from coordinator.policies.regions.region_policy import mask
from coordinator.topology import Topology
from coordinator.view import Job, Machine
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import rigid
from workloads import patterns

S = 1_000_000_000
N = 4
GRID = Grid(4, 4)
CONTIGUOUS = ("buddy", "frame-sliding", "adaptive-scan", "first-fit", "interval-sets")
SCATTERED = ("paging", "multiple-buddy")
free_sets = st.sets(st.integers(0, 15)).map(frozenset)


def every_subcube(n, k):
    """All subcubes of dimension k, by choosing the bits that are fixed, and their values."""
    for fixed in itertools.combinations(range(n), n - k):
        for values in itertools.product((0, 1), repeat=n - k):
            yield frozenset(
                p
                for p in range(1 << n)
                if all(p >> bit & 1 == value for bit, value in zip(fixed, values, strict=True))
            )


def recognized(name, k):
    """The subcubes that an allocator finds if nothing else is free."""
    allocator = hypercube.ALLOCATORS[name]
    return {cube for cube in every_subcube(N, k) if frozenset(allocator(mask(cube), N, k)) == cube}


def known_count(name, k):
    """How many subcubes of dimension k the papers say that an allocator recognizes."""
    aligned = 2 ** (N - k)
    if name == "buddy" or (k in (0, N)):
        return aligned
    partners = {"gray-code": 2, "modified-buddy": N - k + 1}
    return aligned * partners.get(name, comb(N, k))


@pytest.mark.parametrize("k", range(N + 1))
def test_hypercube_allocators_recognize_as_many_subcubes_as_their_papers_say(k):
    counts = {name: recognized(name, k) for name in hypercube.ALLOCATORS}
    assert {name: len(cubes) for name, cubes in counts.items()} == {
        name: known_count(name, k) for name in counts
    }
    assert counts["buddy"] <= counts["gray-code"] <= counts["modified-buddy"] <= counts["tree-collapsing"]
    assert counts["tree-collapsing"] == counts["all-subcubes"] == set(every_subcube(N, k))


RECOGNIZED = {(name, k): tuple(recognized(name, k)) for name in hypercube.ALLOCATORS for k in range(N + 1)}


@given(free_sets, st.sampled_from(list(hypercube.ALLOCATORS)), st.integers(0, N))
def test_a_subcube_is_found_whenever_one_that_is_recognized_is_free(free, name, k):
    place = hypercube.ALLOCATORS[name](mask(free), N, k)
    there = [cube for cube in RECOGNIZED[name, k] if cube <= free]
    assert (frozenset(place) in there) if there else not place
    assert list(place) == sorted(set(place))


def rectangle(x, y, sides, grid=GRID):
    """The processors of a submesh; None if it leaves the mesh."""
    width, height = sides
    if x + width > grid.columns or y + height > grid.rows:
        return None
    return frozenset((y + j) * grid.columns + x + i for j in range(height) for i in range(width))


def candidates(name, free, processes, grid):
    """The submeshes that a contiguous allocator looks at, in plain words of its paper."""
    w, h = shape(processes, grid)
    places = [(x, y) for y in range(grid.rows) for x in range(grid.columns)]
    if name == "buddy":
        side = next(2**k for k in range(10) if 4**k >= processes)
        corners = [rectangle(x, y, (side, side), grid) for x, y in places if x % side == y % side == 0]
    elif name == "frame-sliding":
        y0, x0 = divmod(min(free), grid.columns) if free else (0, 0)
        corners = [
            rectangle(x, y, (w, h), grid)
            for x, y in places
            if (x - x0) % w == 0 <= y - y0 and (y - y0) % h == 0
        ]
    else:
        corners = [rectangle(x, y, sides, grid) for x, y in places for sides in ((w, h), (h, w))]
    return [one for one in corners if one is not None]


@given(
    free_sets,
    st.sampled_from(CONTIGUOUS),
    st.integers(1, 16),
    st.sampled_from([GRID, Grid(8, 2), Grid(5, 3)]),
)
@settings(max_examples=300)
def test_a_submesh_is_found_whenever_one_of_the_candidates_is_free(free, name, processes, grid):
    free = frozenset(p for p in free if p < prod(grid))
    processes = min(processes, prod(grid))
    place = mesh.ALLOCATORS[name](mask(free), processes, grid)
    there = [one for one in candidates(name, free, processes, grid) if one <= free]
    assert (frozenset(place) in there) if there else not place
    if name == "first-fit":
        assert [frozenset(place)] == there[:1] or not there, "the lowest of all"
    if place:
        assert mesh.first_fit(mask(free), processes, grid), "the reference finds what a weaker one finds"


@given(free_sets, st.sampled_from(SCATTERED), st.integers(1, 16))
def test_scattered_allocation_fails_only_if_too_few_processors_are_free(free, name, processes):
    place = mesh.ALLOCATORS[name](mask(free), processes, GRID)
    assert len(place) == len(set(place)) == (processes if processes <= len(free) else 0)
    assert free.issuperset(place)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), min_size=1, max_size=20))
def test_pages_of_one_processor_are_first_come_first_served_on_the_lowest_processors(steps):
    jobs = [Job(number, size) for number, (_, size) in enumerate(steps)]
    runs = [
        session(name, jobs, 12, **options)
        for name, options in (("mesh", {"allocator": "paging"}), ("fcfs", {}))
    ]
    for number, (leaves, _) in enumerate(steps):
        plans = [run.arrive(number).decide(number) for run in runs]
        placed = sorted(plans[0].decision.placements)
        if leaves and placed:
            plans = [run.depart(placed[number % len(placed)]).decide(number) for run in runs]
        assert plans[0].decision.placements == plans[1].decision.placements


BY_HAND = [
    # allocator, processors that are not free, processes, grid and more, processors
    (mesh.multiple_buddy, (), 7, (GRID,), (0, 1, 4, 5, 2, 3, 6)),  # blocks by the digits to the base four
    (mesh.multiple_buddy, (0, 2, 8, 10), 5, (GRID,), (1, 3, 4, 5, 6)),  # a 2 x 2 is four of 1 x 1
    (mesh.buddy, (10,), 1, (GRID,), (11,)),  # large blocks stay whole
    (mesh.paging, (1,), 5, (GRID, 2), (2, 3, 6, 7, 8, 9, 12, 13)),  # pages are given whole or not at all
    (mesh.paging, (0, 2, 15), 7, (Grid(5, 3), 2), (4, 9, 10, 11, 12, 13, 14)),
    (mesh.adaptive_scan, (2, 3, 6, 7, 10, 11, 14, 15), 6, (GRID,), (0, 4, 8, 1, 5, 9)),  # a grid is turned
]


@pytest.mark.parametrize("allocator, taken, processes, grid, expected", BY_HAND)
def test_submeshes_by_hand(allocator, taken, processes, grid, expected):
    assert allocator(mask(p for p in range(16) if p not in taken), processes, *grid) == expected


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 16))
def test_a_job_asks_for_a_submesh_that_holds_it_and_wastes_little(processes, columns, rows):
    grid = Grid(columns, rows)
    wanted = shape(processes, grid)
    if processes > columns * rows:
        assert wanted is None
        return
    assert wanted.width <= columns and wanted.height <= rows
    assert 0 <= wanted.width * wanted.height - processes < max(wanted)
    if min(columns, rows) >= 8:
        assert max(wanted) <= 2 * min(wanted)
        assert max(wanted) <= mesh.block_side(processes), "so that it fits into the block of a buddy"


def test_shapes_are_the_grids_of_the_programs_where_these_are_nearly_square():
    assert [shape(p, Grid(8, 8)) for p in (2, 6, 8, 12, 16)] == [(2, 1), (3, 2), (4, 2), (4, 3), (4, 4)]
    assert shape(7, Grid(8, 8)) == (4, 2)


EVERY = [("hypercube", name) for name in hypercube.ALLOCATORS] + [("mesh", name) for name in mesh.ALLOCATORS]


def promised(policy, allocator, place, region, grid):
    """Whether a region is what its allocator promises."""
    if policy == "hypercube":
        return frozenset(region) in every_subcube(N, len(region).bit_length() - 1)
    if allocator in SCATTERED:
        return len(region) == len(place)
    x = {p % grid.columns for p in region}
    y = {p // grid.columns for p in region}
    return len(region) == len(x) * len(y) == (max(x) - min(x) + 1) * (max(y) - min(y) + 1)


@given(
    st.sampled_from(EVERY),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 16)), min_size=1, max_size=40),
    st.sampled_from([Grid(4, 4), Grid(8, 2), Grid(16, 1)]),
)
@settings(max_examples=300)
def test_no_processor_is_given_twice_or_when_lost_and_all_come_back(which, steps, grid):
    name, allocator = which
    jobs = [Job(number, size) for number, (_, size) in enumerate(steps)]
    run = Session(policies.create(name, {"allocator": allocator}), Machine(16, Topology("mesh", grid)), jobs)
    lost, here, waiting, now_ns = set(), [], list(range(len(jobs))), 0
    kept = set()
    alone = set()
    for choice, number in steps:
        now_ns += 1
        placed = sorted(run.plan.decision.placements) if run.plan else []
        if choice == 9 and len(lost) < 6:
            lost.add(number - 1)
            failed = [job for job in placed if number - 1 in run.plan.decision.placements[job]]
            here = [job for job in here if job not in failed]
            run.lose([number - 1]).depart(*failed).decide(now_ns)
        elif choice % 2 and placed:
            job = placed[choice % len(placed)]
            here.remove(job)
            run.depart(job).decide(now_ns)
        else:
            here.append(waiting[0])
            run.arrive(waiting.pop(0)).decide(now_ns)
        for job in [job for job in here if run.too_large(job)]:
            here.remove(job)  # as the driver does
            run.depart(job).decide(now_ns)
        decision = run.plan.decision
        places = decision.placements
        regions = decision.state.regions
        given_out = [p for region in regions.values() for p in region]
        assert len(given_out) == len(set(given_out))
        assert lost.isdisjoint(p for place in places.values() for p in place)
        assert places.keys() == regions.keys()
        for job, region in regions.items():
            assert places[job] == region[: jobs[job].processes]
            if job == next(iter(regions)) and len(region) == jobs[job].processes and job not in kept:
                alone.add(job)  # it came to an empty machine, which may have no better place for it
            assert promised(name, allocator, places[job], region, grid) or job in alone
        kept = set(regions)
        in_order = [job for job in here if job in places]
        assert in_order == here[: len(in_order)], "first come, first served"
    while placed := sorted(run.plan.decision.placements):
        run.depart(placed[0]).decide(now_ns)
    assert run.plan.decision.state.free == 16 - len(lost), "all processors come back"


def wasted(allocator, sizes, seconds, policy="hypercube", processors=4):
    """The fragmentation of jobs that come together, except for the last, which comes after a second."""
    submit_ns = [0] * (len(sizes) - 1) + [S]
    columns = [submit_ns, sizes, [second * S for second in seconds]]
    jobs = rigid(*map(np.array, columns))
    chosen = policies.create(policy, {"allocator": allocator})
    return event_by_event.simulate(jobs, processors, chosen)[0].fragmentation


def test_fragmentation_by_hand():
    """From 10 s to 20 s processors 0 and 2 are free while a job waits for two; the last job ends at 30 s."""
    sizes = [1, 1, 1, 1, 2]
    seconds = [10, 20, 10, 20, 10]
    waste = wasted("buddy", sizes, seconds)
    assert (waste.internal, waste.external, waste.missed) == (0, 2 * 10 / (4 * 30), 1 / 6)
    waste = wasted("modified-buddy", sizes, seconds)
    assert (waste.internal, waste.external, waste.missed) == (0, 0, 0)
    assert wasted("buddy", [3, 1], [10, 10]).internal == 10 / 50, "three of four for 10 s, then one of one"
    assert wasted("multiple-buddy", [3, 1], [10, 10], "mesh").internal == 0


def test_sizes_that_the_machine_does_not_have_run_alone():
    run = session("hypercube", [5, 1], 6)
    assert run.arrive(0).decide(0).decision.placements == {0: (0, 1, 2, 3, 4)}
    assert run.arrive(1).decide(1).decision.placements == {0: (0, 1, 2, 3, 4), 1: (5,)}


def hops(partners, addresses):
    """All messages of a phase, each with the bits in which the addresses of its ends differ."""
    return sum(
        (addresses[p] ^ addresses[other]).bit_count() for p, row in enumerate(partners) for other in row
    )


@given(st.integers(0, 5), st.randoms(use_true_random=False))
def test_bipartition_gives_each_process_an_address_of_its_own(dimension, random):
    count = 1 << dimension
    partners = [[random.randrange(count) for _ in range(3)] for _ in range(count)]
    addresses = hypercube.addresses(partners)
    assert sorted(addresses) == list(range(count))
    assert hypercube.addresses(partners[:3]) == tuple(range(3)) or count < 3


def test_bipartition_brings_neighbours_of_a_grid_nearer():
    for processes, most in ((16, 1.25), (64, 1.4)):
        partners = patterns.partners("NEWS", processes)
        addresses = hypercube.addresses(partners)
        assert hops(partners, addresses) <= most * 4 * processes < hops(partners, range(processes))


@pytest.mark.parametrize("processes, width", [(16, 4), (32, 8), (64, 8)])
def test_gray_codes_of_rows_and_columns_bring_all_neighbours_of_a_grid_next_to_each_other(processes, width):
    places = [divmod(rank, width) for rank in range(processes)]
    codes = [(row ^ row >> 1) * width + (column ^ column >> 1) for row, column in places]
    assert hops(patterns.partners("NEWS", processes), codes) == 4 * processes


def test_hypercube_maps_ranks_by_their_communication():
    jobs = [Job(0, 16, partners=patterns.partners("NEWS", 16)), Job(1, 16)]
    run = session("hypercube", jobs, 32, mapping="bipartition")
    run.arrive(0).decide(0)
    places = run.arrive(1).decide(0).decision.placements
    assert sorted(places[0]) == list(range(16)) != list(places[0])
    assert places[1] == tuple(range(16, 32)), "nothing is known of its communication"
