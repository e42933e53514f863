"""Mechanisms that hold processes and let them run: signals, freezer, realtime.

This is the only code that stops or continues the processes of a run. Each mechanism states
which privilege it needs, whether it is available here, and its worst harm.
"""

import fcntl
import os
import re
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

from coordinator.host.priority import LEAST, levels
from coordinator.host.processes import Process, descendants, family, is_launcher, threads
from coordinator.host.rundir import RunDirectory
from workloads.validation import InputError, one_of

SIGNAL, WRITE, CLASS, FAMILY = range(4)
"""Kinds of orders: send a signal, write a letter to a file, set the scheduling class, send a signal to the
process and its descendants."""


class Order(NamedTuple):
    """The deed of ``hold`` or ``run`` on one process, for ``coordinator.host.slot_helper``.

    ``descriptor`` is the process's handle, or the open file; ``value`` the signal, the letter, or the
    priority of SCHED_RR, 0 for SCHED_OTHER.
    """

    kind: int
    descriptor: int
    pid: int
    value: int


class Mechanism(ABC):
    """Holds and runs adopted processes of the run in ``directory``.

    All methods tolerate a process that has ended.
    """

    privilege: ClassVar[str] = ""
    """The privilege that the user needs; empty for none."""
    harm: ClassVar[str] = ""
    """The worst harm, and the remedy."""

    def __init__(self, directory: RunDirectory) -> None:  # noqa: B027 - most have nothing to prepare
        pass

    @staticmethod
    def unavailable() -> str:
        """Why the mechanism cannot be used here; empty if it can."""
        return ""

    def adopt(self, process: Process, job: int, rank: int) -> None:  # noqa: B027 - the same
        """Take over a process, which continues to run."""

    def drop(self, process: Process) -> None:  # noqa: B027 - the same
        """Forget a process that has ended, or is about to end."""

    @abstractmethod
    def hold(self, process: Process) -> None:
        """Prevent the process from running."""

    @abstractmethod
    def run(self, process: Process) -> None:
        """Let the process run as the one to which the slot gives its processor."""

    @abstractmethod
    def free(self, process: Process) -> None:
        """Let the process run under the local scheduler alone."""

    def order(self, process: Process, run: bool) -> Order | None:
        """The deed of ``run``, or else of ``hold``; None if it must look at the process first."""
        return None


_known: dict[str, type[Mechanism]] = {}
M = TypeVar("M", bound=type[Mechanism])


def register(name: str) -> Callable[[M], M]:
    """Class decorator that enters a mechanism under ``name``."""

    def enter(mechanism: M) -> M:
        _known[name] = mechanism
        return mechanism

    return enter


def known() -> dict[str, type[Mechanism]]:
    return dict(_known)


def choose(name: str) -> tuple[str, str]:
    """The mechanism for ``name`` ("auto" or a mechanism), and the reason for it."""
    one_of("mechanism", name, ["auto", *_known])
    if name == "auto":
        name = "signals"
        reason = "auto: signals need no privilege and work on every kernel that has pidfds"
    else:
        reason = "requested"
    if lacking := _known[name].unavailable():
        raise InputError("mechanism", name, lacking, 'choose another one, or "auto" to leave it to Lockstep')
    return name, reason


@register("signals")
class Signals(Mechanism):
    """SIGSTOP and SIGCONT.

    In a family, launchers and their proxies get none: some tell each signal that they pass on, and they need
    no processor. What they have started gets its own.
    """

    harm: ClassVar[str] = (
        "processes stay stopped if every part of Lockstep is killed at once; `lockstep clean` ends them, and "
        "lets jobs go on that ran before"
    )

    @staticmethod
    def unavailable() -> str:
        """Without pidfds a signal could hit another process that has reused the pid."""
        try:
            Process(os.getpid()).close()
        except OSError as error:
            return f"this kernel has no pidfd_open, which needs Linux 5.3 ({error.strerror})"
        return ""

    def hold(self, process: Process) -> None:
        self._tell(process, process, signal.SIGSTOP)
        self._tell_family(process, signal.SIGSTOP)

    def run(self, process: Process) -> None:
        self._tell_family(process, signal.SIGCONT)
        self._tell(process, process, signal.SIGCONT)

    free = run

    def _tell_family(self, process: Process, signum: signal.Signals) -> None:
        for member in family(process) if process.family else ():
            with suppress(PermissionError):  # it has become another user's
                self._tell(process, member, signum)

    @staticmethod
    def _tell(process: Process, member: Process, signum: signal.Signals) -> None:
        if not (process.family and is_launcher(member.pid)):
            member.send(signum)

    def order(self, process: Process, run: bool) -> Order | None:
        """A signal, to the whole family if the process has one."""
        if process.heirs or not process.pid:
            return None
        signum = signal.SIGCONT if run else signal.SIGSTOP
        return Order(FAMILY if process.family else SIGNAL, process.fileno(), process.pid, signum)


@register("freezer")
class Freezer(Mechanism):
    """cgroup.freeze of a control group per job and processor, in version 2 of cgroups."""

    privilege: ClassVar[str] = "write access to its own cgroup v2 (root, or a delegated cgroup)"
    harm: ClassVar[str] = (
        "processes stay frozen, deaf to every signal but SIGKILL, if every part of Lockstep is killed "
        "at once; `lockstep clean` thaws and ends them"
    )

    def __init__(self, directory: RunDirectory) -> None:
        base = cgroup_base()
        assert base is not None
        self._parent = base / f"lockstep-{directory.run}"
        self._switches: dict[Process, int] = {}
        self._groups: dict[Process, Path] = {}
        self._left = set[Path]()  # groups whose processes have been dropped
        directory.note(cgroup=str(self._parent))
        self._in_use = make_in_use(self._parent)

    @staticmethod
    def unavailable() -> str:
        """Try it: make a group and remove it."""
        base = cgroup_base()
        if base is None:
            return "no cgroup v2 hierarchy that holds this process is mounted"
        trial = base / f"lockstep-trial-{os.getpid()}"
        try:
            descriptor = make_in_use(trial)
            there = (trial / "cgroup.freeze").exists()
            trial.rmdir()
            os.close(descriptor)
        except OSError as error:
            return f"cannot make a cgroup in {base} ({error.strerror}): needs {Freezer.privilege}"
        return "" if there else "this kernel has no cgroup.freeze, which needs Linux 5.2"

    def adopt(self, process: Process, job: int, rank: int) -> None:
        """Move it to its own group, which may be there from an earlier start of the job."""
        group = self._parent / f"job-{job}-rank-{rank}"
        for former in [one for one, its in self._groups.items() if its == group]:
            self.drop(former)
        self._groups[process] = group
        self._left.discard(group)
        group.mkdir(exist_ok=True)
        # Kept open: writing to the open file is most of a switch, and opening it would double that.
        self._switches[process] = os.open(group / "cgroup.freeze", os.O_WRONLY)
        self.run(process)
        with suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(process.pid))

    def drop(self, process: Process) -> None:
        """Close the switch of its group; remove those groups of dropped processes that are empty by now."""
        if process in self._switches:
            os.close(self._switches.pop(process))
            self._left.add(self._groups.pop(process))
        for group in tuple(self._left):
            with suppress(OSError):  # its process has not ended yet
                group.rmdir()
                self._left.remove(group)

    def hold(self, process: Process) -> None:
        os.pwrite(self._switches[process], b"1", 0)

    def run(self, process: Process) -> None:
        os.pwrite(self._switches[process], b"0", 0)

    free = run

    def order(self, process: Process, run: bool) -> Order | None:
        return Order(WRITE, self._switches[process], process.pid, ord("0" if run else "1"))


@register("realtime")
class Realtime(Mechanism):
    """SCHED_RR for the running gang above SCHED_OTHER for the rest.

    Held processes are not stopped: they get the time that the gang leaves idle, and the few
    per cent that the kernel reserves for ordinary processes.
    """

    privilege: ClassVar[str] = f"realtime scheduling (root, CAP_SYS_NICE, or ulimit -r of at least {LEAST})"
    harm: ClassVar[str] = (
        "spinning realtime ranks leave everything else on their processors about 5 % of the time "
        "(kernel.sched_rt_runtime_us); `lockstep clean` ends them"
    )

    @staticmethod
    def unavailable() -> str:
        """Ranks need a lower priority than the agent, which would starve otherwise."""
        return "" if levels() else f"needs {Realtime.privilege}"

    def hold(self, process: Process) -> None:
        set_class(process, "other")

    def run(self, process: Process) -> None:
        set_class(process, "rr")

    free = hold

    def order(self, process: Process, run: bool) -> Order | None:
        """A scheduling class; the members of a family must be looked up each time."""
        granted = levels()
        if process.family or granted is None:
            return None
        return Order(CLASS, process.fileno(), process.pid, granted.ranks if run else 0)


def set_class(process: Process, local: str) -> None:
    """Put a process, if it lives, under SCHED_RR ("rr") or SCHED_OTHER ("other")."""
    if process.wait(0):
        return
    granted = levels()
    policy = os.SCHED_OTHER
    priority = 0
    if local == "rr" and granted is not None:
        policy = os.SCHED_RR
        priority = granted.ranks
    for thread in _threads(process):
        with suppress(ProcessLookupError):
            os.sched_setscheduler(thread, policy, os.sched_param(priority))


def set_cores(process: Process, *cores: int) -> None:
    """Bind all threads of a process, and of its children, to cores; skip those that have ended."""
    if process.wait(0):
        return
    for thread in _threads(process):
        with suppress(OSError):
            os.sched_setaffinity(thread, cores)


def _threads(process: Process) -> Iterator[int]:
    """All threads of a process, and of its children if it is a family, with those made meanwhile."""
    yield from _own_threads(process.pid)
    for child in descendants(process.pid) if process.family else ():
        yield from _own_threads(child.pid)


def _own_threads(pid: int) -> Iterator[int]:
    all_threads = set[int]()
    while new := set(threads(pid)) - all_threads:
        yield from new
        all_threads |= new


def check_local(local: str) -> None:
    """Check that a local scheduling class can be used here."""
    one_of("local", local, ["other", "rr"])
    if local == "rr" and not levels():
        raise InputError(
            "local", "rr", f"needs {Realtime.privilege}", 'raise the limit, or choose local = "other"'
        )


def cgroup_base(controller: str = "") -> Path | None:
    """Our cgroup of version 2, or of version 1 with this ``controller``; None without one."""
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes()
        groups = Path("/proc/self/cgroup").read_bytes()
    except OSError:
        return None
    return base_among(mounts, groups, controller.encode())


def base_among(mounts: bytes, groups: bytes, controller: bytes = b"") -> Path | None:
    """``cgroup_base`` from the texts of mountinfo and of /proc/self/cgroup."""
    kind = b"cgroup" if controller else b"cgroup2"
    split = (line.split(b" - ") for line in mounts.splitlines())
    points = [
        place.split()[3:5]
        for place, (what, _, *options) in ((place, text.split()) for place, text in split)
        if what == kind and (not controller or controller in options[0].split(b","))
    ]
    named = (line.split(b":", 2) for line in groups.splitlines())
    paths = [path for _, names, path in named if controller in names.split(b",")]
    if not points or not paths:
        return None
    root, point = (
        re.sub(rb"\\([0-7]{3})", lambda escaped: bytes([int(escaped[1], 8)]), name) for name in points[0]
    )
    # A container without a namespace of cgroups sees only its own one, mounted under the host's name for it.
    below = paths[0].removeprefix(root) if (paths[0] + b"/").startswith(root + b"/") else paths[0]
    base = Path(os.fsdecode(point)) / os.fsdecode(below.lstrip(b"/"))
    return base if base.is_dir() else None


def quota_base() -> Path | None:
    """The control group in which groups can have a CPU quota: ours, the nearest around it, or none."""
    base = cgroup_base()
    for group in (base, *base.parents) if base else ():
        with suppress(OSError):
            if "cpu" in (group / "cgroup.subtree_control").read_text().split():
                return group
    return cgroup_base("cpu")


def cgroups_of_runs() -> list[Path]:
    """The existing groups of runs (and trials) in our bases."""
    bases = {cgroup_base(), quota_base()}
    return sorted(group for base in bases if base for group in base.glob("lockstep-*"))


def make_in_use(group: Path) -> int:
    """Make ``group``; it is in use until the returned descriptor is closed, or this process ends."""
    group.mkdir()
    descriptor = os.open(group, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def in_use(group: Path) -> bool:
    """Whether a process is in ``group`` or below it, or has made it for processes to come."""
    try:
        descriptor = os.open(group, os.O_RDONLY)
    except OSError:
        return populated(group)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return populated(group)


def populated(group: Path) -> bool:
    """Whether a process is in ``group`` or below it; false if the group is gone."""
    for name, sign in (("cgroup.events", "populated 1"), ("cgroup.procs", "\n")):  # version 1 has no events
        with suppress(OSError):
            return sign in (group / name).read_text()
    return False


def thaw(parent: Path) -> None:
    for group in _groups(parent):
        with suppress(OSError):
            (group / "cgroup.freeze").write_text("0")


def remove_cgroups(parent: Path, patience_s: float = 2.0) -> bool:
    """Remove ``parent`` and the groups in it, once they are empty; return whether there was a group."""
    if not parent.is_dir():
        return False
    deadline = time.monotonic() + patience_s
    while parent.is_dir():
        for group in _groups(parent):
            with suppress(OSError):
                group.rmdir()
        if time.monotonic() > deadline:
            break
        if parent.is_dir():
            time.sleep(0.01)
    return True


def _groups(parent: Path) -> list[Path]:
    """``parent`` and the groups below it, inner ones first; others may remove groups meanwhile."""
    return [Path(top) for top, _, _ in os.walk(parent, topdown=False)]
