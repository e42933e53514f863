"""The processes of a Slurm job on this node, for an agent that is a step of that job.

Where Slurm has a control group for each job, they are the group's processes. Elsewhere they are what the
job's slurmstepds have started, which is what ``scontrol listpids`` lists: a slurmstepd counts if the user of
ours runs it, too, and the kernel shows the job in its title.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from coordinator.host import identity, mechanisms
from coordinator.host.environment import STEP
from coordinator.host.processes import (
    Process,
    ancestors,
    below,
    environment_of,
    is_launcher,
    name_of,
)

STEPD = "slurmstepd"
APART = "extern"
"""The step in which a user's logins are, and nothing of the job."""

WAITING = ("batch", "interactive")
"""Steps whose first process, if it is a shell, only waits for what it starts."""

SHARE = 100
"""The time to the next look is at least this multiple of the CPU time of a look."""

SHELLS = ("sh", "bash", "dash", "ash", "busybox", "ksh", "mksh", "zsh", "tcsh", "csh", "fish")

_ROOT = re.compile(r"slurm-job:([1-9][0-9]{0,9})(:left)?")
_TITLE = re.compile(r"slurmstepd: \[([0-9]+)\.([\w+]+)")


def root_of(job: str, *, left: bool = False) -> str:
    """A root that names a Slurm job, not a process; ``left``: an earlier agent may have left it stopped."""
    return f"slurm-job:{job}{':left' if left else ''}"


def is_job(root: str) -> bool:
    return _ROOT.fullmatch(root) is not None


class JobSteps(Process):
    """A handle on a job that never ends; its ``heirs`` are the job's processes that may be stopped.

    These are all but slurmstepds, launchers, shells that only wait, and the steps of our agents. A process
    that starts between two looks is not among them until the next one. ``left`` is as in ``root_of``.
    """

    def __init__(self, root: str) -> None:
        super().__init__(0, os.eventfd(0))
        named = _ROOT.fullmatch(root)
        assert named is not None
        self.family = True
        self._job = named[1]
        self.left = named[2] is not None
        self._agents: dict[str, bool] = {}
        self._due_s = 0.0

    def send(self, signum: signal.Signals) -> bool:
        return True

    def new(self) -> Iterator[Process]:
        """Forget the processes that have ended; yields a handle on each one that has come."""
        if time.monotonic() < self._due_s:
            return
        begin_s = time.thread_time()
        for heir in [heir for heir in self.heirs if heir.wait(0)]:
            self.heirs.remove(heir)
            heir.close()
        held = {heir.pid for heir in self.heirs}
        candidates = []
        for pid in self._usual() - held:
            with suppress(OSError):
                candidates.append(Process(pid))
        again = self._usual() if candidates else set()
        for process in candidates:
            # The handle was there before this second look, so the look concerned the same process.
            if process.pid in again and not process.wait(0):
                yield process
            else:
                process.close()
        self._due_s = time.monotonic() + SHARE * (time.thread_time() - begin_s)

    def _usual(self) -> set[int]:
        """The pids of the processes that may be stopped."""
        usual = set()
        for step, pids in steps(self._job).items():
            members = {pid for pid in pids if name_of(pid) not in ("", STEPD)}
            if step == APART or (members and self._is_ours(step, members)):
                continue
            usual |= {pid for pid in members if not is_launcher(pid) and not _waits(step, pid)}
        return usual

    def _is_ours(self, step: str, members: set[int]) -> bool:
        if step not in self._agents:
            self._agents[step] = any(STEP in environment_of(pid) for pid in members)
        return self._agents[step]


def _waits(step: str, pid: int) -> bool:
    """Whether a process is the shell that Slurm has started in a step where that only waits."""
    status = identity.stat(pid)
    if step not in WAITING or status is None or name_of(status.parent) != STEPD:
        return False
    with suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name in SHELLS
    return False


def steps(job: str) -> dict[str, set[int]]:
    """The pids of this host in each step of the job, if this process is in one of its steps; else empty."""
    for controller in ("", "freezer"):
        base = mechanisms.cgroup_base(controller)
        for group in (base, *base.parents) if base else ():
            if group.name == f"job_{job}":
                return {place.name.removeprefix("step_"): _within(place) for place in group.glob("step_*")}
    return _by_parents(job)


def _within(group: Path) -> set[int]:
    pids: set[int] = set()
    for file in group.rglob("cgroup.procs"):
        with suppress(OSError):
            pids |= set(map(int, file.read_bytes().split()))
    return pids


def _by_parents(job: str) -> dict[str, set[int]]:
    ours = next((pid for pid in ancestors(os.getpid()) if name_of(pid) == STEPD), None)
    if ours is None or _titled(ours)[0] != job:
        return {}
    user = _user(ours)
    found: dict[str, set[int]] = {}
    for pid in identity.pids():
        if name_of(pid) == STEPD and _user(pid) == user:
            its, step = _titled(pid)
            if its == job:
                found.setdefault(step, set()).update(below(pid))
    return found


def _titled(pid: int) -> tuple[str, str]:
    """Job and step in the title of a slurmstepd."""
    with suppress(OSError):
        title = _TITLE.match(Path(f"/proc/{pid}/cmdline").read_text(errors="replace"))
        return (title[1], title[2]) if title else ("", "")
    return "", ""


def _user(pid: int) -> int:
    with suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return -1
