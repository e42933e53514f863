"""The kernel's view of a process, and names that distinguish it from a later one with the same pid.

A pid identifies a process only together with its start, on one boot, in one pid namespace;
the start is a time of one time namespace.
"""

import functools
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

NAME = re.compile(r"([^/]{1,100})/([0-9]{1,10})/([0-9]{1,20})")


class Stat(NamedTuple):
    """Fields of /proc/PID/stat; the start is in clock ticks since the boot.

    ``beginning``: whether the process is executing a new program whose environment cannot be read yet; false
    for a process that we may not inspect.
    """

    state: str
    parent: int
    session: int
    start: int
    beginning: bool = False


def stat(pid: int) -> Stat | None:
    """The fields of a process, which anybody may read; None if there is no such process."""
    try:
        # The name of the process, in brackets, may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        memory, environment_end = fields[20], fields[48]
        beginning = memory != b"0" and environment_end == b"0"
        return Stat(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]), beginning)
    except (OSError, ValueError, IndexError):
        return None


def table() -> dict[int, Stat]:
    """The fields of all processes by pid."""
    return {pid: status for pid in pids() if (status := stat(pid))}


def start_s(process: Stat) -> float:
    """The start of a process in seconds of ``time.time``."""
    boot_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot_s + process.start / os.sysconf("SC_CLK_TCK")


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - a third of the time


def name(pid: int) -> str:
    """The name of a process; empty if there is no such process."""
    process = stat(pid)
    return f"{_here()}/{pid}/{process.start}" if process else ""


def meant(name: object) -> tuple[int, int] | None:
    """Pid and start of the process with this name; None if it is no name of this boot and namespace."""
    match = NAME.fullmatch(name) if isinstance(name, str) else None
    return (int(match[2]), int(match[3])) if match and match[1] == _here() else None


def lives(name: str) -> bool | None:
    """Whether the process of that name lives; None if it cannot be known from here."""
    process = meant(name)
    if process is None:
        return None
    pid, start = process
    status = stat(pid)
    return status is not None and status.start == start and status.state not in "ZX"


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@functools.cache
def _here() -> str:
    """The scope of pids and starts: the boot and two namespaces."""
    return ",".join([boot(), *map(_space, ("pid", "time"))])


def _space(kind: str) -> str:
    """Our namespace of a kind; empty if the kernel does not have that kind."""
    try:
        return str(Path("/proc/self/ns", kind).stat().st_ino)
    except OSError:
        return ""
