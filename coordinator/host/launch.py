"""Starting programs, each in its own session, following them to their end, and limiting their output."""

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from coordinator.host import guardian, identity, processes
from coordinator.host.causes import explained, without_room
from coordinator.host.environment import Variables
from coordinator.host.processes import Process, children
from coordinator.host.rundir import RunDirectory
from workloads.validation import LockstepError

HEAD_BYTES = 1 << 20  # length of the beginning of an output file that is kept and read
LINE_CHARACTERS = 1000  # as much of a line of output is shown
TAIL_BYTES = 1 << 16  # length of the end of an output file that is kept and read
LOOK_S = 0.5  # from one look at launchers, or at the children of one, to the next

ORPHANED = "waits for processes that have ended"


class LaunchError(LockstepError):
    """A program did not start, failed, or took too long; the message names it and shows its output."""


class TooLongError(LaunchError):
    """A program did not end in its time."""


def start(
    argv: Sequence[str],
    environment: Variables,
    out: Path,
    err: Path,
    inherited: Sequence[int] = (),
    standard_input: str = "",
) -> subprocess.Popen[bytes]:
    """Start a program in its own session, with its output in files.

    It inherits our descriptors ``inherited``, and reads the text ``standard_input``, at most a page. Output
    goes to files, because a reader of pipes would wake up during measurements.
    """
    with out.open("wb") as stdout, err.open("wb") as stderr, _holding(standard_input) as stdin:
        process = subprocess.Popen(
            argv,
            env=dict(environment),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=inherited,
        )
    processes.restore_descriptor_limit(process.pid)
    return process


def from_caller() -> list[int]:
    """Descriptors besides the standard ones that this process got from its caller to pass on.

    They belong to commands of users: a pipe in a shell's ``<(...)``, a file behind ``3>``, make's job server.
    What Python opens itself is not passed on.
    """
    files = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are all that is needed
        with suppress(OSError):  # the one of the list itself is closed by now
            if int(name) > 2 and os.get_inheritable(int(name)):
                files.append(int(name))
    return files


@contextmanager
def _holding(text: str) -> Iterator[int]:
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


Started = subprocess.Popen[bytes]  # a program that we started


def handle(program: Started) -> Process:
    return Process(program.pid)


def reap(programs: Iterable[Started | None], timeout_s: float) -> bool:
    """Wait at most so long for the end of programs; return whether all have ended.

    The kernel may take long to terminate a program, for example while it waits for a dead file server.
    """
    deadline = time.monotonic() + timeout_s
    waited = [program for program in programs if program is not None]
    for program in waited:
        if program.poll() is None:
            with suppress(OSError), closing(handle(program)) as ending:
                ending.wait(deadline - time.monotonic())
    return all(program.poll() is not None for program in waited)


ORPHANED_NS = 10_000_000_000
"""A launcher without a living child for this long has lost it, and may wait for it for ever."""

LOST_NS = 3_000_000_000
"""The same after its first living child was seen: starting one may take longer than ending without one."""


class OrphanedLauncher:
    """Notices that a launcher waits for children that have ended; ``parent``: it certainly starts some."""

    def __init__(self, *, parent: bool = True) -> None:
        self._patience_ns = ORPHANED_NS if parent else None
        self._alone_ns: int | None = None

    def look(self, pid: int, now_ns: int) -> bool:
        """Whether process ``pid`` has been without a living child for too long; to be asked now and then."""
        living = (identity.stat(child) for child in children(pid))
        if any(child is not None and child.state not in "ZX" for child in living):
            self._patience_ns = LOST_NS
            self._alone_ns = None
            return False
        if self._alone_ns is None:
            self._alone_ns = now_ns
        return self._patience_ns is not None and now_ns - self._alone_ns >= self._patience_ns


def run_session(argv: Sequence[str], environment: Variables, timeout_s: float, *, parent: bool = True) -> str:
    """Run a short program, of which nothing remains even if we are killed; return its standard output.

    ``parent``: whether it certainly starts children.
    """
    try:
        with guardian.guarded() as directory:
            out, err = directory.log("out"), directory.log("err")
            process = start(argv, {**environment, **directory.marks}, out, err)
            directory.note_process(process.pid)
            if reason := _unended(process, timeout_s, OrphanedLauncher(parent=parent)):
                kind = LaunchError if reason == ORPHANED else TooLongError
                raise kind(f"{argv[0]} {reason}\n{tail(err)}".rstrip())
            if status := process.wait():
                raise LaunchError(f"{argv[0]} {failed(status, err, out)}")
            return out.read_text(errors="replace")
    except OSError as error:
        raise LaunchError(f"cannot run {argv[0]}: {error}") from error


def _unended(process: subprocess.Popen[bytes], timeout_s: float, orphaned: OrphanedLauncher) -> str:
    """Wait for the end of a program; returns why it does not come, in words, or nothing after it.

    MPICH's launcher may wait for ever after its proxy was killed.
    """
    deadline = time.monotonic() + timeout_s
    with closing(handle(process)) as ending:
        while not ending.wait(min(LOOK_S, deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                return f"took longer than {timeout_s:g} s"
            if orphaned.look(process.pid, time.monotonic_ns()):
                return ORPHANED
    return ""


def describe(status: int) -> str:
    return f"exited with status {status}" if status >= 0 else f"was killed by signal {-status}"


def failed(status: int, *logs: Path) -> str:
    """The failure of a program in words: exit status, last lines of the first nonempty log, likely causes."""
    texts = list(filter(None, map(tail, logs)))
    excerpt = [line[:LINE_CHARACTERS] for text in texts[:1] for line in text.splitlines()]
    reason = [explained(status, "\n".join([*texts, ""])), *(without_room(log.parent) for log in logs[:1])]
    return "\n".join(filter(None, [describe(status), *excerpt, *reason]))


def head(path: Path) -> str:
    """The first HEAD_BYTES of an output file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES).decode(errors="replace")
    except OSError:
        return ""


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of an output file, from its last TAIL_BYTES; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            end = file.read(TAIL_BYTES)
    except OSError:
        return ""
    return "\n".join(end.decode(errors="replace").splitlines()[-lines:])


LOG_BYTES = 1 << 26  # a longer file loses its middle
PERIOD_NS = 250_000_000  # least time from one check of the sizes to the next


class Logs:
    """The output files of a run; ``warn`` is called once for each file that has lost output."""

    def __init__(self, directory: RunDirectory, warn: Callable[[str], None]) -> None:
        self._directory = directory
        self._warn = warn
        self._shortened: set[str] = set()
        self._due_ns = 0

    def bound(self, now_ns: int) -> None:
        """Shorten files that have grown too long. Call it whenever awake: nothing wakes up for it."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + PERIOD_NS
        with suppress(OSError):
            for path in self._directory.path.glob("*.log"):
                if shorten(path) and path.name not in self._shortened:
                    self._shortened.add(path.name)
                    self._warn(
                        f"the output of {path.stem} exceeds {LOG_BYTES >> 20} MiB: "
                        "only its beginning and end are kept"
                    )


def shorten(path: Path) -> bool:
    """Free the middle of a file that uses more than LOG_BYTES; return whether it did.

    Writers continue at the same offset, so the middle becomes a hole. Output written in the
    microseconds of the cut may be lost.
    """
    if path.stat().st_blocks * 512 <= LOG_BYTES:
        return False
    with path.open("r+b", buffering=0) as file:
        at = max(HEAD_BYTES, file.seek(0, os.SEEK_END) - TAIL_BYTES)
        file.seek(at)
        end = file.read(TAIL_BYTES)
        file.truncate(HEAD_BYTES)
        file.seek(at)
        file.write(end)
    return True


class Stopped:
    """Remembers which stopped processes it has reported."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def look(self, what: str, pid: int) -> str:
        """A sentence if the process is stopped and was not at the last look; otherwise empty."""
        process = identity.stat(pid)
        if process is None or process.state != "T":
            self._told.discard(pid)
            return ""
        if pid in self._told:
            return ""
        self._told.add(pid)
        return f"another program has stopped {what} (process {pid}); kill -CONT {pid} continues it"


class Launchers:
    """Watches the launchers of jobs."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._stopped = Stopped()
        self._orphaned: dict[int, OrphanedLauncher] = {}
        self._due_ns = 0

    def look(self, now_ns: int, launchers: Mapping[int, Started | None]) -> list[int]:
        """Warn about stopped launchers; returns the jobs whose launchers wait for ended children."""
        if now_ns < self._due_ns:
            return []
        self._due_ns = now_ns + round(LOOK_S * 1e9)
        living = {launcher.pid for launcher in launchers.values() if launcher}
        self._orphaned = {pid: one for pid, one in self._orphaned.items() if pid in living}
        orphaned = []
        for job, launcher in launchers.items():
            if launcher is None:
                continue
            if text := self._stopped.look(f"the launcher of job {job}", launcher.pid):
                self._warn(text)
            if launcher.poll() is not None:
                self._orphaned.pop(launcher.pid, None)
            elif self._orphaned.setdefault(launcher.pid, OrphanedLauncher()).look(launcher.pid, now_ns):
                orphaned.append(job)
        return orphaned


def parent(pid: int) -> int:
    """The pid of the parent of a process; 0 if it has gone."""
    process = identity.stat(pid)
    return process.parent if process else 0
