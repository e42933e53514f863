"""What is said about a calibration that something has disturbed, and about what rests on it."""

import dataclasses
import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from coordinator.host.quotas import Throttled
from harness.analyse import result_warnings
from harness.analyse.result_warnings import Kind, Warned, by_gravity, of_calibration, of_waits
from harness.analyse.rows import Row, Summary
from harness.analyse.statistics import estimate
from harness.measure import trust
from harness.measure.trust import Chosen
from harness.store.conditions import Conditions, Moment, of_run
from harness.store.records import Calibration

CALM = Moment(load=0.1, steal_s=0.0, busy_s=1.0, total_s=10.0, frequency_mhz=3000.0)
LATER = Moment(load=1.0, steal_s=0.0, busy_s=9.0, total_s=20.0, frequency_mhz=3000.0, own_s=8.0)


MADE = "2026-03-01T12:00:00.000+00:00"
HERE = Conditions(host="h", cpu_model="c", kernel="6", cores=2, processors=[0, 1])


def sampled(quantity, *samples):
    return Calibration("s", MADE, quantity, samples, [0, 1], 0, "mpich", Conditions())


def between(before, after, *more):
    """A calibration between two moments."""
    during = of_run(HERE, before, after)
    return [dataclasses.replace(one, conditions=during) for one in (*STEADY, *more)]


STEADY = [
    sampled("remote_wakeup_ns", *[20_000.0] * 20),
    sampled("os_noise_length_ns", 100_000.0),
    sampled("os_noise_interval_ns", 50e6, 50e6),
]


def moment(of, **changes):
    return Moment(**{**vars(of), **changes})


def test_nothing_is_said_of_a_calm_host():
    assert not list(of_calibration(between(CALM, LATER)))
    assert not list(of_calibration(between(moment(CALM, frequency_mhz=None), LATER)))
    assert not list(of_calibration([]))
    assert not list(
        result_warnings.of_use(Chosen(between(CALM, LATER), ""), HERE, datetime.fromisoformat(MADE))
    )


@pytest.mark.parametrize(
    "before, after, more, said",
    [
        (moment(CALM, wanting=1), LATER, [], "1 threads of other programs waited"),
        (CALM, moment(LATER, steal_s=0.5), [], "took 5.0% of the CPU time: repeat"),
        (CALM, LATER, [sampled("os_noise_length_ns", 4e6)], "other programs took 4.1%"),
        (CALM, LATER, [sampled("remote_wakeup_ns", *[90_000.0] * 5)], "remote_wakeup (4.5x)"),
        (CALM, moment(LATER, frequency_mhz=2400.0), [], "from 3000 to 2400 MHz"),
        (CALM, moment(LATER, throttled=Throttled(7, 4.8)), [], "a CPU quota stopped the processes for 48%"),
    ],
)
def test_each_disturbance_is_told_with_its_number(before, after, more, said):
    (warning,) = of_calibration(between(before, after, *more))
    assert said in warning


@pytest.mark.parametrize(
    "first, last, told",
    [
        (3000.0, 2400.0, True),
        (2400.0, 3000.0, True),
        (3000.0, 2900.0, False),  # less than 5 %
        (2900.0, 3000.0, False),
        (3000.0, 3150.0, False),  # just as much
        (None, 2400.0, False),
        (2400.0, None, False),
    ],
)
def test_a_change_of_the_frequency_is_told_in_both_directions(first, last, told):
    warnings = list(
        result_warnings.of_host(
            of_run(HERE, moment(CALM, frequency_mhz=first), moment(LATER, frequency_mhz=last))
        )
    )
    assert bool(warnings) == told
    assert not told or f"from {first:.0f} to {last:.0f} MHz" in warnings[0]


def test_programs_of_others_are_told_where_our_own_time_is_known():
    theirs = moment(LATER, own_s=0.0)
    assert of_waits(CALM, moment(LATER, own_s=7.8), complete=True) == []
    (warning,) = of_waits(CALM, theirs, complete=True)
    assert "other programs took 80% of" in warning
    assert of_waits(CALM, theirs, complete=False) == []


@pytest.mark.parametrize(
    "found, here, days, said",
    [
        (between(moment(CALM, wanting=2), LATER), HERE, 0, "the calibration: 2 threads of other programs"),
        (between(CALM, LATER), HERE, 9, "is 9 days old"),
        (between(CALM, LATER), replace(HERE, kernel="7"), 0, "with kernel 6, and now it is 7"),
        ([dataclasses.replace(one, conditions=HERE) for one in STEADY], HERE, 0, "not say what else ran"),
    ],
)
def test_what_rests_on_a_calibration_shares_its_warnings(found, here, days, said):
    now = datetime.fromisoformat(MADE) + timedelta(days=days)
    (warning,) = result_warnings.of_use(Chosen(found, ""), here, now)
    assert said in warning
    assert trust.age_s(found, now) == days * 86_400


def made(at, *, others=0.0, host="h", **known):
    """A calibration at minute ``at``, during which others took that share of the processors."""
    during = of_run(replace(HERE, host=host), CALM, moment(LATER, own_s=8.0 - 10 * others))
    return [
        replace(one, recorded_at=MADE.replace("12:00", f"12:0{at}"), conditions=replace(during, **known))
        for one in STEADY
    ]


@pytest.mark.parametrize(
    "found, reason",
    [
        (between(moment(CALM, load=3.0), LATER), ""),  # the average lags in both directions
        (made(0), ""),
        (between(CALM, moment(LATER, steal_s=1.0)), "others took 10%"),
        (between(CALM, LATER, sampled("os_noise_length_ns", 50e6)), "others took 50%"),
        (made(0, others=0.3), "others took 30%"),
        (between(moment(CALM, wanting=1), LATER), "1 threads of other programs waited"),
        ([], ""),
    ],
)
def test_a_calibration_was_made_under_load_if_others_had_or_wanted_the_processors(found, reason):
    assert reason in trust.load(found) and bool(reason) == bool(trust.load(found))


IDLE = made(1)
BUSY = made(2, others=0.3)
STRANGE = made(3, host="other", cpu_model="d")
AGREED = made(4, others=0.1, agrees=True)
TWO_LEVELS = sampled("remote_wakeup_ns", *[20_000.0] * 75, *[50_000.0] * 25)
UNSTEADY = [replace(TWO_LEVELS, conditions=IDLE[0].conditions)]
AGREEING = [replace(TWO_LEVELS, conditions=replace(IDLE[0].conditions, agrees=True))]


@pytest.mark.parametrize(
    "known, taken, said",
    [
        ([], [], "no calibration in r: values missing in [machine] are from Dusseau et al. 1996"),
        ([IDLE], IDLE, ""),
        ([AGREED, IDLE], AGREED, ""),
        ([BUSY, IDLE], IDLE, "constants of 2026-03-01 12:01 UTC: a later calibration was made under load"),
        ([made(6, others=0.4), BUSY, IDLE], IDLE, "a later calibration was made under load (others took 40%"),
        ([BUSY], [], "no good calibration in r: "),
        ([made(5, others=0.3, agrees=True)], [], "no good calibration in r: "),
        ([STRANGE], [], "no calibration of this host in r: "),
        ([STRANGE, IDLE], IDLE, ""),
        ([made(1, host="container")], made(1, host="container"), ""),  # of the same machine
        (
            [UNSTEADY, IDLE],
            UNSTEADY,
            "changed during its calibration (its samples contradict each other: remote",
        ),
        ([AGREEING], AGREEING, ""),
    ],
)
def test_one_rule_chooses_the_calibration_of_all_commands_and_says_so_in_one_line(known, taken, said):
    basis = trust.chosen(known, HERE, Path("r"))
    assert basis.calibration == taken or list(basis.calibration) == taken
    assert said in basis.line and bool(said) == bool(basis.line) and "\n" not in basis.line
    assert basis.line.count("others took") <= 1  # the latest one says enough


@pytest.mark.parametrize(
    "rows, said",
    [
        ([[1.1, 1.1, 1.1]], []),
        ([[1.1], [1.1, 1.1, 1.1]], ["1 of 2 rows have no interval, with one repeat each"]),
        (
            [[1.1], [1.1, 1.2], [1.0]],
            ["2 of 3 rows have no interval, with one repeat", "1 of 3 rows have no interval, with two"],
        ),
    ],
)
def test_rows_of_few_repeats_are_told_by_their_number(rows, said):
    measured = [Row((), {}, {"policy": "gang"}, Summary(estimate(values)), None) for values in rows]
    told = result_warnings.warnings_of(measured, [])
    assert len(told) == len(said)
    assert all(words in sentence for words, sentence in zip(said, told, strict=True))


def test_warnings_come_in_the_order_of_their_kinds_and_sizes():
    every = [Warned(kind, kind.name) for kind in reversed(Kind)]
    assert by_gravity(every) == [kind.name for kind in Kind]
    taken = [Warned(Kind.TIME_TAKEN, f"{share}", share) for share in (0.1, 0.3, 0.2, 0.3)]
    assert by_gravity(taken) == ["0.3", "0.2", "0.1"]


def test_the_larger_disturbance_of_a_measurement_comes_first():
    stolen = moment(LATER, steal_s=0.5, own_s=0.0, throttled=Throttled(7, 4.8))
    told = of_waits(CALM, stolen, complete=True)
    assert [re.search(r"hypervisor|quota|programs", one)[0] for one in told] == [
        "programs",
        "quota",
        "hypervisor",
    ]
