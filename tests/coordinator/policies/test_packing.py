"""Where gangs are seated, who fills holes, and how slots are unified."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import session

from coordinator.policies import packing


def seated(name, sizes, processors=8):
    """Seats of jobs that arrive one after the other."""
    taken = set()
    seats = {}
    for number, size in enumerate(sizes):
        seats[number] = packing.seat(name, taken, size, processors)
        taken |= set(seats[number])
    return seats


@pytest.mark.parametrize(
    "name, taken, size, seat",
    [
        ("matrix", range(8), 8, range(8, 16)),
        ("matrix", range(4), 5, range(8, 13)),  # five processes do not fit beside four
        ("matrix", {1, 3, 5, 7}, 4, (0, 2, 4, 6)),
        ("continuous", {1, 3, 5, 7}, 4, (0, 2, 4, 6)),
        ("undivided", {1, 3, 5, 7}, 4, range(8, 12)),  # not in scattered holes
        ("buddy", range(8), 2, (8, 9)),
        ("buddy", range(10), 2, (10, 11)),  # the next least loaded block of two
        ("buddy", range(14), 8, range(16, 24)),
    ],
)
def test_seats_by_hand(name, taken, size, seat):
    assert packing.seat(name, set(taken), size, 8) == tuple(seat)


def test_linear_packings_run_over_the_ends_of_rows():
    """Four jobs of 6 on 8 processors: 3 rows instead of 4, each job in one window of 8."""
    for name in packing.LINEAR:
        seats = seated(name, [6, 6, 6, 6])
        assert seats[1] == (6, 7, 8, 9, 10, 11)
        windows = packing.windows(seats, 8, linear=True)
        assert windows == [0, 6, 12, 18]
    small = seated("continuous", [4, 2, 6])
    assert packing.windows(small, 8, linear=True) == [0, 6], "jobs 0 and 1 run together"


@given(
    st.sampled_from(sorted(packing.PACKINGS)),
    st.integers(1, 9),
    st.lists(st.integers(1, 9), max_size=8),
)
def test_every_gang_runs_whole_and_never_twice_on_a_processor(name, processors, sizes):
    seats = seated(name, [min(size, processors) for size in sizes], processors)
    every = [seat for place in seats.values() for seat in place]
    assert len(set(every)) == len(every)
    linear = name in packing.LINEAR
    windows = packing.windows(seats, processors, linear)
    ran = [set(gangs) for gangs in packing.whole(seats, windows, processors)]
    assert set().union(*ran) == set(seats)
    for start, gangs in zip(windows, ran, strict=True):
        used = [seat % processors for n in gangs for seat in seats[n]]
        assert len(set(used)) == len(used), start


@given(st.integers(2, 8), st.lists(st.integers(1, 8), max_size=8), st.data())
def test_unification_joins_rows_and_moves_nobody_to_other_processors(processors, sizes, data):
    seats = seated("matrix", [min(size, processors) for size in sizes], processors)
    stay = data.draw(st.sets(st.sampled_from(sorted(seats)))) if seats else set()
    seats = {n: seats[n] for n in stay}
    joined = packing.unify(seats, processors)
    assert {n: [s % processors for s in place] for n, place in joined.items()} == {
        n: [s % processors for s in place] for n, place in seats.items()
    }
    rows = packing.windows(joined, processors, linear=False)
    assert len(rows) <= len(packing.windows(seats, processors, linear=False))
    for i, row in enumerate(rows):
        for other in rows[:i]:
            used = [
                {s % processors for n in gangs for s in joined[n]}
                for gangs in packing.whole(joined, (row, other), processors)
            ]
            assert not used[0].isdisjoint(used[1]), "two rows that could be one"


@given(
    st.sampled_from(sorted(packing.PACKINGS)),
    st.integers(1, 9),
    st.lists(st.integers(1, 9), max_size=6),
    st.frozensets(st.integers(0, 8)),
)
def test_nobody_is_seated_on_a_lost_processor_who_fits_elsewhere(name, processors, sizes, lost):
    lost = {p for p in lost if p < processors}
    taken = set()
    for size in (min(size, processors) for size in sizes):
        place = packing.seat(name, taken, size, processors, lost=lost)
        assert len(place) == size and taken.isdisjoint(place)
        used = {seat % processors for seat in place}
        alone = packing.seat(name, set(), size, processors, lost=lost)
        if {seat % processors for seat in alone} & lost:
            assert place == packing.seat(name, taken, size, processors), "as if nothing were lost"
        else:
            assert not used & lost
        taken |= set(place)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(packing.PACKINGS)),
    st.integers(1, 6),
    st.integers(1, 3),
    st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=14),
)
def test_no_more_jobs_share_a_processor_than_there_are_rows(name, processors, rows, events):
    """Whoever finds no place waits, in order of arrival, until somebody leaves."""
    sizes = [min(size, processors) for _, size in events]
    run = session("gang", sizes, processors, packing=name, rows=rows)
    here = []
    for now_ns, (leaves, _) in enumerate(events):
        plan = run.arrive(now_ns).decide(now_ns)
        here.append(now_ns)
        if leaves:
            first = next(iter(plan.decision.placements))
            here.remove(first)
            plan = run.depart(first).decide(now_ns)
        placed = plan.decision.placements
        assert here[: len(placed)] == sorted(placed), "nobody overtakes"
        for processor in range(processors):
            assert sum(processor in place for place in placed.values()) <= rows
        ran = set().union(*(plan.decision.running(slot) for slot in range(len(plan.decision.slots))))
        assert ran == set(placed)
        if here:
            assert placed, "an empty machine has a place for everybody"


def rows_of(seats, processors):
    return {place[0] // processors for place in seats.values()}


def test_gangs_move_to_other_processors_if_that_empties_a_row():
    """Slot unification cannot join these rows: both use processor 1."""
    seats = {1: (1,), 3: (5,)}
    assert packing.unify(seats, 4) == seats
    assert packing.migrate("matrix", seats, 4) in ({1: (1,), 3: (0,)}, {1: (4,), 3: (5,)})


@given(
    st.sampled_from(["matrix", "buddy"]),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(1, 8), st.booleans()), max_size=9),
)
def test_migration_moves_only_gangs_of_rows_that_it_empties(name, processors, gangs):
    everybody = seated(name, [min(size, processors) for size, _ in gangs], processors)
    seats = {number: everybody[number] for number, (_, stays) in enumerate(gangs) if stays}
    moved = packing.migrate(name, seats, processors)
    before = rows_of(seats, processors)
    after = rows_of(moved, processors)
    assert moved.keys() == seats.keys() and after <= before
    slots = [n for place in moved.values() for n in place]
    assert len(set(slots)) == len(slots)
    for number, place in moved.items():
        assert len(place) == len(seats[number])
        assert len({n // processors for n in place}) == 1
        assert place == seats[number] or seats[number][0] // processors not in after
