"""How a rank of an MPI job becomes part of a pool: the same command, under a guardian and mpi4py.futures."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from coordinator.host import guarded_program
from coordinator.host.environment import PYTHON
from coordinator.node.exec_rank import RANKS
from workloads.validation import InputError

START = "mpiexec -n N lockstep simulate EXPERIMENT --mpi"


def needs_workers(size: int) -> InputError:
    return InputError("--mpi", size, "needs ranks of mpiexec that wait for work", f"start it as {START}")


def join() -> None:
    """Make this process a rank of the pool, unless it is one; the guardian starts before MPI."""
    if "mpi4py.futures" in sys.modules:
        return
    if not any(name in os.environ for name in RANKS):
        raise needs_workers(1)
    sys.stdout.flush()
    sys.stderr.flush()
    command = [
        *guarded_program.COMMAND,
        *PYTHON,
        "-m",
        "mpi4py.futures",
        *program(sys.orig_argv, len(sys.argv) - 1),
    ]
    os.execv(command[0], command)


def program(words: Sequence[str], arguments: int) -> Sequence[str]:
    """A command line that ends in ``arguments`` arguments of its program, without Python and its options."""
    first = len(words) - arguments - 1
    return words[first - 1 :] if words[first - 1] in ("-m", "-c") else words[first:]
