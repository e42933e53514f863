"""What each processor did: states of lanes from spans of ranks."""

from itertools import pairwise

import pytest

from harness.analyse.timelines import (
    BLOCKED,
    COMMUNICATING,
    COMPUTING,
    STATES,
    SWITCHING,
    SYNCHRONIZING,
    Span,
    lanes,
)

TWO_JOBS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def made(rows, window=(0, 100)):
    """Lanes of two processors as (begin, state, job); ``rows`` are (processor, job, state, begin, end)."""
    spans = [Span(place, job, place, state, begin, end) for place, job, state, begin, end in rows]
    found = []
    for begins, codes in lanes(spans, TWO_JOBS, (0, 1), window):
        assert all(a < b for a, b in pairwise(begins)) and begins[0] == 0
        states = [STATES[code % len(STATES)] for code in codes]
        jobs = [TWO_JOBS[code // len(STATES) % len(TWO_JOBS)][0] for code in codes]
        found.append(list(zip(begins.tolist(), states, jobs, strict=True)))
    return found


def test_a_spin_is_in_vain_while_the_partner_does_not_run():
    rows = [(0, 0, COMPUTING, 0, 10), (0, 0, SYNCHRONIZING, 10, 60), (0, 0, COMPUTING, 60, 100)]
    rows += [(1, 1, COMPUTING, 0, 30), (1, 0, SWITCHING, 30, 35), (1, 0, COMPUTING, 35, 55)]
    first, second = made([*rows, (1, 0, SYNCHRONIZING, 55, 100)])
    waits = [(0, "computing", 0), (10, "spinning uselessly", 0), (35, "spinning", 0), (60, "computing", 0)]
    assert first == waits
    states = [(at, state) for at, state, _ in second]
    assert states == [(0, "computing"), (30, "switching"), (35, "computing"), (55, "spinning")]


@pytest.mark.parametrize("between, state", [([(0, 0, BLOCKED, 20, 40)], "blocked"), ([], "idle")])
def test_a_processor_that_nobody_has_is_blocked_if_the_last_who_had_it_is(between, state):
    rows = [(0, 0, COMPUTING, 10, 20), *between, (0, 0, COMPUTING, 40, 50)]
    first, second = made(rows)
    ends = [(0, "idle"), (10, "computing"), (20, state), (40, "computing"), (50, "idle")]
    assert [(at, state) for at, state, _ in first] == ends
    assert second == [(0, "idle", 0)]


def test_a_code_says_who_is_read_from_and_whether_the_process_then_blocks():
    spans = [
        Span(0, 0, 0, COMPUTING, 0, 10),
        Span(0, 0, 0, COMMUNICATING, 10, 20, 1),
        Span(0, 0, 0, BLOCKED, 20, 50, 1),
        Span(0, 0, 0, SWITCHING, 50, 60),
        Span(0, 0, 0, COMPUTING, 60, 100),
        Span(1, 0, 1, COMPUTING, 15, 30),
    ]
    (begins, codes), _ = lanes(spans, TWO_JOBS, (0, 1), (0, 100))
    meanings = [(STATES[code % 6], code // 6 % 4, code // 24) for code in codes.tolist()]
    assert begins.tolist() == [0, 10, 15, 20, 50, 60]
    names = ["computing", "spinning uselessly", "spinning", "blocked", "switching", "computing"]
    assert meanings == [(name, 0, 5 if "spinning" in name else 0) for name in names]


def test_a_read_is_not_in_vain_while_the_process_that_is_read_from_runs():
    """A third process of the job does not run."""
    three = [(0, 0), (0, 1), (0, 2)]
    spans = [Span(0, 0, 0, COMMUNICATING, 0, 50, 1), Span(1, 0, 1, COMPUTING, 20, 100)]
    (begins, codes), *_ = lanes(spans, three, (0, 1), (0, 50))
    assert [STATES[code % 6] for code in codes] == ["spinning uselessly", "spinning"]
    assert begins.tolist() == [0, 20]


def test_a_window_cuts_states_and_counts_from_its_begin():
    rows = [(0, 0, COMPUTING, 0, 30), (0, 0, SWITCHING, 30, 40), (0, 0, COMPUTING, 40, 90)]
    first, _ = made(rows, window=(20, 50))
    assert first == [(0, "computing", 0), (10, "switching", 0), (20, "computing", 0)]


def test_measured_spans_that_overlap_do_not_count_twice():
    first, _ = made([(0, 0, COMPUTING, 0, 33), (0, 1, COMPUTING, 30, 60)])
    assert first == [(0, "computing", 0), (30, "computing", 1), (60, "idle", 1)]
