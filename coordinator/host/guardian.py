"""The guardian: outlives the agent, and releases the run when the agent is gone.

``python -P -m coordinator.host.guardian DIRECTORY FD TIMES`` waits until its end of a socket pair
closes, however the agent ended, and releases the run. Every run ends in this way, so the way that
matters after a crash is exercised every time. A stopped agent does not close its end: with a
lease, the guardian also releases the run if it hears nothing for that long.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coordinator.host import cleanup
from coordinator.host.environment import PYTHON, passed_on
from coordinator.host.priority import prompt
from coordinator.host.processes import GRACE_S, STUBBORN_S
from coordinator.host.rundir import RunDirectory

COMMAND = (*PYTHON, "-m", "coordinator.host.guardian")

START_S = 30.0
"""How long a guardian may take to come up on a busy host."""

RELEASE_S = 2 * (GRACE_S + STUBBORN_S)
"""A release takes no longer than this unless something is wrong with its guardian."""


def start(
    directory: RunDirectory, lease_s: float | None = None, patience_s: float = 0.0
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a guardian in a session of its own; returns it and the socket that holds it back.

    The guardian releases the run when the socket is closed here, or by the kernel, and with
    a lease also when nothing is sent on it for so long. Its own end shows as the end of
    file on that socket. It has begun to watch when this returns.

    A driver's guardian has patience: if the driver has left its history, another one may take
    the run over for so long, and has a guardian of its own.

    Raises:
        OSError: if it cannot be started, or does not come up; then there is none.
    """
    ours, its = socket.socketpair()
    with its, directory.log("guardian").open("ab") as log:
        guardian = subprocess.Popen(
            [*COMMAND, str(directory.path), str(its.fileno()), json.dumps([lease_s, patience_s])],
            env=passed_on(directory.marks),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[its.fileno()],
            start_new_session=True,
        )
    directory.entrust()
    ours.settimeout(START_S)
    try:
        if not ours.recv(1):
            said = directory.log("guardian").read_text(errors="replace").strip()
            raise ChildProcessError(f"the guardian of the run has ended at once\n{said}".strip())
    except OSError:
        ours.close()
        guardian.kill()
        guardian.wait()
        raise
    ours.settimeout(None)
    return guardian, ours


@contextmanager
def guarded() -> Iterator[RunDirectory]:
    """A new run directory under a guardian; at the end everything of the run is gone.

    Raises:
        OSError: if there is no place for it, or no guardian; nothing is begun without one.
    """
    directory = RunDirectory.create()
    try:
        guardian, hold = start(directory)
        try:
            yield directory
        finally:
            hold.close()
            with suppress(subprocess.TimeoutExpired):
                guardian.wait(RELEASE_S)
    finally:
        # Again, in case the guardian was killed.
        cleanup.release(directory)
        directory.unlock()


def main(path: str, descriptor: str, times: str) -> None:
    """Watch, then release."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    directory = RunDirectory(Path(path))
    with suppress(OSError):  # it has vanished already
        directory.keep()
    with prompt(), socket.socket(fileno=int(descriptor)) as watched:
        lease_s, patience_s = json.loads(times)
        watched.settimeout(lease_s)
        with suppress(OSError):  # also when the lease is over, or the agent has ended already
            watched.send(b"\n")
            while watched.recv(64):
                pass
        if patience_s and directory.history.exists():
            time.sleep(patience_s)
            if not directory.take():
                return
        cleanup.release(directory, spare={os.getpid()})


if __name__ == "__main__":
    main(*sys.argv[1:])
