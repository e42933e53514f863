"""What is said about a calibration that something has disturbed."""

import pytest

from harness.analyse.caveats import of_calibration, of_waits
from harness.store.conditions import Moment
from harness.store.records import Calibration

CALM = Moment(load=0.1, steal_s=0.0, busy_s=1.0, total_s=10.0, frequency_mhz=3000.0)
LATER = Moment(load=1.0, steal_s=0.0, busy_s=9.0, total_s=20.0, frequency_mhz=3000.0)


def sampled(quantity, *samples):
    return Calibration("s", "now", quantity, samples, [0, 1], 0, "mpich", {})


STEADY = [
    sampled("switch_ns", *[20_000.0] * 20),
    sampled("detour_ns", 100_000.0),
    sampled("detour_gap_ns", 50e6, 50e6),
]


def moment(of, **changes):
    return Moment(**{**vars(of), **changes})


def test_nothing_is_said_of_a_calm_host():
    assert of_calibration(CALM, LATER, STEADY) == []
    unknown = moment(CALM, frequency_mhz=None)
    assert of_calibration(unknown, LATER, STEADY) == []


@pytest.mark.parametrize(
    ("before", "after", "more", "said"),
    [
        (moment(CALM, load=1.3), LATER, [], "load average of 1.3"),
        (CALM, moment(LATER, steal_s=0.5), [], "took 5.0% of the processors' time: repeat"),
        (CALM, LATER, [sampled("detour_ns", 4e6)], "other programs took 4.1%"),
        (CALM, LATER, [sampled("switch_ns", *[90_000.0] * 5)], "switch (4.5x)"),
        (CALM, moment(LATER, frequency_mhz=2400.0), [], "from 3000 to 2400 MHz"),
    ],
)
def test_each_disturbance_is_told_with_its_number(before, after, more, said):
    (doubt,) = of_calibration(before, after, [*STEADY, *more])
    assert said in doubt


def test_programs_of_others_are_told_where_our_own_time_is_known():
    ours = moment(LATER, own_s=7.8)
    assert of_waits(CALM, ours, complete=True) == []
    (doubt,) = of_waits(CALM, LATER, complete=True)
    assert "other programs took 80% of" in doubt
    assert of_waits(CALM, LATER, complete=False) == []
