"""A program that starts on as many of its launched ranks as the policy grants; the others stay asleep.

All launched ranks make MPI's collective calls before the start line. So the ranks that begin need no
message from the others, which continue to sleep in the kernel until their agent wakes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import time_ns
from typing import Any, NamedTuple

from workloads.blocking import Waiting
from workloads.checkpoint import Checkpoint
from workloads.compute import Compute
from workloads.execute import Execution
from workloads.messaging import Messenger
from workloads.program import Program
from workloads.recorder import Recorder
from workloads.timeline import Timeline
from workloads.tracing import TracedCompute, TracedMessenger

Rule = Callable[[Program], Waiting]
"""Returns the waiting rule of a program on its number of processes."""


class LaunchedProgram(NamedTuple):
    """A program and all ranks that were launched for it.

    Attributes:
        comm: these ranks.
        program: the program on the number of processes that it asks for.
        rule: gives the waiting rule of the ranks that run.
        key: (seed, repeat, job) of the compute times.
        step_ns: CPU time of one step through the working set.
        clock: returns nanoseconds of a clock that all ranks share.
        checkpoint: of the program, if it makes any.
    """

    comm: Any
    program: Program
    rule: Rule
    key: tuple[int, int, int]
    step_ns: float
    clock: Callable[[], int] = time_ns
    checkpoint: Checkpoint | None = None


class MoldableExecution:
    """A program ready to run on this rank; it writes ``timeline`` if given. Collective over all ranks."""

    def __init__(self, launched: LaunchedProgram, timeline: Timeline | None = None) -> None:
        self._launched = launched
        comm, program = launched.comm, launched.program
        self._recorder = recorder = Recorder()
        compute = partial(TracedCompute, timeline) if timeline else Compute
        self._options = launched.key, launched.step_ns, compute, launched.checkpoint
        everybody = program.on(comm.size)
        make = partial(TracedMessenger, timeline=timeline) if timeline else Messenger
        one_sided = program.read == "rma"
        self._messenger = make(
            comm, launched.rule(everybody), recorder, one_sided=one_sided, clock=launched.clock
        )
        self._execution = Execution(everybody, self._messenger, recorder, *self._options)

    def run(self, ranks: Sequence[int] = ()) -> dict[str, Any]:
        """Run all phases on these ``ranks`` of the communicator, which include this one; by default on all.

        Returns the rank's record, in which ``ranks[i]`` is rank i.
        """
        if ranks and list(ranks) != list(range(self._launched.comm.size)):
            program = self._launched.program.on(len(ranks))
            self._messenger.enter(ranks, self._launched.rule(program))
            self._execution = Execution(program, self._messenger, self._recorder, *self._options)
        return self._execution.run()

    def close(self) -> None:
        """Free its MPI resources. Collective over all launched ranks."""
        self._messenger.close()
