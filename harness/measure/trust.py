"""Whether a calibration is good, and the one that every command goes by.

A calibration is good if it was made on an idle host, or if it found what the one before it had found although
other programs took some of the processors. Its records say which. An idle host, too, may change while it is
calibrated: then the samples of a quantity contradict each other, and the calibration stands with a warning.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.measure.calibrate import Constants, constants
from harness.measure.likeness import contradictions
from harness.store.conditions import Conditions, crowding
from harness.store.records import Calibration

LOADED = 0.05
"""A calibration in which others took more of the CPU time than this was made under load."""

SPOILT = 0.20
"""One in which they took more than this is not good, whatever the next one finds."""

AGAIN = 3  # so often a calibration that is not steady is repeated at most

REMEDY = "simulated slowdowns may be off; repeat it (lockstep calibrate)"

PAPER = "Dusseau et al. 1996"  # has the machine where none is calibrated


def taken(calibrations: Sequence[Calibration]) -> float:
    """The share of the CPU time that others and the hypervisor took during a calibration."""
    during = calibrations[-1].conditions if calibrations else Conditions()
    return max(in_os_noise(calibrations), during.others or 0.0, during.steal or 0.0)


def in_os_noise(calibrations: Iterable[Calibration]) -> float:
    """The share of the CPU time in interruptions; 0 where it is unknown."""
    samples: dict[str, list[float]] = {"os_noise_length_ns": [], "os_noise_interval_ns": []}
    for one in calibrations:
        samples.get(one.quantity, []).extend(one.samples)
    if not all(samples.values()):
        return 0.0
    return statistics.fmean(samples["os_noise_length_ns"]) / statistics.fmean(samples["os_noise_interval_ns"])


def load(calibrations: Sequence[Calibration]) -> str:
    """What says that a calibration was made under load, in words; empty if it was made on an idle host."""
    if (share := taken(calibrations)) > LOADED:
        return f"others took {share:.0%} of the processors"
    waiting = crowding(calibrations[-1].conditions) if calibrations else 0
    return f"{waiting} threads of other programs waited for a processor" if waiting else ""


def good(calibrations: Sequence[Calibration]) -> bool:
    return not load(calibrations) or (calibrations[-1].conditions.agrees and taken(calibrations) <= SPOILT)


def unsteady(calibrations: Sequence[Calibration]) -> str:
    """What says that a calibration should be repeated, in words; empty if it was the same all the while.

    One that found what the one before it had found needs no repetition, unless others took too much.
    """
    if calibrations and calibrations[-1].conditions.agrees and good(calibrations):
        return ""
    if reason := load(calibrations):
        return reason
    differences = contradictions(calibrations)
    more = f", and {len(differences) - 1} more" if len(differences) > 1 else ""
    return f"its samples contradict each other: {differences[0]}{more}" if differences else ""


def same_host(one: Conditions, other: Conditions) -> bool:
    """Whether both are conditions of one host, or of containers there, which have names of their own."""
    if one.host is None or one.cpu_model != other.cpu_model:
        return one.host is None  # unknown, as in what a user writes by hand
    names = ("kernel", "cores", "memory_bytes")
    return one.host == other.host or all(getattr(one, name) == getattr(other, name) for name in names)


@dataclass(frozen=True)
class Chosen:
    """The calibration that a command goes by, none for the 1996 machine, and a warning in one line.

    The line is empty where it is the newest calibration, and that one was steady.
    """

    calibration: Sequence[Calibration]
    line: str

    @property
    def constants(self) -> Constants | None:
        return constants(self.calibration) if self.calibration else None


def chosen(sets: Iterable[Sequence[Calibration]], here: Conditions, folder: Path) -> Chosen:
    """The newest good calibration of the host ``here`` among those in ``folder``, the newest first."""
    loaded: list[str] = []
    elsewhere: list[str] = []
    for calibrations in sets:
        origin = calibrations[-1].conditions
        if not same_host(origin, here):
            elsewhere.append(str(origin.host))
        elif not good(calibrations):
            loaded.append(load(calibrations))
        else:
            at = calibrations[-1].recorded_at[:16].replace("T", " ")
            reason = "".join(f" ({one})" for one in loaded[:1])
            line = f"constants of {at} UTC: a later calibration was made under load{reason}"
            lines = [line] if loaded else []
            if reason := unsteady(calibrations):
                lines.append(f"the host changed during its calibration ({reason}): {REMEDY}")
            return Chosen(calibrations, "; ".join(lines))
    which = "no calibration"
    remedy = ""
    if loaded:
        which = "no good calibration"
        remedy = f" ({loaded[0]}); lockstep calibrate needs an idle host"
    elif elsewhere:
        which = "no calibration of this host"
        remedy = f", only of {', '.join(dict.fromkeys(elsewhere))}"
    remark = f"values missing in [machine] are from {PAPER}"
    return Chosen((), f"{which} in {folder}: {remark}{remedy}")


def age_s(calibrations: Sequence[Calibration], now: datetime | None = None) -> float:
    """The time since a calibration, in seconds; 0 if it is of the future, or there is none."""
    times = [datetime.fromisoformat(one.recorded_at) for one in calibrations]
    return max(0.0, ((now or datetime.now(UTC)) - max(times)).total_seconds()) if times else 0.0
