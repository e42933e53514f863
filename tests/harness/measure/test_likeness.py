"""Whether two calibrations, or the parts of one, found the same constants."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.measure.likeness import NOT_COMPARED, RARELY, agree, contradictions
from harness.store.conditions import Conditions
from harness.store.records import Calibration
from workloads.constants import CONSTANTS, Rows

RESTS = ("500", "2000", "5000", "10000")
ROWS = [f"{one.quantity} {rest}" for one in CONSTANTS if one.kind == Rows for rest in RESTS]
OTHERS = [
    one.quantity
    for one in CONSTANTS
    if one.kind != Rows
    and one.name not in NOT_COMPARED
    and not one.of_slots
    and one.quantity != "queried_slice_ns"
]
COMPARED = [*OTHERS, *ROWS]

MOVED_BYTES = 4096


def taken(quantity, samples):
    size = MOVED_BYTES if quantity == "migration_ns" else 0
    return Calibration(
        "s", "2026-03-01T12:00:00+00:00", quantity, samples, [0, 1], size, "mpich", Conditions()
    )


def calibration(*more):
    """One of a steady host: a hundred samples of each quantity, that differ by a fifth."""
    chance = random.Random(1)
    usual = {quantity: [chance.uniform(18e3, 22e3) for _ in range(100)] for quantity in COMPARED}
    known = usual | {"queried_slice_ns": [4e6]} | {"slot_cost_ns signals": [4e5, 1e5]} | dict(more)
    return [taken(quantity, samples) for quantity, samples in known.items()]


def two_levels(high_ns, low_ns, shares):
    """A hundred samples: of each quarter this share is high, and the rest is low."""
    return [high_ns if place < 25 * share else low_ns for share in shares for place in range(25)]


def names(found):
    return {each.name for each in contradictions(found)}


def test_what_is_left_out_or_comes_rarely_is_declared():
    assert {*NOT_COMPARED, *RARELY} <= {one.name for one in CONSTANTS}


def test_a_steady_host_agrees_with_itself():
    assert not contradictions(calibration())
    assert agree(calibration(), calibration())


@pytest.mark.parametrize("quantity", COMPARED)
def test_two_levels_of_each_constant_are_found(quantity):
    """First half against second half, one quarter against the others, and both in all quarters."""
    high_ns = 50e6 if quantity in ("tick_delay_ns", "migration_ns") else 5e6
    for shares in ((1, 1, 0, 0), (1, 1, 1, 0), (0, 1, 0, 0), (0.9, 0.9, 0.1, 0.9)):
        assert names(calibration((quantity, two_levels(high_ns, 20e3, shares)))), shares
    changed = calibration((quantity, two_levels(high_ns, 20e3, (1, 1, 1, 1))))
    assert not names(changed) and not agree(calibration(), changed)


def test_the_switch_after_a_rest_that_once_spoilt_a_report_is_found():
    quarters = (97e3, 93e3, 102e3, -3e3)
    (contradiction,) = contradictions(
        calibration(("switch_after_idle_ns 500", [level for level in quarters for _ in range(25)]))
    )
    assert str(contradiction) == "switch_after_idle_us (500 us) 0 to 1e+02 us"


@settings(max_examples=20)
@given(
    quantity=st.sampled_from(COMPARED),
    level_ns=st.floats(10, 1e6),
    scatter=st.floats(0, 0.15),
    late_ns=st.floats(0, 1e9),
    seed=st.integers(0, 1000),
)
def test_scatter_and_a_rare_detour_are_no_contradiction(quantity, level_ns, scatter, late_ns, seed):
    chance = random.Random(seed)
    samples = [level_ns * chance.uniform(1 - scatter, 1 + scatter) for _ in range(100)]
    samples[chance.randrange(100)] += late_ns
    assert not contradictions(calibration((quantity, samples)))


levels = st.lists(st.floats(-1e4, 3e5), min_size=100, max_size=100)


@settings(max_examples=20)
@given(quantity=st.sampled_from(COMPARED), one=levels, other=levels)
def test_agreement_is_the_same_in_both_directions_and_blind_to_the_order_of_samples(quantity, one, other):
    first = calibration((quantity, one))
    second = calibration((quantity, other))
    assert agree(first, first) and agree(first, second) == agree(second, first)
    assert agree(first, calibration((quantity, sorted(one))))


@settings(max_examples=20)
@given(quantity=st.sampled_from(COMPARED), one=levels, longer=st.integers(2, 5))
def test_a_mixture_that_stays_the_same_is_none(quantity, one, longer):
    part = one[:25] * longer
    assert not contradictions(calibration((quantity, part * 4)))


@pytest.mark.parametrize(
    "quantity, samples, alike",
    [
        ("remote_wakeup_ns", [18.5e3], True),
        ("remote_wakeup_ns", [25e3], False),
        ("queried_slice_ns", [2.8e6], False),
        ("slot_cost_ns signals", [4.1e5, 2e5], True),
        ("slot_cost_ns signals", [1.4e6, 2e5], False),
        ("serve_ns", [0.0], False),
    ],
)
def test_two_calibrations_agree_if_all_constants_that_slowdowns_rest_on_are_alike(quantity, samples, alike):
    assert agree(calibration(), calibration((quantity, samples))) == alike


def test_what_is_little_in_the_time_in_which_it_is_paid_makes_no_difference():
    assert agree(calibration(("serve_ns", [100.0])), calibration(("serve_ns", [0.0])))
    assert agree(calibration(("latency_ns", [2e3])), calibration(("latency_ns", [2.15e3])))
    assert not agree(calibration(("latency_ns", [2e3])), calibration(("latency_ns", [2.25e3])))
    rested = "switch_after_idle_ns"
    assert not agree(calibration((f"{rested} 500", [1e3])), calibration((f"{rested} 500", [4e4])))
    assert agree(calibration((f"{rested} 10000", [1e3])), calibration((f"{rested} 10000", [4e4])))
