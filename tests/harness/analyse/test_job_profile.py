"""The combination of ranks' profiles: who came last, what was waited for, and what can never be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyse.job_profile import combined, lines
from harness.measure.rank_profile import Arrival, InCall, RankProfile

MS = 1_000_000
WORLD = 99


def rank_profile(rank, arrivals=(), *, ranks=4, elapsed_ms=1000, outside_ms=None, in_call=None, awaited=None):
    in_call = dict(in_call or {})
    for one in arrivals:
        before = in_call.get(one.call, InCall(0, 0))
        in_call[one.call] = InCall(before.calls + 1, before.within_ns + one.within_ns)
    within_ns = sum(one.within_ns for one in in_call.values())
    outside_ns = max(0, elapsed_ms * MS - within_ns) if outside_ms is None else outside_ms * MS
    return RankProfile(rank, ranks, elapsed_ms * MS, outside_ns, in_call, awaited or {}, list(arrivals))


def meeting(number, entered_ms, call="Allreduce", root=-1, comm=WORLD, ends_ms=None):
    """The arrivals of ranks at a call, which they leave when the last, or the root, has come."""
    ends_ms = max(entered_ms) if ends_ms is None else ends_ms
    return [
        Arrival(call, comm, number, len(entered_ms), int(at * MS), int(max(0, ends_ms - at) * MS), root)
        for at in entered_ms
    ]


def job(meetings, ranks=4, **known):
    return combined(
        [rank_profile(rank, [one[rank] for one in meetings], ranks=ranks, **known) for rank in range(ranks)]
    )


def test_the_last_rank_is_named_with_its_median_lateness():
    late = [meeting(n, [n, n, n + 5, n + 1]) if n % 10 else meeting(n, [n, n, n, n + 1]) for n in range(100)]
    (call,) = job(late).calls
    awaited = call.awaited
    assert (awaited.rank, awaited.share, awaited.calls, awaited.compared) == (2, 0.9, 100, 100)
    assert awaited.later_s == pytest.approx(0.005)  # the median of 0, 0 and 1 ms
    assert call.until_last == 1.0


def test_ranks_that_come_last_by_turns_are_not_named():
    turns = [meeting(n, [n + 5 * (rank == n % 4) for rank in range(4)]) for n in range(100)]
    assert job(turns).calls[0].awaited is None


def test_a_rank_that_costs_the_others_little_is_not_named():
    late = [meeting(n, [n, n, n + 0.01, n]) for n in range(100)]
    assert job(late).calls[0].awaited is None


def test_few_calls_prove_nothing():
    assert job([meeting(0, [0, 0, 500, 0])]).calls[0].awaited is None


def test_of_two_ranks_one_must_be_last_much_more_often_than_by_chance():
    def of(share):
        late = [meeting(n, [n + 5 * (n % 100 < share), n + 5 * (n % 100 >= share)]) for n in range(200)]
        return job(late, ranks=2).calls[0].awaited

    assert of(60) is None
    assert of(80).rank == 0


def test_for_a_root_the_others_wait_and_not_for_the_last_rank():
    late = [meeting(n, [n + 5, n, n + 9, n], "Bcast", root=0, ends_ms=n + 5) for n in range(100)]
    (call,) = job(late).calls
    assert (call.awaited.rank, call.awaited.share) == (0, 1.0)
    early = [meeting(n, [n - 5, n, n + 9, n], "Bcast", root=0, ends_ms=n) for n in range(100)]
    assert job(early).calls[0].awaited is None


def test_calls_that_not_all_ranks_have_kept_are_not_compared():
    """Those of ranks that have thinned out their sample more, or that were killed in between."""
    late = [meeting(n, [n, n, n + 5, n]) for n in range(100)]
    profiles = [rank_profile(rank, [one[rank] for one in late]) for rank in range(3)]
    profiles.append(rank_profile(3, [one[3] for one in late[::2]], in_call={"Allreduce": InCall(50, 0)}))
    (call,) = combined(profiles).calls
    assert (call.awaited.compared, call.awaited.calls) == (50, 100)


def test_ranks_elsewhere_are_left_out():
    late = [meeting(n, [n, n, n + 5, n]) for n in range(100)]
    here = [rank_profile(rank, [one[rank] for one in late]) for rank in (1, 2)]
    profile = combined(here)
    assert (profile.ranks, profile.heard, profile.calls[0].awaited.rank) == (4, 2, 2)
    assert "4 ranks, of which 2 have left a profile here" in lines(profile)[0]
    assert "rank 2 came last of the ranks here in 100 % of its 100" in lines(profile)[1]
    assert "of it before the last of the ranks here had come" in lines(profile)[1]


def test_messages_name_the_rank_that_is_waited_for_most():
    receiver = rank_profile(0, in_call={"Recv": InCall(9, 100 * MS)}, awaited={("Recv", 1): 90 * MS})
    others = [rank_profile(rank) for rank in (1, 2, 3)]
    (call,) = combined([receiver, *others]).calls
    assert (call.awaited.rank, call.awaited.share, call.awaited.later_s) == (1, 0.9, None)


def test_load_imbalance_is_the_longest_time_outside_mpi_over_the_mean():
    profile = combined([rank_profile(rank, outside_ms=100 * (rank + 1)) for rank in range(4)])
    assert profile.imbalance == pytest.approx(400 / 250 - 1)
    assert (profile.busiest, profile.busiest_s) == (3, 0.4)
    assert combined([rank_profile(0, ranks=1)]).imbalance is None


def test_the_share_outside_mpi_is_of_first_threads_as_the_imbalance_is():
    """Several threads of a rank may be within MPI at a time."""
    in_call = {"Recv": InCall(9, 5000 * MS)}
    threads = combined([rank_profile(rank, ranks=2, outside_ms=500, in_call=in_call) for rank in range(2)])
    assert (threads.outside, threads.busiest_s) == (0.5, 0.5)
    assert combined([rank_profile(0, elapsed_ms=0)]).outside == 0


TIMES_MS = st.integers(0, 2**40)


@st.composite
def any_profiles(draw):
    """Whatever ranks may leave: times of all lengths, arrivals that some have lost, other roots."""
    ranks = draw(st.integers(1, 5))
    present = draw(st.sets(st.integers(0, ranks - 1), min_size=1))
    profiles = []
    for rank in sorted(present):
        arrivals = draw(
            st.lists(
                st.builds(
                    Arrival,
                    call=st.sampled_from(["Allreduce", "Bcast", "Reduce"]),
                    comm=st.sampled_from([1, 2]),
                    number=st.integers(0, 3),
                    ranks=st.integers(1, ranks),
                    entered_ns=TIMES_MS,
                    within_ns=TIMES_MS,
                    root=st.integers(-1, ranks - 1),
                ),
                max_size=8,
            )
        )
        in_call = draw(
            st.dictionaries(st.sampled_from(["Recv", "Send"]), st.builds(InCall, st.integers(1), TIMES_MS))
        )
        awaited = draw(st.dictionaries(st.tuples(st.just("Recv"), st.integers(0, ranks - 1)), TIMES_MS))
        elapsed_ms = draw(st.integers(0, 10**7))
        profiles.append(
            rank_profile(rank, arrivals, ranks=ranks, elapsed_ms=elapsed_ms, in_call=in_call, awaited=awaited)
        )
    return profiles


@given(any_profiles())
def test_figures_are_possible_whatever_ranks_have_left(profiles):
    profile = combined(profiles)
    assert profile.heard == len(profiles) <= profile.ranks
    assert 0 <= profile.outside <= 1
    shares = sum(one.share for one in profile.calls)
    assert shares <= 1 + 1e-9
    if all(one.within_ns <= one.elapsed_ns for one in profiles):  # one thread each
        assert shares + profile.outside <= 1 + 1e-9
    assert profile.imbalance is None or -1e-9 <= profile.imbalance <= profile.heard - 1 + 1e-9
    for one in profile.calls:
        assert one.within_s >= 0
        assert one.until_last is None or 0 <= one.until_last <= 1
        if one.awaited is not None:
            assert 0 < one.awaited.share <= 1
            assert 0 <= one.awaited.compared <= one.awaited.calls
            assert one.awaited.later_s is None or one.awaited.later_s > 0
    assert lines(profile)
