"""The kernel's view of a process, and names that tell it from any later one with the same pid.

A pid means something only beside the start of the process, on one boot, in one namespace of pids;
the start is told in the clock of a namespace of time.
"""

from __future__ import annotations

import functools
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

NAME = re.compile(r"([^/]{1,100})/([0-9]{1,10})/([0-9]{1,20})")


class Stat(NamedTuple):
    """What /proc/PID/stat says of a process.

    Attributes:
        state: a letter.
        parent: its pid.
        session: the pid of the process that leads it.
        start: in clock ticks since the boot.
        beginning: whether it is becoming another program, whose environment cannot be read yet; false
            for a process that we may not look into.
    """

    state: str
    parent: int
    session: int
    start: int
    beginning: bool = False


def stat(pid: int) -> Stat | None:
    """What the kernel says of a process, which anybody may read; None if there is none."""
    try:
        # The name of the process, in brackets, may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        memory, environment_end = fields[20], fields[48]
        beginning = memory != b"0" and environment_end == b"0"
        return Stat(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]), beginning)
    except (OSError, ValueError, IndexError):
        return None


def start_s(process: Stat) -> float:
    """When a process has started, as ``time.time`` tells it."""
    boot_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot_s + process.start / os.sysconf("SC_CLK_TCK")


def pids() -> list[int]:
    """All processes that we can see."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - a third of the time


def name(pid: int) -> str:
    """The name of a process; empty if there is none."""
    found = stat(pid)
    return f"{_here()}/{pid}/{found.start}" if found else ""


def meant(name: object) -> tuple[int, int] | None:
    """Pid and start of the process that has this name; None if it is no name, or means nothing here."""
    found = NAME.fullmatch(name) if isinstance(name, str) else None
    return (int(found[2]), int(found[3])) if found and found[1] == _here() else None


def lives(name: str) -> bool | None:
    """Whether the process of that name lives; None if that cannot be known from here."""
    process = meant(name)
    if process is None:
        return None
    pid, start = process
    found = stat(pid)
    return found is not None and found.start == start and found.state not in "ZX"


def boot() -> str:
    """What tells the time since this host was started from any other."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@functools.cache
def _here() -> str:
    """What pids and times are true of: a boot, and two namespaces."""
    return ",".join([boot(), *map(_space, ("pid", "time"))])


def _space(kind: str) -> str:
    """Which namespace of a kind we are in; the kernel may have no such kind."""
    try:
        return str(Path("/proc/self/ns", kind).stat().st_ino)
    except OSError:
        return ""
