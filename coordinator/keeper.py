"""The keeper of a run: the process that holds its lock, by a name with which others can ask whether it lives.

A pid means something only beside the start of the process, on one boot, in one namespace of pids;
the start is told in the clock of a namespace of time.
"""

from __future__ import annotations

import os
from pathlib import Path

KEEPER = "LOCKSTEP_KEEPER"
"""Variable that names the keeper to every process of a run."""


def name() -> str:
    """The name of this process."""
    pid = os.getpid()
    return f"{_here()}/{pid}/{_start(pid)}"


def lives(keeper: str) -> bool | None:
    """Whether the process of that name lives; None if that cannot be known from here."""
    place, _, rest = keeper.partition("/")
    pid, _, start = rest.partition("/")
    if place != _here() or not pid.isdecimal():
        return None
    return _start(int(pid)) == start


def _here() -> str:
    """What pids and times are true of: a boot, and two namespaces."""
    spaces = [str(Path("/proc/self/ns", space).stat().st_ino) for space in ("pid", "time")]
    return ",".join([Path("/proc/sys/kernel/random/boot_id").read_text().strip(), *spaces])


def _start(pid: int) -> str:
    """When a process has started, in clock ticks since the boot; empty if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
