"""Jobs of the model of Lublin and Feitelson: their distributions, and what each draw promises.

All draws have fixed seeds; bounds are four standard errors wide.
"""

import math
import random

import numpy as np
import plain_lublin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, gamma, ks_2samp

from harness.simulator.jobs import lublin
from workloads.machine import JOB_CLASSES

MANY = 20_000
CLASSES = st.lists(st.sampled_from(JOB_CLASSES), min_size=1, max_size=3, unique=True)


def drawn(name, seed=1, largest=128):
    return lublin.draw([name], MANY, largest, np.random.default_rng(seed))


def near(values, mean):
    """Whether the mean of independent values may be this one."""
    return abs(np.mean(values) - mean) < 4 * np.std(values) / math.sqrt(len(values))


def test_experiment_files_know_the_names_of_all_classes():
    assert tuple(lublin.POPULATIONS) == JOB_CLASSES == tuple(plain_lublin.SIZES)


@pytest.mark.parametrize("name", JOB_CLASSES)
def test_sizes_have_their_probabilities(name):
    population = lublin.POPULATIONS[name]
    low = population.low
    middle = 7 + population.middle
    high = 7 + population.high
    ends = [low, middle, high]
    below = [0, population.below, 1]

    def between(first, last):
        return np.diff(np.interp([first, last], ends, below))[0]

    def probability(size):
        exponent = math.log2(size)
        other = 1 - population.serial - population.power
        mass = other * between(math.log2(size - 0.5), math.log2(size + 0.5)) + population.serial * (size == 1)
        return mass + population.power * between(exponent - 0.5, exponent + 0.5) * exponent.is_integer()

    expected = MANY * np.array([probability(size) for size in range(1, 129)])
    found = np.bincount(drawn(name).sizes, minlength=129)[1:]
    often = expected >= 5
    assert expected.sum() == pytest.approx(MANY)
    assert chisquare(found[often], expected[often] * found[often].sum() / expected[often].sum()).pvalue > 1e-3
    assert found[expected == 0].sum() == 0


@pytest.mark.parametrize("name", JOB_CLASSES)
def test_run_times_have_the_means_of_their_distributions(name):
    """The mean logarithm at each size, from the two means and the share of short jobs."""
    jobs = drawn(name)
    population = lublin.POPULATIONS[name]
    for size in (1, 8, 32):
        logarithms = np.log(jobs.run_s[jobs.sizes == size])
        share = population.base + population.slope * size
        parts = ((share, population.short), (1 - share, population.long))
        mass = [weight * gamma.cdf(12, one.shape, scale=one.scale) for weight, one in parts]
        below = [
            weight * one.shape * one.scale * gamma.cdf(12, one.shape + 1, scale=one.scale)
            for weight, one in parts
        ]
        assert near(logarithms, sum(below) / sum(mass)), size


@pytest.mark.parametrize("name", JOB_CLASSES)
def test_the_hours_of_the_day_have_their_shares_of_arrivals(name):
    weights = lublin.DayClock(lublin.POPULATIONS[name].day).weights
    assert weights == pytest.approx(plain_lublin.costs(name), rel=1e-4)
    half_hours = (drawn(name).submit_s // 1800).astype(int) % 48
    shares = np.bincount(half_hours, minlength=48) / MANY * 48
    assert np.corrcoef(shares, weights)[0, 1] > 0.97
    assert abs(shares[20:36].mean() - weights[20:36].mean()) < 0.06, "10:00 to 18:00"


def test_the_clock_of_arrivals_is_undone_by_its_inverse():
    clock = lublin.DayClock(lublin.POPULATIONS["batch"].day)
    times_s = np.linspace(1, 3 * 86_400, 100)
    again_s = clock.time_s(np.array([clock.active_s(time_s) for time_s in times_s]))
    assert again_s == pytest.approx(times_s)
    assert clock.active_s(86_400) == 86_400


@pytest.mark.slow  # the other one draws job by job
@pytest.mark.parametrize("name", JOB_CLASSES)
def test_a_plain_implementation_draws_the_same_distributions(name):
    chance = random.Random(7)
    sizes = [plain_lublin.size(name, chance) for _ in range(MANY)]
    run_s = [plain_lublin.run_s(name, size, chance) for size in sizes]
    gaps_s = np.diff(plain_lublin.arrivals_s(name, MANY, chance))
    jobs = drawn(name)
    pairs = {"sizes": (sizes, jobs.sizes), "run times": (run_s, jobs.run_s)}
    pairs |= {"gaps": (gaps_s, np.diff(jobs.submit_s))}
    for what, (theirs, ours) in pairs.items():
        assert ks_2samp(theirs, ours).pvalue > 1e-3, what
    theirs, ours = (np.corrcoef(np.log(s), np.log(r))[0, 1] for s, r in ((sizes, run_s), jobs[1:]))
    assert ours == pytest.approx(theirs, abs=0.03), "large jobs run longer"


@settings(max_examples=30, deadline=None)
@given(CLASSES, st.integers(2, 300), st.integers(1, 2000), st.floats(1e-3, 20), st.integers(0, 9))
def test_every_draw_fits_the_machine_and_has_the_load_that_was_asked_for(classes, count, largest, busy, seed):
    jobs = lublin.draw(classes, count, largest, np.random.default_rng(seed), busy)
    assert len(jobs.sizes) == len(jobs.run_s) == len(jobs.submit_s) == count
    assert jobs.sizes.min() >= 1 and jobs.sizes.max() <= largest
    assert jobs.run_s.min() >= 1 and jobs.run_s.max() <= math.exp(12)
    assert jobs.submit_s[0] > 0 and (np.diff(jobs.submit_s) >= 0).all()
    assert jobs.run_s @ jobs.sizes / jobs.submit_s[-1] == pytest.approx(busy)


@given(st.integers(1, 5000))
def test_powers_of_two_stay_powers_on_machines_of_any_size(largest):
    always = lublin.POPULATIONS["batch"]._replace(serial=0.0, power=1.0)
    sizes = lublin.sizes_of(always, 50, largest, np.random.default_rng(largest))
    assert sizes.max() <= largest and not (sizes & (sizes - 1)).any()


def test_two_classes_arrive_independently_of_each_other():
    both = lublin.draw(["batch", "interactive"], MANY, 128, np.random.default_rng(1))
    days = both.submit_s[-1] / 86_400
    rates = sum(MANY / (drawn(name).submit_s[-1] / 86_400) for name in ("batch", "interactive"))
    assert MANY / days == pytest.approx(rates, rel=0.05)


def test_a_load_keeps_the_hours_of_the_day():
    stretched = lublin.draw(["all"], MANY, 128, np.random.default_rng(1), 128 * 0.2)
    own = drawn("all")
    assert stretched.submit_s[-1] > 3 * own.submit_s[-1]
    hours = [np.bincount((jobs.submit_s // 3600).astype(int) % 24) / MANY for jobs in (own, stretched)]
    assert np.abs(hours[0] - hours[1]).max() < 0.02
