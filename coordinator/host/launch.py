"""Launching MPI programs: which launcher, its command line and environment, its own session."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from coordinator.host import descriptors, guardian
from coordinator.host.environment import PYTHON, passed_on
from coordinator.host.processes import RUN, Process, environment_of
from workloads.validation import InputError, LockstepError, one_of

KINDS = {"mpich": ("HYDRA",), "openmpi": ("Open MPI", "OpenRTE")}
"""Kinds of launchers, and what the first lines of their ``--version`` contain, whichever version."""

SRUN = "srun"
"""The kind that starts ranks as a step of the allocation of Slurm around us."""

SRUN_OPTIONS = ("--overlap", "--overcommit", "--cpu-bind=none", "--mem=0", "--kill-on-bad-exit=1", "--quiet")
"""Several steps share all that the job has on a node, and ranks bind themselves."""

SRUN_NEEDS = ("SLURM_CONF", "SLURM_JOB_ID")
"""Variables that say which allocation; others would only be options that nobody gave."""

PLUGINS = ("pmi2", "pmix")
"""Of Slurm, in the order in which they are tried: for MPICH and its kin, for Open MPI."""

TRIAL_S = 60.0

HEAD_BYTES = 1 << 20
"""So much of the beginning of an output file is its output."""

TAIL_BYTES = 1 << 16
"""So much of the end of an output file is looked at for its last lines."""

REMEDY = "pip install 'lockstep-scheduling[mpich]'"


SHARED_MEMORY = Path("/dev/shm")

BUS_ERRORS = (-signal.SIGBUS, 128 + signal.SIGBUS)
"""Exit statuses of a program that has met one, and of a shell or launcher that says so."""

BUS_ERROR_SIGNS = ("Bus error", "signal 7", "EXIT CODE: 7\n")
"""How launchers tell of a rank that has; the last is MPICH's, of the first rank that failed."""

KEEPING_STATUS = ("/bin/sh", "-c", '"$@"; status=$?; echo $status > "$0"; exit $status')
"""Runs a program and leaves its exit status in a file, for those who are not its parent."""


class LaunchError(LockstepError):
    """A program did not start, failed, or took too long; the message says which and shows its output."""


@dataclass(frozen=True)
class Launcher:
    """An mpiexec, or srun.

    Attributes:
        kind: a key of KINDS, or SRUN.
        path: of the program.
        version: of it.
        plugin: by which of Slurm's plugins srun and MPI understand each other.
    """

    kind: str
    path: str
    version: str
    plugin: str = ""

    def __str__(self) -> str:
        plugin = f" --mpi={self.plugin}" if self.plugin else ""
        return f"{self.kind}{plugin} {self.version} ({self.path})"

    def argv(self, processes: int, command: Sequence[str], hosts: Sequence[str] = ()) -> list[str]:
        """The command line that runs ``command`` in so many processes, bound to no core.

        Ranks bind themselves; several jobs share the cores, so Open MPI must not count slots.

        Args:
            processes: how many.
            command: what to run.
            hosts: the host of each rank; empty for all on this one.
        """
        if self.kind == SRUN:
            hosts = hosts or [os.environ.get("SLURMD_NODENAME", socket.gethostname())] * processes
            where = ["--distribution=arbitrary", f"--nodelist={','.join(hosts)}"]
            count = [f"--nodes={len(set(hosts))}", f"--ntasks={processes}"]
            return [self.path, f"--mpi={self.plugin}", *SRUN_OPTIONS, *count, *where, *command]
        runs = [(host, len(list(ranks))) for host, ranks in itertools.groupby(hosts)]
        if self.kind == "mpich":
            where = ["-hosts", ",".join(f"{host}:{count}" for host, count in runs)] if runs else []
            return [self.path, "-bind-to", "none", *where, "-n", str(processes), *command]
        argv = [self.path, "--bind-to", "none", "--oversubscribe"]
        if not runs:
            return [*argv, "-n", str(processes), *command]
        # A context for each stretch of ranks: in one list of hosts Open MPI would reorder them.
        parts = [["--host", f"{host}:{count}", "-n", str(count), *command] for host, count in runs]
        return argv + [word for part in parts for word in (":", *part)][1:]

    def environment(
        self,
        extra: Mapping[str, str],
        source: Mapping[str, str] | None = None,
        *,
        hosts: Sequence[str] = (),
        root: bool | None = None,
    ) -> dict[str, str]:
        """The environment to launch in: ``coordinator.host.environment.passed_on`` and what the kind needs.

        ``hosts`` as for ``argv``. Of an allocation of Slurm a launcher is told only if it shall use it.
        """
        source = os.environ if source is None else source
        inside = "SLURM_JOB_ID" in source
        needed = {}
        if self.kind == SRUN or not hosts:
            kept = SRUN_NEEDS if self.kind == SRUN else ()
            source = {name: v for name, v in source.items() if name in kept or not name.startswith("SLURM_")}
        elif inside:
            needed["SLURM_OVERLAP"] = "1"  # else the launches would wait for each other
        if self.kind == "mpich":
            # Without a topology file from us hydra writes one to /tmp, wherever TMPDIR is, and
            # leaves it there when it is killed or a rank aborts. From an empty one hwloc
            # falls back to looking for itself.
            needed["HWLOC_XMLFILE"] = os.devnull
        if self.kind == "openmpi":
            # On more ranks than cores Open MPI would yield in its polling: no spinning at all.
            needed["OMPI_MCA_mpi_yield_when_idle"] = "0"
            if os.getuid() == 0 if root is None else root:
                needed |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return passed_on(needed | dict(extra), source)


def find_launcher(name: str | None = None, hosts: Sequence[str] = ()) -> Launcher:
    """The launcher to use: the one beside our Python before those on PATH.

    On several hosts of an allocation of Slurm it is the first of srun and these that has been seen
    to start ranks there.

    Args:
        name: the kind to look for; None for any.
        hosts: where ranks will run; empty for this host alone.

    Raises:
        InputError: if there is none.
    """
    if name is not None:
        one_of("launcher", name, KINDS)
    elif hosts and "SLURM_JOB_ID" in os.environ:
        return _tried(tuple(dict.fromkeys(hosts))[:2])
    seen = []
    for path in _candidates():
        found = _identify(path)
        if found is not None and name in (None, found.kind):
            return found
        seen.append(path)
    wanted = name or " or ".join(KINDS)
    where = f"none of {', '.join(seen)} is one" if seen else "there is no mpiexec beside Python or on PATH"
    raise InputError("launcher", name, f"needs an mpiexec of {wanted}, and {where}", REMEDY)


@functools.cache
def _tried(hosts: tuple[str, ...]) -> Launcher:
    """The first launcher that starts ranks on these hosts of the allocation, where one says hello.

    Raises:
        InputError: if none does, with what each said.
    """
    srun = shutil.which("srun")
    steps = [Launcher(SRUN, srun, "of Slurm", plugin) for plugin in PLUGINS] if srun else []
    command = [*PYTHON, "-m", "mpi4py.bench", "helloworld"]
    failures = []
    for launcher in (*steps, *filter(None, map(_identify, _candidates()))):
        try:
            argv = launcher.argv(len(hosts), command, hosts)
            said = run_session(argv, launcher.environment({}, hosts=hosts), TRIAL_S)
        except LaunchError as error:
            failures.append(f"{launcher}: {error}")
            continue
        if said.count(f" of {len(hosts)} ") == len(hosts):
            return launcher
        failures.append(f"{launcher}: its ranks do not know each other: {said!r}")
    rule = "no launcher starts ranks on " + ", ".join(hosts) + ":\n" + "\n".join(failures)
    raise InputError("launcher", None, rule, "use an MPI that was built for this cluster's Slurm")


def launcher_at(name: str) -> Launcher:
    """The launcher at a path, or the first of that name on PATH.

    Raises:
        InputError: if there is none, or it is of no known kind.
    """
    path = shutil.which(name)
    found = _identify(path) if path else None
    if found is None:
        what = f"{path} is none of those" if path else "there is no such program"
        rule = f"must be an mpiexec of {' or '.join(KINDS)}, and {what}"
        raise InputError("launcher", name, rule, 'check the path, or write "{launcher}" for the usual one')
    return found


def _candidates() -> Iterator[str]:
    places = [Path(sys.executable).parent / program for program in ("mpiexec", "mpirun")]
    paths = [str(place) for place in places if os.access(place, os.X_OK)]
    paths += filter(None, map(shutil.which, ("mpiexec", "mpirun")))
    yield from dict.fromkeys(paths)


def _identify(path: str) -> Launcher | None:
    try:
        answer = subprocess.run(
            [path, "--version"], env=passed_on({}), capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return recognize(path, answer.stdout)


def unchanged(launcher: Launcher) -> Launcher:
    """The same launcher, which is still there: a series of runs is measured with one MPI.

    Raises:
        LaunchError: if it has gone, or another one is in its place.
    """
    if launcher.kind == SRUN:
        found = launcher if os.access(launcher.path, os.X_OK) else None
    else:
        found = _identify(launcher.path)
    if found != launcher:
        what = f"now it is {found}" if found else "it has gone, or does not answer"
        raise LaunchError(
            f"what is measured here began with the launcher {launcher}, and {what}; "
            "no other takes its place: bring it back and go on with --resume, or choose another --results"
        )
    return launcher


def recognize(path: str, answer: str) -> Launcher | None:
    """The launcher that gives this answer to ``--version``; None for an unknown one."""
    lines = answer.splitlines()
    for kind, signs in KINDS.items():
        if any(sign in line for line in lines[:2] for sign in signs):
            numbered = [line for line in lines if "Version:" in line] or lines
            return Launcher(kind, path, numbered[0].split()[-1])
    return None


def start(
    argv: Sequence[str],
    environment: Mapping[str, str],
    out: Path,
    err: Path,
    status: Path | None = None,
    inherited: Sequence[int] = (),
    given: str = "",
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, its output and, if asked for, its exit status going to files.

    Of our descriptors it has those that are ``inherited``, and finds on its standard input what is
    ``given``, at most a page: all of it, or it is not started.
    Files, not pipes: nobody has to wake up and read while a measurement runs.
    """
    if status is not None:
        argv = [*KEEPING_STATUS, str(status), *argv]
    with out.open("wb") as stdout, err.open("wb") as stderr, _holding(given) as stdin:
        process = subprocess.Popen(
            argv,
            env=dict(environment),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=inherited,
        )
    descriptors.as_at_start(process.pid)
    return process


@contextmanager
def _holding(text: str) -> Iterator[int]:
    """A descriptor from which this can be read, and then its end."""
    if not text:
        yield subprocess.DEVNULL
        return
    reader, writer = os.pipe()
    try:
        with os.fdopen(writer, "w") as file:
            file.write(text)
        yield reader
    finally:
        os.close(reader)


class Adopted:
    """A program that another driver started for a run; it may have ended, or not be there any more.

    Args:
        pid: its pid.
        run: id of the run.
        status: where its exit status is left; without one it counts as killed.
    """

    def __init__(self, pid: int, run: str, status: Path | None = None) -> None:
        self.pid = pid
        self._status = status
        try:
            self._process = Process(pid)
            if environment_of(pid).get(RUN) == run:
                return
            self._process.close()
        except ProcessLookupError:
            pass
        self._process = Process(pid, os.eventfd(1))  # readable like that of a process that has ended

    def handle(self) -> Process:
        """Another handle on it, to watch for its end."""
        return Process(self.pid, os.dup(self._process.fileno()))

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        return self.wait() if self._process.wait(0) else None

    def wait(self) -> int:
        """Its exit status, once it has ended."""
        self._process.wait(None)
        try:
            return int(self._status.read_text()) if self._status else -signal.SIGKILL
        except (OSError, ValueError):
            return -signal.SIGKILL

    def kill(self) -> None:
        """Send it SIGKILL if it runs."""
        if self.poll() is None:
            self._process.send(signal.SIGKILL)


Started = subprocess.Popen[bytes] | Adopted
"""A program that was started by us, or by a driver before us."""


def handle(program: Started) -> Process:
    """A handle on a program, to watch for its end."""
    return program.handle() if isinstance(program, Adopted) else Process(program.pid)


def reap(programs: Iterable[Started | None], timeout_s: float) -> bool:
    """Wait for programs that have been told to end, so long for all of them; returns whether all have ended.

    The kernel may take long to end one, for example while it waits for a file system that is gone.
    """
    deadline = time.monotonic() + timeout_s
    waited = [program for program in programs if program is not None]
    for program in waited:
        if program.poll() is None:
            with suppress(OSError), closing(handle(program)) as ending:
                ending.wait(deadline - time.monotonic())
    return all(program.poll() is not None for program in waited)


def run_session(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> str:
    """Run a short program under a guardian and return its standard output.

    Whatever happens, also to us, nothing of the program remains.

    Raises:
        LaunchError: if it cannot be started, exits with another status than 0, or takes longer
            than ``timeout_s``.
    """
    try:
        with guardian.guarded() as directory:
            out, err = directory.log("out"), directory.log("err")
            process = start(argv, {**environment, **directory.marks}, out, err)
            directory.note_process(process.pid)
            try:
                status = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise LaunchError(f"{argv[0]} took longer than {timeout_s:g} s\n{tail(err)}") from None
            if status:
                raise LaunchError(f"{argv[0]} {failed(status, err)}")
            return out.read_text(errors="replace")
    except OSError as error:
        raise LaunchError(f"cannot run {argv[0]}: {error}") from error


def describe(status: int) -> str:
    """An exit status in words."""
    return f"exited with status {status}" if status >= 0 else f"was killed by signal {-status}"


def failed(status: int, *logs: Path) -> str:
    """How a program has failed: its exit status, its last words in the first log with any, and a cause."""
    said = next(filter(None, map(tail, logs)), "")
    bus_error = status in BUS_ERRORS or any(sign in said for sign in BUS_ERROR_SIGNS)
    return "\n".join(filter(None, [describe(status), said, _shared_memory() if bus_error else ""]))


def _shared_memory() -> str:
    """What a bus error is about."""
    try:
        found = os.statvfs(SHARED_MEMORY)
    except OSError:
        return ""
    free, total = (blocks * found.f_frsize / (1 << 20) for blocks in (found.f_bavail, found.f_blocks))
    return (
        f"Signal 7 is a bus error, mostly because {SHARED_MEMORY}, where ranks share memory, is full: "
        f"{free:.1f} of {total:.1f} MiB are free now. Remove what fills it (ls -l {SHARED_MEMORY}, lockstep "
        f"clean), or enlarge it (mount -o remount,size=1G {SHARED_MEMORY}; docker run --shm-size=1g)"
    )


def head(path: Path) -> str:
    """The beginning of an output file."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES).decode(errors="replace")
    except OSError:
        return ""


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of an output file; only its end is read, however long it is."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            end = file.read(TAIL_BYTES)
    except OSError:
        return ""
    return "\n".join(end.decode(errors="replace").splitlines()[-lines:])
