"""``python -P -m coordinator.host.guarded_program COMMAND...`` runs a command under a guardian on its host.

It serves ranks that no agent watches: on another host, or under a launcher that the user has started.
Whichever process is killed, the guardian terminates the program and removes the files of its MPI.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

from coordinator.host import guardian
from coordinator.host.environment import PYTHON
from coordinator.host.processes import Process

COMMAND = (*PYTHON, "-m", "coordinator.host.guarded_program")


def run(command: Sequence[str]) -> int:
    """Run a program with our descriptors until it or our parent ends; returns its status, or else 1."""
    launcher = os.getppid()  # if the launcher has ended before, MPI does not start
    with guardian.guarded() as directory:
        directory.note_launcher(launcher)
        # Ranks talk to their launcher (PMI) through one of the descriptors.
        program = subprocess.Popen(command, env={**os.environ, **directory.marks}, close_fds=False)
        directory.note_process(program.pid)
        try:
            # Pid 0 stands for a process outside our namespace.
            watched = [Process(pid) for pid in (program.pid, launcher) if pid]
        except ProcessLookupError:  # the launcher has ended already
            return 1
        select.select(watched, (), ())
        status = program.poll()
    return 1 if status is None else status


def main() -> int:
    """Run our command line, and end by a signal if it does, or cannot start: a status ends no other rank."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        status = run(sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        status = -signal.SIGTERM
    if status < 0:
        signal.raise_signal(-status)
    return status


if __name__ == "__main__":
    sys.exit(main())
