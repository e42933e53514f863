"""Doubts about a calibration, when it has just been made or when something rests on it later."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.analyse.caveats import of_host
from harness.store.records import Calibration, quantile

DETOURS = 0.02
SPREAD = 3
LOADED = 0.05
"""A calibration in which others took more of the processors' time than this was made under load."""

OLD_DAYS = 7
SAME = ("host", "cpu_model", "kernel")
"""Conditions on which a calibration rests."""

MESSAGES = ("latency_ns", "remote_wakeup_ns", "local_switch_ns", "idle_wakeup_ns", "send_ns", "receive_ns")
"""Quantities whose samples should be similar."""


def of_calibration(found: Sequence[Calibration]) -> list[str]:
    said = of_host(_conditions(found))
    if (lost := _lost(found)) > DETOURS:
        said.append(f"other programs took {lost:.1%} of the processors' time: end them, and repeat")
    samples = _samples(found)
    unsteady = [
        f"{name.replace('_ns', '')} ({spread:.1f}x)"
        for name in MESSAGES
        if (spread := _spread(samples.get(name, []))) > SPREAD
    ]
    if unsteady:
        said.append(
            f"a tenth of the samples is at least {SPREAD} times the median: {', '.join(unsteady)}; "
            "the medians are valid, but on an idle host the tails are shorter"
        )
    return said


def of_use(found: Sequence[Calibration], here: Mapping[str, Any], now: datetime | None = None) -> list[str]:
    """Doubts about what rests on a calibration, now and on a host with the conditions ``here``."""
    said = [f"the calibration: {doubt}" for doubt in of_calibration(found)]
    then = _conditions(found)
    days = age_s(found, now) / 86_400
    if days > OLD_DAYS:
        said.append(f"the calibration is {days:.0f} days old: repeat it (lockstep calibrate)")
    if found and "steal" not in then:
        said.append("the calibration does not say what else ran: repeat it (lockstep calibrate)")
    for field in SAME if found else ():
        if then.get(field) != here.get(field):
            said.append(
                f"the calibration was made with {field} = {then.get(field)!r}, and now it is "
                f"{here.get(field)!r}: repeat it (lockstep calibrate)"
            )
    return said


def load(found: Sequence[Calibration]) -> float:
    """The share of the processors' time that others took during a calibration, if it is too much; else 0."""
    taken = max(_lost(found), _conditions(found).get("steal") or 0.0)
    return taken if taken > LOADED else 0.0


def age_s(found: Sequence[Calibration], now: datetime | None = None) -> float:
    """The time since a calibration, in seconds; 0 if it is of the future, or there is none."""
    made = [datetime.fromisoformat(one.recorded_at) for one in found]
    return max(0.0, ((now or datetime.now(UTC)) - max(made)).total_seconds()) if made else 0.0


def _conditions(found: Sequence[Calibration]) -> Mapping[str, Any]:
    """Those of the last one; without the load, if that was the load of the session's own runs."""
    during = dict(found[-1].conditions) if found else {}
    if during.get("again"):
        during.pop("load_before", None)
    return during


def _lost(found: Sequence[Calibration]) -> float:
    """The share of the processors' time in detours; 0 where it is unknown."""
    samples = _samples(found)
    if "detour_gap_ns" not in samples:
        return 0.0
    return statistics.fmean(samples["detour_ns"]) / statistics.fmean(samples["detour_gap_ns"])


def _samples(found: Sequence[Calibration]) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {}
    for one in found:
        samples.setdefault(one.quantity, []).extend(one.samples)
    return samples


def _spread(samples: Sequence[float]) -> float:
    if not samples:
        return 1.0
    ordered = sorted(samples)
    return quantile(ordered, 0.9) / max(quantile(ordered, 0.5), 1.0)
