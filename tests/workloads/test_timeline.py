"""Timelines: the ring, its packing, and what is read out of it."""

import base64
from itertools import pairwise

import numpy as np
import pytest
import runs
from hypothesis import given
from hypothesis import strategies as st
from rank_results import rank_result

from coordinator.drive.driver import run_workload
from harness.analyse.timelines import (
    BLOCKED,
    COMMUNICATING,
    COMPUTING,
    PREEMPTED,
    SYNCHRONIZING,
    Message,
    messages,
    occupancy,
    spans,
)
from workloads.timeline import BARRIER, GONE, READ, RECEIVED, SENT, SLEPT, Timeline, pack, unpack

RESULT = rank_result(processor=1, job=2)

numbers = st.integers(0, 2**60)
row = st.tuples(
    st.sampled_from([BARRIER, SLEPT, GONE, SENT, RECEIVED]), numbers, numbers, st.integers(-1, 99)
)


@given(st.lists(row, max_size=30))
def test_what_is_packed_comes_back(rows):
    given_rows = np.array(rows, dtype=np.int64).reshape(-1, 4)
    assert np.array_equal(unpack(pack(given_rows)), given_rows)


@given(st.integers(1, 8), st.integers(0, 30))
def test_the_ring_keeps_the_latest_rows_and_counts_the_others(size, count):
    ring = Timeline(size)
    for number in range(count):
        ring.add(BARRIER, 100 + number, 200 + number)
    assert ring.rows(100)[:, 1].tolist() == list(range(max(0, count - size), count))
    assert ring.lost == max(0, count - size)


def test_a_sleep_within_a_wait_is_blocked_and_a_leap_is_another_process():
    ring = Timeline()
    ring.add(GONE, 1100, 1200)
    ring.add(SLEPT, 1500, 1700)
    ring.add(GONE, 1495, 1710)  # the look at the clock after the sleep
    ring.add(BARRIER, 1400, 1800)
    states = [(s.state, s.begin_ns, s.end_ns) for s in spans(RESULT, pack(ring.rows(1000)))]
    assert states == [
        (COMPUTING, 1000, 1100),
        (PREEMPTED, 1100, 1200),
        (COMPUTING, 1200, 1400),
        (SYNCHRONIZING, 1400, 1495),
        (PREEMPTED, 1495, 1500),
        (BLOCKED, 1500, 1700),
        (PREEMPTED, 1700, 1710),
        (SYNCHRONIZING, 1710, 1800),
        (COMPUTING, 1800, 2000),
    ]


def test_a_wait_in_a_read_has_the_rank_read_from_and_a_message_its_two_ends():
    ring = Timeline()
    ring.add(READ, 1100, 1300, 4)
    ring.add(SLEPT, 1200, 1250)
    ring.add(SENT + 1, 1150, 7, 4)
    ring.add(READ, 1300, 1400, 0)
    ring.add(RECEIVED + 2, 1350, 9, 3)
    packed = pack(ring.rows(1000))
    assert [(s.state, s.begin_ns, s.end_ns, s.peer) for s in spans(RESULT, packed)] == [
        (COMPUTING, 1000, 1100, -1),
        (COMMUNICATING, 1100, 1200, 4),
        (BLOCKED, 1200, 1250, 4),
        (COMMUNICATING, 1250, 1300, 4),
        (COMMUNICATING, 1300, 1400, 0),
        (COMPUTING, 1400, 2000, -1),
    ]
    assert {(s.processor, s.job, s.rank) for s in spans(RESULT, packed)} == {(1, 2, RESULT.rank)}
    assert [*messages(RESULT, packed)] == [
        Message(RESULT.rank, 4, 7, 1, 1150, sent=True),
        Message(3, RESULT.rank, 9, 2, 1350, sent=False),
    ]


@pytest.mark.slow
def test_real_ranks_tell_what_they_did_and_their_messages_meet():
    result = run_workload(runs.workload("none", jobs=2, phases=200, timeline=True, waiting="immediate"))
    assert result.failure == ""
    packed = {(rank.job, rank.rank): base64.b64decode(rank.timeline) for rank in result.ranks}
    spans_of_ranks = [list(spans(rank, packed[rank.job, rank.rank])) for rank in result.ranks]
    for rank, ours in zip(result.ranks, spans_of_ranks, strict=True):
        assert (ours[0].begin_ns, ours[-1].end_ns) == (rank.start_ns, rank.finish_ns)
        assert all(a.end_ns == b.begin_ns for a, b in pairwise(ours))
        computed_ns = sum(s.end_ns - s.begin_ns for s in ours if s.state == COMPUTING)
        assert computed_ns > 0.8 * rank.computing_ns
        assert any(s.state == BLOCKED for s in ours) == (rank.waits.barrier.blocked > 0)
    lanes = occupancy([span for ours in spans_of_ranks for span in ours])
    for lane in lanes.values():
        assert all(a.end_ns <= b.begin_ns for a, b in pairwise(lane))
    for job in (0, 1):
        ours = [rank for rank in result.ranks if rank.job == job]
        ends = [m for rank in ours for m in messages(rank, packed[job, rank.rank])]
        sent = {(m.sender, m.receiver, m.count): m for m in ends if m.sent}
        taken = {(m.sender, m.receiver, m.count): m for m in ends if not m.sent}
        assert len(taken) == 2 * 200
        assert taken.keys() <= sent.keys()
        assert all(sent[key].at_ns <= taken[key].at_ns and sent[key].kind == taken[key].kind for key in taken)
