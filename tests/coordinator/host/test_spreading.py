"""Where ranks move that share their processors with another job while others idle."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from coordinator.host.spreading import Occupant, OwnRank, spread

EVERY = frozenset(range(8))
single = st.integers(0, 3).map(lambda one: frozenset({one}))
masks = single | single | st.frozensets(st.sampled_from(sorted(EVERY)), min_size=1)
busy = st.integers(0, 3)
others = st.lists(st.builds(Occupant, masks, busy), max_size=5)
own = st.lists(st.builds(OwnRank, masks, masks | st.just(EVERY) | st.just(frozenset()), busy), max_size=5)


def on(*processors):
    return frozenset(processors)


def one_each(*processors, allowed=EVERY):
    return [OwnRank(on(one), allowed) for one in processors]


def seats(threads):
    """How many of these threads, each with its mask, can have a processor of their own at once."""
    allowed = np.array([[p in mask for p in sorted(EVERY)] for mask in threads], dtype=int)
    if not threads:
        return 0
    return int((maximum_bipartite_matching(csr_matrix(allowed)) >= 0).sum())


def threads(rank, mask):
    return [mask] * min(max(1, rank.busy), len(rank.mask))


def of_others(there):
    return [other.mask for other in there for _ in range(min(other.busy, len(other.mask)))]


@given(own, others)
def test_ranks_move_only_within_what_is_allowed_and_never_onto_each_other(ranks, there):
    moved = spread(ranks, there)
    taken = [processor for mask in moved.values() for processor in mask]
    assert len(taken) == len(set(taken))
    for place, mask in moved.items():
        assert mask and mask <= ranks[place].allowed
        assert len(mask) <= len(ranks[place].mask)
        stays = [one.mask for other, one in enumerate(ranks) if other not in moved]
        assert not any(mask >= one and len(one) == 1 for one in stays)


@given(own, others)
def test_more_threads_have_a_processor_of_their_own_afterwards(ranks, there):
    """By another method for the same: each move of a rank is worth it."""
    moved = spread(ranks, there)
    before = [mask for rank in ranks for mask in threads(rank, rank.mask)] + of_others(there)
    after = [
        mask for place, rank in enumerate(ranks) for mask in threads(rank, moved.get(place, rank.mask))
    ] + of_others(there)
    assert seats(after) >= seats(before) + (len(moved) > 0)


@given(own, others)
def test_nothing_moves_without_need(ranks, there):
    moved = spread(ranks, there)
    busy_there = frozenset().union(*(other.mask for other in there if other.busy))
    for place in moved:
        assert ranks[place].mask <= busy_there  # it shares all of its processors
    needs = [mask for rank in ranks for mask in threads(rank, rank.mask)] + of_others(there)
    if seats(needs) == len(needs):
        assert not moved
    assert not spread(ranks, [])


def test_two_jobs_on_the_first_processors_part():
    assert spread(one_each(0, 1), [Occupant(on(0)), Occupant(on(1))]) == {0: on(2), 1: on(3)}


def test_ranks_stay_where_no_processor_of_the_callers_is_free():
    assert spread(one_each(0, 1, allowed=on(0, 1)), [Occupant(on(0)), Occupant(on(1))]) == {}
    assert spread(one_each(0, allowed=frozenset()), [Occupant(on(0))]) == {}


def test_as_many_move_as_find_room():
    moved = spread(one_each(0, 1, allowed=on(0, 1, 2)), [Occupant(on(0)), Occupant(on(1))])
    assert list(moved.values()) == [on(2)]


def test_a_job_that_is_bound_to_no_processor_gives_way_by_itself():
    assert spread(one_each(0, 1), [Occupant(EVERY)] * 2) == {}
    assert spread(one_each(0, 1), [Occupant(on(0, 1, 2, 3))] * 2) == {}


def test_a_job_on_a_socket_that_is_full_is_left():
    half = on(0, 1, 2, 3)
    moved = spread(one_each(0, 1, 2, 3), [Occupant(half)] * 4)
    assert sorted(moved.values(), key=min) == [on(4), on(5), on(6), on(7)]


def test_ranks_with_threads_get_a_processor_for_each():
    half = on(0, 1, 2, 3)
    assert spread([OwnRank(half, EVERY, busy=4)], [Occupant(half, busy=4)]) == {0: EVERY - half}
    assert spread([OwnRank(half, EVERY - {7}, busy=4)], [Occupant(half, busy=4)]) == {}


def test_a_rank_keeps_the_number_of_its_processors():
    half = on(0, 1, 2, 3)
    assert spread([OwnRank(half, EVERY)], [Occupant(half, busy=4)]) == {0: EVERY - half}


def test_processors_of_a_job_that_sleeps_come_last():
    asleep = Occupant(on(1, 2), busy=0)
    assert spread(one_each(0), [Occupant(on(0)), asleep]) == {0: on(3)}
    assert spread(one_each(0, allowed=on(0, 1)), [Occupant(on(0)), asleep]) == {0: on(1)}


def test_a_sleeping_job_drives_no_rank_away():
    assert spread(one_each(0), [Occupant(on(0), busy=0)]) == {}


def test_ranks_that_crowd_by_themselves_stay():
    """Their launcher was told so, or has fewer processors than ranks."""
    assert spread(one_each(0, 0), [Occupant(on(1))]) == {}
