"""CPU quotas of control groups: the CPU time that they leave, and how long they have stopped processes.

The kernel gives a group with a quota so much CPU time in each period (``cpu.max``; in version 1
``cpu.cfs_quota_us``), and stops its processes once that is used up. Waiting by spinning uses it, too.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coordinator.host.mechanisms import cgroup_base, make_in_use, quota_base
from coordinator.host.processes import Process
from coordinator.host.rundir import RunDirectory
from workloads.options import Options


@dataclass(frozen=True)
class Throttled:
    """How often a quota has stopped processes, in periods, and the CPU time that this has cost."""

    periods: int = 0
    lost_s: float = 0.0


NEVER = Throttled()


def quotas() -> dict[Path, float]:
    """The quotas of the groups of this process and of those around them that it sees, in processors."""
    return {group: limit for group in _groups() if (limit := _processors(group)) is not None}


def throttled() -> Throttled:
    """What these quotas have done since their groups were made."""
    counts = [_throttled(group) for group in _groups()]
    return Throttled(sum(one.periods for one in counts), sum(one.lost_s for one in counts))


def throttled_of_run(directory: RunDirectory) -> Throttled:
    return _throttled(_of_run(directory))


def _throttled(group: Path) -> Throttled:
    fields = dict(line.split() for line in _text(group / "cpu.stat").splitlines())
    lost_ns = int(fields.get("throttled_usec", 0)) * 1000 + int(fields.get("throttled_time", 0))
    return Throttled(int(fields.get("nr_throttled", 0)), lost_ns / 1e9)


def unavailable(options: Options) -> str:
    """Why no group with the quota of these options can be made here; empty if one can: it tries."""
    base = quota_base()
    requested = options.quota_processors
    if (most := min(quotas().values(), default=requested)) < requested:
        return f"this process has a quota itself, of {most:g} processors"
    if base is None:
        return "no control group around this process gives its groups the CPU controller"
    trial = base / f"lockstep-trial-{os.getpid()}"
    try:
        os.close(make_in_use(trial))
        try:
            _limit(trial, options)
        finally:
            trial.rmdir()
    except OSError as error:
        reason = f"cannot make a control group with this quota in {base} ({error.strerror})"
        return f"{reason}: needs write access to it (root, or a delegated one with the CPU controller)"
    return ""


class QuotaGroup:
    """A new control group with the quota of ``options``, for processes of the run, until it is released."""

    def __init__(self, directory: RunDirectory, options: Options) -> None:
        group = _of_run(directory)
        directory.note(cgroup=str(group))
        make_in_use(group)  # by this process, which keeps the descriptor
        _limit(group, options)
        self._members = group / "cgroup.procs"

    def adopt(self, process: Process) -> None:
        """Move a process there; the children that it will have go there, too."""
        with suppress(ProcessLookupError):
            self._members.write_text(str(process.pid))


def _of_run(directory: RunDirectory) -> Path:
    return (quota_base() or Path("/")) / f"lockstep-{directory.run}"


def _limit(group: Path, options: Options) -> None:
    period_us = round(options.quota_period_ms * 1e3)
    quota_us = options.quota_ns // 1000
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{quota_us} {period_us}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(period_us))
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))


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
