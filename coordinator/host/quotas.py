"""CPU quotas of control groups: the processor time that they leave, and how long they have stopped processes.

The kernel gives a group with a quota so much processor time in each period (``cpu.max``; in version 1
``cpu.cfs_quota_us``), and stops its processes once that is used up. Waiting by spinning uses it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from coordinator.host.mechanisms import cgroup_base


class Quota(NamedTuple):
    """A control group and the number of processors whose time it may use."""

    group: Path
    processors: float


@dataclass(frozen=True)
class Throttled:
    """How often a quota has stopped processes, in periods, and the processor time that this has cost."""

    periods: int = 0
    lost_s: float = 0.0


NEVER = Throttled()


def quotas() -> list[Quota]:
    """The quotas of this process: of its group and the groups around that, as far as it sees them."""
    return [Quota(group, found) for group in _groups() if (found := _processors(group)) is not None]


def throttled() -> Throttled:
    """What these quotas have done since their groups were made."""
    found = [throttled_in(group) for group in _groups()]
    return Throttled(sum(one.periods for one in found), sum(one.lost_s for one in found))


def throttled_in(group: Path) -> Throttled:
    """What the quota of a group has done; nothing if it has none."""
    said = dict(line.split() for line in _text(group / "cpu.stat").splitlines())
    lost_ns = int(said.get("throttled_usec", 0)) * 1000 + int(said.get("throttled_time", 0))
    return Throttled(int(said.get("nr_throttled", 0)), lost_ns / 1e9)


def _groups() -> Iterator[Path]:
    for base in map(cgroup_base, ("", "cpu")):
        yield from (base, *base.parents) if base else ()


def _processors(group: Path) -> float | None:
    quota, period = _text(group / "cpu.max").split() or (
        _text(group / f"cpu.cfs_{what}_us").strip() for what in ("quota", "period")
    )
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
