"""Programs that start while others are measured, and get only the CPU time that those leave.

Two things keep a starting program back, since a host may heed only one of them: the policy SCHED_IDLE, and
the weight of its session's group (autogroup), as each rank of MPICH begins a session. Neither is used for
users who may not leave SCHED_IDLE again: for all of them together, the kernel changes one group in 100 ms.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from coordinator.host import priority, processes

_WORDS = ("/bin/sh", "-c", 'echo 19 2>&- >/proc/self/autogroup; exec "$0" "$@"')

AGAIN_NS = 100_000_000
"""The time after which the kernel may change the weight of a group that it has refused to change."""


@cache
def _returns() -> bool:
    """Whether a process of this user may leave SCHED_IDLE again."""
    return priority.granted((os.SCHED_IDLE, 0), (os.SCHED_OTHER, 0))


def words() -> tuple[str, ...]:
    """Words before a rank's command with which it takes the lowest weight; none if it could not return."""
    return _WORDS if _returns() else ()


class Background:
    """The launches that are kept back where this user may do that, by the number of their job."""

    def __init__(self) -> None:
        self._launchers: dict[int, int] = {}
        self._due_ns: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._launchers)

    def __iter__(self) -> Iterator[int]:
        return iter(tuple(self._launchers))

    def put(self, job: int, launcher: int) -> None:
        """Keep back the process ``launcher``, which has just started, and those that it will start."""
        self._launchers[job] = launcher
        if _returns():
            with suppress(OSError):
                os.sched_setscheduler(launcher, os.SCHED_IDLE, os.sched_param(0))

    def fetch(self, job: int, now_ns: int, *, complete: bool) -> None:
        """Give what a job has the usual priority; ``complete``: no process of it is still to come.

        To be called again when one of ``dues_ns`` has come, as long as the job is kept back.
        """
        if now_ns < self._due_ns.get(job, now_ns):
            return
        if _fetch(self._launchers[job]) and complete:
            self.forget(job)
        else:
            self._due_ns[job] = now_ns + AGAIN_NS

    def forget(self, job: int) -> None:
        self._launchers.pop(job, None)
        self._due_ns.pop(job, None)

    def dues_ns(self) -> Iterator[int]:
        yield from self._due_ns.values()


def _fetch(launcher: int) -> bool:
    """Give a launcher and its descendants the usual priority; returns whether the kernel has let us."""
    pids = [launcher, *(process.pid for process in processes.descendants(launcher))]
    forward = [_forward(pid) for pid in pids]
    return all(forward)


def _forward(pid: int) -> bool:
    for thread in processes.threads(pid):
        with suppress(OSError):
            if os.sched_getscheduler(thread) == os.SCHED_IDLE:
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
    group = Path(f"/proc/{pid}/autogroup")
    try:
        if group.read_bytes().split()[-1:] not in ([], [b"0"]):
            group.write_bytes(b"0")
    except BlockingIOError:
        return False
    except OSError:  # there are no such groups here, or the process has gone
        pass
    return True
