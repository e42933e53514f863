"""``python -P -m coordinator.host.guarded_program COMMAND...`` runs it under a guardian on its own host.

For a rank that a launcher starts where nobody of ours is: on another host, or for a user who has called
the launcher. Whoever is killed, the guardian ends the program and removes what its MPI has left.
"""

from __future__ import annotations

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
    """Run a program with our descriptors until it ends, or whoever has started us does.

    Returns its exit status, negative for a signal; 1 if it was ended because of that.

    Raises:
        OSError: if there is no guardian to be had, or no such program.
    """
    launcher = os.getppid()  # if that has ended before, MPI does not start
    with guardian.guarded() as directory:
        directory.note_launcher(launcher)
        # PMI, by which ranks talk to their launcher, is among the descriptors.
        program = subprocess.Popen(command, env={**os.environ, **directory.marks}, close_fds=False)
        directory.note_process(program.pid)
        try:
            watched = [
                Process(pid) for pid in (program.pid, launcher) if pid
            ]  # 0 is outside of our namespace
        except ProcessLookupError:  # the launcher has ended already
            return 1
        select.select(watched, (), ())
        status = program.poll()
    return 1 if status is None else status


def main() -> int:
    """Do it for the words of our command line; end by the signal that the program has ended by.

    A launcher ends the other ranks for that, and might wait for them after a mere status.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    status = run(sys.argv[1:])
    if status < 0:
        signal.raise_signal(-status)
    return status


if __name__ == "__main__":
    sys.exit(main())
