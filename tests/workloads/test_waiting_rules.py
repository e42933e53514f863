"""Waiting rules: the limits of the paper, and what the adaptive ones learn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import waiting_rules

SWITCH_US = 200.0
LATENCY_US = 10.0


def rule(name, **more):
    return waiting_rules.waiting_rule(name, context_switch_us=SWITCH_US, latency_us=LATENCY_US, **more)


def limits(name, estimate_ns=waiting_rules.UNKNOWN_NS, **more):
    """(read, barrier) limits in microseconds."""
    waiting = rule(name, **more)
    return waiting_rules.read_limit(waiting) / 1e3, waiting_rules.barrier_limit(waiting, estimate_ns) / 1e3


def test_spin_never_ends_and_immediate_never_spins():
    assert limits("spin") == (waiting_rules.FOREVER_NS / 1e3,) * 2
    assert limits("immediate") == (0, 0)


def test_fixed_spins_a_multiple_of_the_switch():
    assert limits("fixed") == (400, 400)
    assert limits("fixed", spin_switches=8) == (1600, 1600)


def test_the_oracle_knows_the_imbalance():
    assert limits("oracle", imbalance_us=1000) == (400, 1020)
    assert limits("oracle", imbalance_us=2000) == (400, 2020), "v = V still spins through it"
    assert limits("oracle", imbalance_us=2001) == (400, 400), "beyond V only S"
    assert limits("oracle", imbalance_us=50) == (400, 400), "never less than S"


@pytest.mark.parametrize("name", ["local-adaptive", "global-adaptive"])
def test_adaptive_rules_do_as_the_oracle_with_what_they_learned(name):
    assert limits(name, 1_000_000) == (400, 1020)
    assert limits(name, 5_000_000) == (400, 400)
    assert limits(name) == (400, 2020), "nothing learned yet: spin for V"


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=waiting_rules.SAMPLE_SIZE))
def test_the_estimate_drops_the_top_tenth(waits):
    sample = waiting_rules.new_sample(1)
    for wait in waits:
        estimate = waiting_rules.learn(sample, wait)
    kept = sorted(waits)[: len(waits) - len(waits) // 10]
    assert estimate == kept[-1]


TIMES = st.lists(st.integers(0, 10**12), min_size=1, max_size=40)


@given(TIMES, st.integers(0, 10**12))
def test_the_spread_of_arrivals_does_not_depend_on_what_the_clock_says_or_who_waited(times, ahead):
    waiting = rule("global-adaptive", imbalance_estimate="arrival-spread")
    reports = [waiting_rules.report(waiting, waited_ns, time) for waited_ns, time in enumerate(times)]
    later = [waiting_rules.report(waiting, 0, time + ahead) for time in times]
    spread = waiting_rules.observed(waiting, min(reports), max(reports))
    assert spread == waiting_rules.observed(waiting, min(later), max(later)) == max(times) - min(times)


@given(TIMES, TIMES)
def test_the_longest_wait_needs_no_clock(waits, times):
    waiting = rule("global-adaptive", imbalance_estimate="longest-wait")
    reports = [waiting_rules.report(waiting, waited_ns, times[0]) for waited_ns in waits]
    assert waiting_rules.observed(waiting, min(reports), max(reports)) == max(waits)


def test_before_the_first_barrier_nobody_has_waited():
    waiting = rule("global-adaptive", imbalance_estimate="longest-wait")
    reported = waiting_rules.report(waiting, waiting_rules.UNKNOWN_NS, 5)
    assert waiting_rules.observed(waiting, reported, reported) < 0


@given(st.lists(st.integers(0, 10**9), max_size=300), st.integers(0, 2**31 - 1))
def test_the_sample_stays_sorted_and_bounded_and_holds_the_newest(waits, seed):
    sample = waiting_rules.new_sample(seed)
    for wait in waits:
        waiting_rules.learn(sample, wait)
        held = sample[waiting_rules.SAMPLE_HEADER : waiting_rules.SAMPLE_HEADER + sample[0]]
        assert wait in held
        assert held == sorted(held)
    assert sample[0] == min(len(waits), waiting_rules.SAMPLE_SIZE)
    assert len(sample) == waiting_rules.SAMPLE_HEADER + waiting_rules.SAMPLE_SIZE


def test_the_estimate_follows_a_program_that_changes():
    sample = waiting_rules.new_sample(3)
    for _ in range(1000):
        waiting_rules.learn(sample, 50_000)
    for _ in range(1000):
        estimate = waiting_rules.learn(sample, 2_000)
    assert estimate == 2_000
