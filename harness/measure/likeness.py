"""Whether two calibrations, or the parts of one, found the same constants.

A slowdown rests on a constant by what it costs each time, over the time from one such cost to the next: a
switch after a rest of 0.5 ms comes once in 0.5 ms at most. What is too little in that time makes no
difference.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.measure.calibrate import SLOT_MS, Constants, constants
from harness.store.records import Calibration
from workloads.constants import CONSTANTS, Rows

NOT_COMPARED = (
    *("os_noise_length_us", "os_noise_interval_us"),  # what other programs do: ``trust.taken`` judges it
    *("tick_us", "slice_us", "rr_interval_us", "cache_kb", "idle_times_us"),  # settings, no measurements
    "memory_step_ns",  # by working set; the first of a session holds
    "switch_deviation_us",  # its mean is 0
)

FINE_US = 10.0
"""Messages and switches come at most once in this time."""

RARELY = {"tick_delay_us": 4000.0, "cache_reload_us": 1e3 * SLOT_MS}
"""The time from one such cost to the next, where it is longer."""

PARTS = 4
"""The samples of a quantity, in the order of time, are compared in this number of equal parts."""

FEWEST = 20  # samples that tell something in parts


@dataclass(frozen=True)
class Tolerance:
    """How much costs may differ: by a share of the least of them, or by a share of the time between two."""

    of_least: float
    of_time: float


CALIBRATIONS = Tolerance(0.10, 0.02)
"""Of two calibrations."""

OF_ONE = Tolerance(1.00, 0.20)
"""Of parts of one: each has a quarter of the samples, and a virtual machine changes within a second.

On idle ones switches after rests of 0.5 ms differ by 60 us from part to part; their mean is what a run of
seconds meets.
"""


@dataclass(frozen=True)
class Difference:
    """The smallest and the largest value that was found of a constant, in microseconds."""

    name: str
    min_us: float
    max_us: float

    def __str__(self) -> str:
        return f"{self.name} {self.min_us:.2g} to {self.max_us:.2g} us"


def agree(one: Sequence[Calibration], other: Sequence[Calibration]) -> bool:
    """Whether two calibrations are alike in every constant that slowdowns rest on."""
    return not _differences([one, other], CALIBRATIONS)


def contradictions(calibrations: Sequence[Calibration]) -> list[Difference]:
    """The constants of which one part of a calibration found something else than another, the worst first."""
    parts = [
        [replace(one, samples=_part(one.samples, part)) for one in calibrations] for part in range(PARTS)
    ]
    return _differences(parts, OF_ONE)


def _part(samples: Sequence[float], number: int) -> Sequence[float]:
    if len(samples) < FEWEST:
        return samples
    return samples[number * len(samples) // PARTS : (number + 1) * len(samples) // PARTS]


def _differences(calibrations: Sequence[Sequence[Calibration]], tolerance: Tolerance) -> list[Difference]:
    costs = [dict(_costs(constants(one))) for one in calibrations]
    excess: dict[Difference, float] = {}
    for name, between_us in dict.fromkeys(key for each in costs for key in each):
        values_us = [each.get((name, between_us), 0.0) for each in costs]
        min_us = min(values_us)
        max_us = max(values_us)
        allowed_us = max(tolerance.of_least * min_us, tolerance.of_time * between_us)
        if max_us - min_us > allowed_us:
            excess[Difference(name, min_us, max_us)] = (max_us - min_us) / allowed_us
    return sorted(excess, key=excess.__getitem__, reverse=True)


def _costs(of_host: Constants) -> Iterator[tuple[tuple[str, float], float]]:
    """Each cost by its name and the time from one to the next, in microseconds: of samples their mean."""
    for one in CONSTANTS:
        value = getattr(of_host, one.name)
        if one.name in NOT_COMPARED or one.of_slots:
            continue
        if one.kind == Rows:
            for rest_us, row in zip(of_host.idle_times_us, value, strict=True):
                yield (f"{one.name} ({rest_us:g} us)", rest_us), statistics.fmean(row)
        elif value:
            cost_us = value if one.kind is float else statistics.fmean(value)
            yield (one.name, RARELY.get(one.name, FINE_US)), cost_us
    for mechanism, costs in of_host.slots.items():
        for name, samples in costs.items():
            yield (f"{name} ({mechanism})", 1e3 * SLOT_MS), statistics.fmean(samples or [0.0])
