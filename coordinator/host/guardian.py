"""The guardian: outlives the agent (or driver), and releases the run when that is gone.

``python -P -m coordinator.host.guardian DIRECTORY FD LEASE`` waits until the other end of a socket pair
closes, however its owner ended, and releases the run. Every run ends in this way, so every run
tests the release after a crash. A stopped agent does not close its end: with a
lease, the guardian also releases the run if it hears nothing for that long.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from coordinator.host.environment import PYTHON, forwarded
from coordinator.host.priority import prompt
from coordinator.host.processes import GRACE_S, STUBBORN_S, Process
from coordinator.host.rundir import RunDirectory

COMMAND = (*PYTHON, "-S", "-m", "coordinator.host.guardian")
"""Without ``site``: a guardian needs no other package, ours are in PYTHONPATH, and its start counts."""

START_S = 30.0  # how long a guardian may take to start on a busy host
RELEASE_S = 2 * (GRACE_S + STUBBORN_S)  # a release that takes longer has failed


def start(
    directory: RunDirectory,
    lease_s: float | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a guardian in its own session, watching; return it and the socket that holds it back.

    The guardian releases the run when we or the kernel close the socket, and with a lease also when we send
    nothing for that long. If the guardian ends, the socket shows end of file.
    ``meanwhile`` is called while the guardian starts.
    """
    ours, its = socket.socketpair()
    with its, directory.log("guardian").open("ab") as log:
        guardian = subprocess.Popen(
            [*COMMAND, str(directory.path), str(its.fileno()), json.dumps(lease_s)],
            env=forwarded(directory.marks),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[its.fileno()],
            start_new_session=True,
        )
    if lease_s is not None:  # else the releasing shell stays: the guardian may be stopped
        directory.entrust()
    ours.settimeout(START_S)
    try:
        meanwhile()
        if not ours.recv(1):
            text = directory.log("guardian").read_text(errors="replace").strip()
            raise ChildProcessError(f"the guardian of the run ended at its start\n{text}".strip())
    except BaseException:
        ours.close()
        guardian.kill()
        guardian.wait()
        raise
    ours.settimeout(None)
    return guardian, ours


@contextmanager
def guarded(meanwhile: Callable[[], None] = lambda: None) -> Iterator[RunDirectory]:
    """A new run directory under a guardian; on exit everything of the run is released.

    ``meanwhile`` is called while the guardian starts. If that fails, it raises a LockstepError.
    """
    directory = RunDirectory.create()
    released = False
    try:
        try:
            guardian, hold = start(directory, meanwhile=meanwhile)
        except (ChildProcessError, TimeoutError) as error:
            from workloads.validation import LockstepError  # noqa: PLC0415 - as below

            raise LockstepError(f"nothing was started, as the guardian of the run was not: {error}") from None
        try:
            yield directory
        finally:
            hold.close()
            # subprocess would look for the end in ever longer pauses.
            with suppress(OSError), closing(Process(guardian.pid)) as handle:
                handle.wait(RELEASE_S)
            released = guardian.poll() == 0 and not directory.path.exists()
    finally:
        if not released:  # the guardian may have been killed
            from coordinator.host import cleanup  # noqa: PLC0415

            cleanup.release(directory)
        directory.unlock()


def main(path: str, descriptor: str, lease_s: str) -> None:
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    directory = RunDirectory(Path(path))
    with suppress(OSError):  # it has vanished already
        directory.keep()
    with prompt(), socket.socket(fileno=int(descriptor)) as watched:
        watched.settimeout(json.loads(lease_s))
        with suppress(OSError):  # the agent has ended already
            watched.send(b"\n")
        from coordinator.host import cleanup  # noqa: PLC0415 - the process that started us waits for the word

        with suppress(OSError):  # the lease is over, or the agent has ended already
            while watched.recv(64):
                pass
        cleanup.release(directory, spare={os.getpid()})


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # the run waits for our end, and a release leaves nothing to be finalized
