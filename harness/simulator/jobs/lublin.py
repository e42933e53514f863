"""The model of Lublin and Feitelson: sizes, run times and arrivals of rigid jobs, fitted to logs.

Source: Lublin and Feitelson 2003, "The workload on parallel supercomputers: modeling the characteristics of
rigid jobs", J. Parallel and Distributed Computing 63; numbers from the program that they published with it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.simulator.jobs.model import Floats, Integers

HALF_HOUR_S = 1800
DAY_S = 86_400
HALF_HOURS = DAY_S // HALF_HOUR_S
FIRST = 11  # number of the first half hour of the cycle, that from 5:00; the one from 0:00 has number 1
PARTS = 200  # of a half hour, for its integral

LONGEST, LONGEST_GAP = 12.0, 13.0
"""Logarithms of the longest run time and of the longest time between arrivals in seconds; others are drawn
again."""


class Gamma(NamedTuple):
    """A gamma distribution with the mean ``shape * scale``."""

    shape: float
    scale: float


class Population(NamedTuple):
    """Jobs of one class; sizes are bounded relative to the logarithm to base 2 of the machine's size."""

    serial: float  # probability of a job of one processor
    power: float  # probability of a job of a power of two, above one processor
    low: float  # log2 of the smallest size of other jobs
    middle: float  # log2 of the size at which the probability density falls, minus that of the machine
    high: float  # log2 of the largest size, minus that of the machine
    below: float  # probability of a size up to the middle
    short: Gamma  # logarithm of the run time of short jobs
    long: Gamma  # the same of long ones
    slope: float  # change of the probability of short jobs with each processor
    base: float  # probability of short jobs, at size 0
    gap: Gamma  # logarithm of the time between two arrivals in a half hour of mean activity
    day: Gamma  # the number of the half hour in which a job arrives


PEAK_TO_ALL = {"batch": 1.0519, "interactive": 0.9797, "all": 1.0225}
"""Ratio by which the shape of gaps in the hours of most arrivals is multiplied, to hold for whole days."""

POPULATIONS = {
    "batch": Population(
        serial=0.2927,
        power=0.6686,
        low=1.2,
        middle=-2.0,
        high=0.0,
        below=0.875,
        short=Gamma(6.57, 0.823),
        long=Gamma(639.1, 0.0156),
        slope=-0.003,
        base=0.6986,
        gap=Gamma(6.0415 * PEAK_TO_ALL["batch"], 0.8531),
        day=Gamma(6.1271, 5.2740),
    ),
    "interactive": Population(
        serial=0.1541,
        power=0.625,
        low=1.0,
        middle=-4.0,
        high=-1.5,
        below=0.705,
        short=Gamma(3.8351, 0.6605),
        long=Gamma(7.073, 0.6856),
        slope=-0.0118,
        base=0.9156,
        gap=Gamma(6.5510 * PEAK_TO_ALL["interactive"], 0.6621),
        day=Gamma(8.9186, 3.6680),
    ),
    "all": Population(
        serial=0.244,
        power=0.576,
        low=0.8,
        middle=-2.5,
        high=0.0,
        below=0.86,
        short=Gamma(4.2, 0.94),
        long=Gamma(312.0, 0.03),
        slope=-0.0054,
        base=0.78,
        gap=Gamma(10.2303 * PEAK_TO_ALL["all"], 0.4871),
        day=Gamma(8.1737, 3.9631),
    ),
}
"""By the names in ``workloads.machine.JOB_CLASSES``; "all" is fitted to the other two as one class."""


class Drawn(NamedTuple):
    """Jobs in order of arrival: seconds after the first midnight, processors, and run times in seconds."""

    submit_s: Floats
    sizes: Integers
    run_s: Floats


def draw(
    classes: Sequence[str], count: int, largest: int, random: np.random.Generator, busy: float | None = None
) -> Drawn:
    """The first ``count`` jobs of these classes together, none of them larger than ``largest``.

    With ``busy`` the times between arrivals are scaled, in all classes alike, so that the last job arrives
    when ``busy`` processors could have done the work of all. The day keeps its hours.
    """
    populations = [POPULATIONS[name] for name in classes]
    clocks = [DayClock(population.day) for population in populations]
    active_s = [np.cumsum(gaps_s(population, count, random)) for population in populations]
    submit_s = np.concatenate([clock.time_s(s) for clock, s in zip(clocks, active_s, strict=True)])
    first = np.argsort(submit_s, kind="stable")[:count]
    of_class = first // count
    sizes = np.empty(count, dtype=np.int64)
    run_s = np.empty(count)
    for number, population in enumerate(populations):
        ours = of_class == number
        sizes[ours] = sizes_of(population, int(ours.sum()), largest, random)
        run_s[ours] = run_times_s(population, sizes[ours], random)
    submit_s = submit_s[first]
    if busy is not None:
        end_s = float(run_s @ sizes) / busy
        own_s = np.concatenate(active_s)[first]
        # Of each class, the factor with which its last job arrives then; with the smallest, none is later.
        latest = [(number, own_s[of_class == number]) for number in range(len(classes))]
        factor = min(clocks[number].active_s(end_s) / own[-1] for number, own in latest if len(own))
        for number, own in latest:
            submit_s[of_class == number] = clocks[number].time_s(factor * own)
    order = np.argsort(submit_s, kind="stable")
    return Drawn(submit_s[order], sizes[order], run_s[order])


def sizes_of(population: Population, count: int, largest: int, random: np.random.Generator) -> Integers:
    """Sizes: 1, or 2 to the power of a value from one of two uniform distributions, often a whole one.

    None is above ``largest``, and powers of two stay powers of two.
    """
    top = math.log2(largest)
    low = min(population.low, top)
    high = max(low, top + population.high)
    middle = min(max(low, top + population.middle), high)
    below = random.random(count) < population.below
    exponents = np.where(below, random.uniform(low, middle, count), random.uniform(middle, high, count))
    kind = random.random(count)
    power = kind < population.serial + population.power
    exponents[power] = np.minimum(np.rint(exponents[power]), math.floor(top))
    exponents[kind < population.serial] = 0
    return np.asarray(np.minimum(np.rint(2**exponents), largest), dtype=np.int64)


def run_times_s(population: Population, sizes: Integers, random: np.random.Generator) -> Floats:
    """Run times: their logarithm has one of two gamma distributions, the shorter one rarely in large jobs."""
    share = np.clip(population.base + population.slope * sizes, 0, 1)
    logarithms = np.full(len(sizes), np.inf)
    while (again := np.flatnonzero(logarithms > LONGEST)).size:
        short = random.random(len(again)) < share[again]
        shape = np.where(short, population.short.shape, population.long.shape)
        scale = np.where(short, population.short.scale, population.long.scale)
        logarithms[again] = random.gamma(shape, scale)
    return np.asarray(np.exp(logarithms))


def gaps_s(population: Population, count: int, random: np.random.Generator) -> Floats:
    """Seconds from one arrival to the next, by a clock that is fast in busy half hours."""
    logarithms = np.full(count, np.inf)
    while (again := np.flatnonzero(logarithms > LONGEST_GAP)).size:
        logarithms[again] = random.gamma(*population.gap, len(again))
    return np.asarray(np.exp(logarithms))


class DayClock:
    """A clock that goes by arrivals: faster in busy half hours, as fast as other clocks over a day.

    Attributes:
        weights: how fast it goes in each half hour from midnight on; the mean is 1.
    """

    def __init__(self, day: Gamma) -> None:
        places = FIRST - 0.5 + (np.arange(HALF_HOURS * PARTS) + 0.5) / PARTS
        density = np.exp((day.shape - 1) * np.log(places) - places / day.scale)
        weights = np.roll(density.reshape(HALF_HOURS, PARTS).sum(axis=1), FIRST - 1)
        self.weights: Floats = weights / weights.mean()
        self._edges_s = np.arange(HALF_HOURS + 1) * float(HALF_HOUR_S)
        self._active_s = np.append(0.0, np.cumsum(self.weights * HALF_HOUR_S))
        self._active_s[-1] = DAY_S

    def time_s(self, active_s: Floats) -> Floats:
        """Seconds after midnight when this clock shows ``active_s``."""
        days, rest_s = np.divmod(active_s, DAY_S)
        return np.asarray(days * DAY_S + np.interp(rest_s, self._active_s, self._edges_s))

    def active_s(self, time_s: float) -> float:
        """What this clock shows ``time_s`` after midnight."""
        days, rest_s = divmod(time_s, DAY_S)
        return days * DAY_S + float(np.interp(rest_s, self._edges_s, self._active_s))
