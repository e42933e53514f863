"""What is said about a calibration that something has disturbed, and about what rests on it."""

import dataclasses
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from coordinator.host.quotas import Throttled
from harness.analyse import caveats
from harness.analyse.caveats import of_calibration, of_waits
from harness.store.conditions import Conditions, Moment, of_run
from harness.store.records import Calibration

CALM = Moment(load=0.1, steal_s=0.0, busy_s=1.0, total_s=10.0, frequency_mhz=3000.0)
LATER = Moment(load=1.0, steal_s=0.0, busy_s=9.0, total_s=20.0, frequency_mhz=3000.0)


MADE = "2026-03-01T12:00:00.000+00:00"
HERE = Conditions(host="h", cpu_model="c", kernel="6")


def sampled(quantity, *samples):
    return Calibration("s", MADE, quantity, samples, [0, 1], 0, "mpich", Conditions())


def between(before, after, *more):
    """A calibration between two moments."""
    during = of_run(HERE, before, after)
    return [dataclasses.replace(one, conditions=during) for one in (*STEADY, *more)]


STEADY = [
    sampled("remote_wakeup_ns", *[20_000.0] * 20),
    sampled("detour_ns", 100_000.0),
    sampled("detour_gap_ns", 50e6, 50e6),
]


def moment(of, **changes):
    return Moment(**{**vars(of), **changes})


def test_nothing_is_said_of_a_calm_host():
    assert not list(of_calibration(between(CALM, LATER)))
    assert not list(of_calibration(between(moment(CALM, frequency_mhz=None), LATER)))
    assert not list(of_calibration([]))
    assert not list(caveats.of_use(between(CALM, LATER), HERE, datetime.fromisoformat(MADE)))


@pytest.mark.parametrize(
    ("before", "after", "more", "said"),
    [
        (moment(CALM, load=1.3), LATER, [], "load average of 1.3"),
        (CALM, moment(LATER, steal_s=0.5), [], "took 5.0% of the processors' time: repeat"),
        (CALM, LATER, [sampled("detour_ns", 4e6)], "other programs took 4.1%"),
        (CALM, LATER, [sampled("remote_wakeup_ns", *[90_000.0] * 5)], "remote_wakeup (4.5x)"),
        (CALM, moment(LATER, frequency_mhz=2400.0), [], "from 3000 to 2400 MHz"),
        (CALM, moment(LATER, throttled=Throttled(7, 4.8)), [], "a CPU quota stopped the processes for 48%"),
    ],
)
def test_each_disturbance_is_told_with_its_number(before, after, more, said):
    (doubt,) = of_calibration(between(before, after, *more))
    assert said in doubt


def test_programs_of_others_are_told_where_our_own_time_is_known():
    ours = moment(LATER, own_s=7.8)
    assert of_waits(CALM, ours, complete=True) == []
    (doubt,) = of_waits(CALM, LATER, complete=True)
    assert "other programs took 80% of" in doubt
    assert of_waits(CALM, LATER, complete=False) == []


@pytest.mark.parametrize(
    ("found", "here", "days", "said"),
    [
        (between(moment(CALM, load=1.3), LATER), HERE, 0, "the calibration: a load average of 1.3"),
        (between(CALM, LATER), HERE, 9, "is 9 days old"),
        (between(CALM, LATER), replace(HERE, kernel="7"), 0, "with kernel = '6', and now it is '7'"),
        ([dataclasses.replace(one, conditions=HERE) for one in STEADY], HERE, 0, "not say what else ran"),
    ],
)
def test_what_rests_on_a_calibration_shares_its_doubts(found, here, days, said):
    now = datetime.fromisoformat(MADE) + timedelta(days=days)
    (doubt,) = caveats.of_use(found, here, now)
    assert said in doubt
    assert caveats.calibration_age_s(found, now) == days * 86_400


def test_a_calibration_was_made_under_load_if_others_took_the_processors_not_by_the_average_alone():
    assert caveats.calibration_load(between(moment(CALM, load=3.0), LATER)) == 0
    assert caveats.calibration_load(between(CALM, LATER)) == 0
    assert caveats.calibration_load(between(CALM, moment(LATER, steal_s=1.0))) == pytest.approx(0.1)
    assert caveats.calibration_load(between(CALM, LATER, sampled("detour_ns", 50e6))) > 0.4
