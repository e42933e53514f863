"""Releasing a run, its processes, cgroups, shared memory and directory, or ending the processes of a job.

A caller of ``release`` may repeat it, and interrupt it at any point. Leftovers are runs whose driver has
certainly ended, as the lock of a run's directory shows. If the directory lies in another mount namespace, as
in a container, we look at it through the run's processes; if it is gone, they name the run's keeper.
"""

import os
import re
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.host import identity, mechanisms, processes
from coordinator.host.directories import home, locked_home
from coordinator.host.processes import Evidence, Steps
from coordinator.host.rundir import RUN_ID, SHARED_MEMORY, RunDirectory

UNSEEN = (
    "of its processes, because neither its directory nor its driver is visible from here; "
    "run lockstep clean where the run is, or with --all"
)


@dataclass
class _FoundRun:
    """A run: its directory, if known, and the keeper that each of its processes names."""

    directory: RunDirectory | None = None
    keepers: list[str] = field(default_factory=list)

    @property
    def in_use(self) -> bool | None:
        if self.directory is not None:
            return self.directory.in_use()
        verdicts = {identity.lives(name) for name in self.keepers}
        return True if True in verdicts else False if False in verdicts else None


@contextmanager
def leftovers(everything: bool) -> Iterator[tuple[list[RunDirectory], list[str]]]:
    """The directories of runs to release (all with ``everything``), and a sentence on each unknown one."""
    runs, unknown = [], []
    with ExitStack() as stack:
        with locked_home() as parent:
            for name, run in _runs(parent, stack).items():
                in_use = run.in_use
                if everything or in_use is False:
                    runs.append(run.directory or RunDirectory(home() / name))
                elif in_use is None:
                    unknown.append(f"run {name}: left alone {len(run.keepers)} {UNSEEN}")
        yield runs, unknown


def _runs(parent: Path, stack: ExitStack) -> dict[str, _FoundRun]:
    """All runs of this user that have a directory in ``parent``, or a process."""
    directories = map(RunDirectory, parent.iterdir())
    runs = {directory.run: _FoundRun(directory) for directory in directories if directory.ours}
    for pid, variables in processes.marked().items():
        name = variables[processes.RUN]
        if not RUN_ID.fullmatch(name):
            continue
        run = runs.setdefault(name, _FoundRun())
        run.keepers.append(variables.get(processes.KEEPER, ""))
        # A process names its directory, which may lie under another runtime directory.
        named = RunDirectory(Path(variables.get(processes.DIRECTORY, "")))
        if run.directory is None and named.run == name:
            with suppress(OSError):
                run.directory = named if named.ours else stack.enter_context(named.seen_by(pid))
    return runs


SEGMENT = re.compile(r"mpich_sh|sm_segment\.|vader_segment\.|psm2_shm\.|ucx_shm_")
"""Names of the segments that MPI libraries make in SHARED_MEMORY."""

TEMPORARY = Path("/tmp")
TOPOLOGY = re.compile("hydra_hwloc_xmlfile_")
"""Names of the descriptions of the host that Hydra's proxies make in TEMPORARY, whatever TMPDIR says, when a
first rank asks. A proxy has its file open to its end, and leaves it behind if it is killed or a rank aborts.
A rank that does not find the file inspects the host itself."""

PATIENCE_S = 0.25  # how long to wait for files that dying processes or other programs still use
FILE_TIMES_S = 0.01  # file times lag behind the clock by up to a tick of the kernel


def release(directory: RunDirectory, spare: Collection[int] = ()) -> list[str]:
    """Terminate the processes of a run and remove all that it made; return what was done, in sentences."""
    run = directory.run
    did: list[str] = []

    @contextmanager
    def step() -> Iterator[None]:
        """The next steps must follow a failed one; no other process will do them."""
        try:
            yield
        except Exception as error:
            did.append(f"{type(error).__name__}: {error}")

    notes = directory.notes()
    groups = [Path(note["cgroup"]) for note in notes if _is_group_of(run, note.get("cgroup"))]
    times_s = [made_s for note in notes if isinstance(made_s := note.get("made_s"), float)]
    with step():
        for group in groups:
            mechanisms.thaw(group)
    with step():  # also groups of the run that no journal names
        groups += [group for group in mechanisms.cgroups_of_runs() if group.name == f"lockstep-{run}"]
        for group in groups:
            mechanisms.thaw(group)
    with step():  # without a time from the journal, the start of the oldest process counts
        if not times_s and (starts := processes.starts_s(run)):
            times_s.append(min(starts) - FILE_TIMES_S)
    with step():
        did += [f"continued {_count(number)} of others"] if (number := processes.let_go(notes)) else []
    pids = set[int]()
    with step():
        noted = filter(None, (identity.meant(note.get("process")) for note in notes))
        pids |= {pid for pid, _ in noted}
        pids |= {pid for pid, variables in processes.marked().items() if variables[processes.RUN] == run}
    with step():
        evidence = Evidence.of(notes, groups)
        ended, remaining = processes.end(processes.ending(run, spare=spare, evidence=evidence))
        did += [f"ended {_count(ended)}"] if ended else []
        did += [f"{_count(remaining)} did not end; run lockstep clean later"] if remaining else []
    with step():
        processes.let_go(notes)  # the agent, which has ended now, may have stopped some again
    with step():
        removed = filter(mechanisms.remove_cgroups, dict.fromkeys(groups))
        did += [f"thawed and removed cgroup {group}" for group in removed]
    with step():
        launcher_pids = filter(None, (identity.meant(note.get("launcher")) for note in notes))
        launchers = {
            pid for pid, start in launcher_pids if (process := identity.stat(pid)) and process.start == start
        }
        did += [f"removed {path}" for since_s in times_s for path in remove_files(since_s, launchers)]
    with step():
        did += [f"removed {path}" for path in remove_sessions(pids - {*spare})]
    with step():
        there = directory.memory.exists()
        shutil.rmtree(directory.memory, ignore_errors=True)  # another release may be at it
        did += [f"removed {directory.memory}"] if there and not directory.memory.exists() else []
    with step():
        did += [f"removed directory {directory}"] if directory.remove() else []
    # Names may not be UTF-8.
    return [f"run {run}: {text}".encode(errors="backslashreplace").decode() for text in did]


def _is_group_of(run: str, name: object) -> bool:
    """Whether ``name``, from a journal, can be the control group of the run."""
    if not isinstance(name, str) or Path(name).name != f"lockstep-{run}":
        return False
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def clean(everything: bool = False) -> list[str]:
    """Release the leftovers of runs; return what was done, in sentences.

    Unless ``everything`` is true, it leaves alone a run whose driver is or may be alive. Only processes and
    directories of this user count, whatever the environment of a process says.
    """
    with leftovers(everything) as (runs, unknown):
        did = [line for directory in runs for line in release(directory, spare={os.getpid()})] + unknown
    with locked_home() as parent:
        for group in mechanisms.cgroups_of_runs():
            # A run that was left alone above has a directory; it may be under another XDG_RUNTIME_DIR.
            run = parent / group.name.removeprefix("lockstep-")
            left_alone = run.exists() or mechanisms.in_use(group)
            if not left_alone and mechanisms.remove_cgroups(group, patience_s=0):
                did.append(f"removed empty cgroup {group}")
    return did


def remove_files(since_s: float, spare: Collection[int] = ()) -> list[Path]:
    """Remove files that MPI has made for this user since then, unless a process maps them or has them open.

    Pids in ``spare`` do not count: launchers that serve only this run. It waits up to
    PATIENCE_S for dying processes, which hold files a moment longer than they show their mark.
    """
    deadline = time.monotonic() + PATIENCE_S
    removed: list[Path] = []
    while candidates := _files(SHARED_MEMORY, SEGMENT, since_s) | _files(TEMPORARY, TOPOLOGY, since_s):
        inodes = _used(spare)
        for path, place in candidates.items():
            if place not in inodes:
                path.unlink(missing_ok=True)
                removed.append(path)
        if time.monotonic() > deadline or inodes.isdisjoint(candidates.values()):
            break
        time.sleep(0.05)
    return removed


def remove_sessions(pids: Collection[int]) -> list[Path]:
    """Remove the session directories of Open MPI 4's launchers that had these pids, and have ended.

    A launcher that gets SIGKILL leaves its own. Only directories of this user count, and no links.
    """
    host = socket.gethostname()
    # Other hosts may have the same directory for temporary files, and processes with these numbers.
    folders = {
        Path(tempfile.gettempdir()) / f"ompi.{name}.{os.getuid()}" for name in (host, host.split(".")[0])
    }
    removed = []
    for path in (folder / f"pid.{pid}" for folder in folders for pid in pids):
        launcher = identity.stat(int(path.suffix[1:]))
        if launcher is not None and launcher.state not in "ZX":
            continue
        try:
            ways = (path.parent.lstat(), path.lstat())
        except FileNotFoundError:
            continue
        if all(stat.S_ISDIR(way.st_mode) and way.st_uid == os.getuid() for way in ways):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                removed.append(path)
            with suppress(OSError):  # other launchers have theirs in it
                path.parent.rmdir()
    return removed


def _files(folder: Path, names: re.Pattern[str], since_s: float) -> dict[Path, tuple[int, int]]:
    """Files that this user has made since then, with device and inode; none if a hardened host hides them."""
    files = {}
    for path in folder.iterdir() if os.access(folder, os.R_OK) else ():
        if not names.match(path.name):
            continue
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if status.st_uid == os.getuid() and status.st_ctime >= since_s:
            files[path] = (status.st_dev, status.st_ino)
    return files


def _used(spare: Collection[int]) -> set[tuple[int, int]]:
    """Device and inode of such files that processes map or have open: other namespaces may reuse names."""
    inodes: set[tuple[int, int]] = set()
    for pid in identity.pids():
        if pid in spare:
            continue
        process = Path(f"/proc/{pid}")
        try:
            for line in (process / "maps").read_bytes().splitlines():
                if bytes(SHARED_MEMORY) in line:
                    _, _, _, device, inode, *_ = line.split()
                    major, minor = (int(number, 16) for number in device.split(b":"))
                    inodes.add((os.makedev(major, minor), int(inode)))
            for link in (process / "fd").iterdir():
                with suppress(OSError):
                    # Only in these folders: stat on a file of a dead server never returns.
                    if link.readlink().parent in (SHARED_MEMORY, TEMPORARY):
                        status = link.stat()
                        inodes.add((status.st_dev, status.st_ino))
        except OSError:
            continue
    return inodes


def _count(processes: int) -> str:
    return f"{processes} {'process' if processes == 1 else 'processes'}"


class Discards:
    """Ends jobs' processes on this host in steps that never wait, and warns of those that do not end.

    The kernel may take seconds to kill a process. A driver that waited for it would exceed its agents' lease.
    """

    def __init__(self, directory: RunDirectory, warn: Callable[[str], None]) -> None:
        self._directory = directory
        self._warn = warn
        self._steps: dict[int, Steps] = {}
        self._dues_ns: dict[int, int] = {}
        self._then: dict[int, Callable[[], None]] = {}

    def begin(self, job: int, now_ns: int) -> None:
        """Send SIGKILL to all processes of a job, and repeat until none is left."""
        if job not in self._steps:
            evidence = Evidence.of(self._directory.notes())
            self._steps[job] = processes.ending(self._directory.run, job, grace_s=0, evidence=evidence)
            self._dues_ns[job] = now_ns
        self.go_on(now_ns)

    def concern(self, job: int) -> bool:
        """Whether processes of the job are still to end."""
        return job in self._steps

    def then(self, job: int, do: Callable[[], None]) -> None:
        """Call ``do`` when all processes of the job have ended; new ones would be killed until then."""
        if job in self._steps:
            self._then[job] = do
        else:
            do()

    def dues_ns(self) -> Collection[int]:
        return self._dues_ns.values()

    def go_on(self, now_ns: int) -> None:
        for job in [job for job, due_ns in self._dues_ns.items() if due_ns <= now_ns]:
            try:
                _, wait_s = next(self._steps[job])
                self._dues_ns[job] = now_ns + round(wait_s * 1e9)
            except StopIteration as end:
                _, remaining = end.value
                del self._steps[job], self._dues_ns[job]
                if remaining:
                    self._warn(f"job {job}: the kernel does not end {remaining} of its processes")
                self._then.pop(job, lambda: None)()
