"""A program that starts on as many of its launched ranks as the policy grants; the others stay asleep.

All launched ranks make MPI's collective calls before the start line. So the ranks that begin need no
message from the others, which continue to sleep in the kernel until their agent wakes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import time_ns
from typing import Any, NamedTuple

from workloads import blocking
from workloads.blocking import Waiting
from workloads.compute import Compute
from workloads.coscheduling import Coscheduling
from workloads.execute import Checkpoint, Execution, LockExecution
from workloads.locks import SectionLocks
from workloads.locks.lock_program import LOCKS, LockProgram
from workloads.locks.remedies import NOTHING_DONE, Remedy
from workloads.messaging import Messenger, one_node
from workloads.observer import Observer
from workloads.program import Program
from workloads.record import Recorder
from workloads.timeline import Timeline
from workloads.tracing import TracedCompute, TracedLocks, TracedMessenger
from workloads.validation import LockstepError

Rule = Callable[[Program], Waiting]
"""Returns the waiting rule of a program on its number of processes."""


class LaunchedProgram(NamedTuple):
    """A program and all ranks that were launched for it.

    Attributes:
        comm: these ranks.
        program: the program on the number of processes that it asks for.
        rule: gives the waiting rule of the ranks that run.
        key: (seed, repeat, job) of the compute times.
        walk_step_ns: CPU time of one step through the working set.
        clock: returns nanoseconds of a clock that all ranks share.
        checkpoint: of the program, if it makes any.
        page: the file for the locks of the pattern LOCK, if its ranks have a directory in common.
        coscheduling: of this rank, if the policy coschedules dynamically.
        remedy: against the preemption of ranks in a critical section.
        observer: of this rank's messages, if the policy wants to know of them.
    """

    comm: Any
    program: Program
    rule: Rule
    key: tuple[int, int, int]
    walk_step_ns: float
    clock: Callable[[], int] = time_ns
    checkpoint: Checkpoint | None = None
    page: Path | None = None
    coscheduling: Coscheduling | None = None
    remedy: Remedy = NOTHING_DONE
    observer: Observer | None = None


class MoldableExecution:
    """A program ready to run on this rank; it writes ``timeline`` if given. Collective over all ranks."""

    def __init__(self, launched: LaunchedProgram, timeline: Timeline | None = None) -> None:
        self._launched = launched
        comm, program = launched.comm, launched.program
        self._recorder = recorder = Recorder()
        self._compute = partial(TracedCompute, timeline) if timeline else Compute
        everybody = program.on(comm.size)
        make = partial(TracedMessenger, timeline=timeline) if timeline else Messenger
        self._make_locks = partial(TracedLocks, timeline) if timeline else SectionLocks
        one_sided = program.read == "rma"
        self._messenger = make(
            comm,
            launched.rule(everybody),
            recorder,
            one_sided=one_sided,
            clock=launched.clock,
            coscheduling=launched.coscheduling,
        )
        self._file = page_of(launched) if isinstance(program, LockProgram) else None
        self._execution = self._made(everybody)

    def run(self, ranks: Sequence[int] = ()) -> dict[str, Any]:
        """Run all phases on these ``ranks`` of the communicator, which include this one; by default on all.

        Returns the rank's record, in which ``ranks[i]`` is rank i.
        """
        if ranks and list(ranks) != list(range(self._launched.comm.size)):
            program = self._launched.program.on(len(ranks))
            self._messenger.enter(ranks, self._launched.rule(program))
            self._execution = self._made(program)
        return self._execution.run()

    def _made(self, program: Program) -> Execution:
        """The execution of ``program`` on this rank."""
        launched = self._launched
        make: Callable[..., Execution] = Execution
        if self._file is not None:
            assert isinstance(program, LockProgram)
            comm = launched.comm  # others know ranks as they were launched
            limit_ns, kind = blocking.read_limit(launched.rule(program)), LOCKS[program.lock]
            locks = self._make_locks(
                self._file, comm.rank, comm.size, program.locks, kind, limit_ns, launched.remedy
            )
            make = partial(LockExecution, locks)
        return make(
            program,
            self._messenger,
            self._recorder,
            launched.key,
            launched.walk_step_ns,
            compute=self._compute,
            checkpoint=launched.checkpoint,
            observer=launched.observer,
        )

    def close(self) -> None:
        """Free its MPI resources. Collective over all launched ranks."""
        self._messenger.close()
        if self._file is not None:
            os.close(self._file)


def page_of(launched: LaunchedProgram) -> int:
    """A descriptor of the page for the locks, which all ranks share. Collective.

    A page without a file has no name: it disappears with the last process that has it.
    """
    comm, page, flags = launched.comm, launched.page, os.O_RDWR | os.O_CLOEXEC
    if not one_node(comm):
        raise LockstepError(
            f"the {comm.size} processes of a LOCK job are on several nodes, and their locks need a page of "
            "one: give the job at most as many processes as a node has processors, or choose another pattern"
        )
    own = -1
    if comm.rank == 0 and page is None:
        own = os.memfd_create("locks")
    elif comm.rank == 0 and page is not None:
        page.unlink(missing_ok=True)  # of ranks that were killed, maybe in a section
        own = os.open(page, flags | os.O_CREAT | os.O_EXCL, 0o600)
    shared = comm.bcast(f"/proc/{os.getpid()}/fd/{own}", 0)
    file = own if comm.rank == 0 else os.open(shared, flags)
    comm.Barrier()
    return file
