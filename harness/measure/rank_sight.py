"""What is seen of a rank, wherever it runs: what it counts, and what its kernel says of its process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.measure.rank_notes import Counters, RankNote

RUNNING, ASLEEP, STOPPED, ENDED, SILENT = "running", "asleep", "stopped", "ended", "silent"
"""States of a process; SILENT: neither it nor its host answers, or its line was cut: the state is unknown."""

ANSWER_S = 2.0
"""A rank that does not answer a question within this time is late."""

LETTERS = {"R": RUNNING, "D": ASLEEP, "S": ASLEEP, "I": ASLEEP, "T": STOPPED, "t": STOPPED}
OVER = "ZX"

SYSTEM_CALLS = {
    "x86_64": {
        **{0: "read", 1: "write", 7: "poll", 23: "select", 34: "pause", 35: "nanosleep", 43: "accept"},
        **{45: "recvfrom", 47: "recvmsg", 61: "wait4", 72: "fcntl", 73: "flock", 202: "futex"},
        **{230: "clock_nanosleep", 232: "epoll_wait", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait"},
    },
    "aarch64": {
        **{22: "epoll_pwait", 25: "fcntl", 32: "flock", 63: "read", 64: "write", 72: "pselect6", 73: "ppoll"},
        **{98: "futex", 101: "nanosleep", 115: "clock_nanosleep", 202: "accept", 207: "recvfrom"},
        **{212: "recvmsg", 260: "wait4"},
    },
}
"""Calls of the kernel in which processes sleep, by their numbers."""

OF_DESCRIPTORS = {"read", "write", "accept", "recvfrom", "recvmsg", "fcntl", "flock"}


@dataclass(frozen=True)
class Sight:
    """What a rank counts, the state of its process, and the CPU time that this has used, in clock ticks."""

    counters: Counters
    state: str
    cpu_ticks: int


class Rank(Protocol):
    """A rank that is watched.

    Attributes:
        host: the name of its host.
        process: a name of its process that no other process has.
        pid_here: its process as seen from here; 0: it is elsewhere.
        job: a number that the ranks of a job have in common.
        command: the words of its process; "" if they are unknown.
    """

    host: str
    process: tuple[str, int]
    pid_here: int
    job: int
    command: str

    def look(self, now_s: float) -> Sight | None:
        """What is seen of it; None if that is not newer than what was returned before."""

    def ask(self) -> None:
        """Have it tell all that it notes."""

    def has_answered(self) -> bool:
        """Whether it has answered since it was asked, or is late."""

    def note(self) -> RankNote | None:
        """What it has noted, as far as that is known; None if that makes no sense."""

    def behind_names(self) -> tuple[int, int, list[str], bytes]:
        """The rank and how many its job has, the names of its calls, and what follows them in its memory.

        There are no names, and nothing follows, if its memory cannot be read from here.
        """

    def asleep_in(self) -> str:
        """The kernel's call in which its main thread sleeps, with its descriptor; "" if that is hidden."""

    def withstands(self, signum: int) -> bool:
        """Whether its process handles or ignores a signal."""

    def close(self) -> None:
        """Give up what it is watched by."""


def process_fields(stat: bytes) -> tuple[str, int, int] | None:
    """State, CPU time in ticks, and start of a process, by its file ``stat``; None without them."""
    fields = stat.rpartition(b")")[2].split()
    try:
        letter = fields[0].decode()
        ticks, start = int(fields[11]) + int(fields[12]), int(fields[19])
    except (IndexError, ValueError):
        return None
    return ENDED if letter in OVER else LETTERS.get(letter, RUNNING), ticks, start


def kernel_call(text: bytes) -> str:
    """The call of the kernel in a file ``syscall``, with its descriptor if it has one; "" if unknown."""
    try:
        number, *arguments = text.split()
        name = SYSTEM_CALLS.get(os.uname().machine, {}).get(int(number), "")
        descriptor = str(int(arguments[0], 16)) if name in OF_DESCRIPTORS else ""
    except (IndexError, ValueError):
        return ""
    return f"{name}({descriptor})" if name else ""
