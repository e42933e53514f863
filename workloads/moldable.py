"""A program that starts with as many of its ranks as its admission says; the others never wake for it.

Whatever MPI does collectively is done before the start line by all ranks that were launched. Those that
then begin need no message for it, and the rest go on sleeping in the kernel, where they wait for their agent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import time_ns
from typing import Any, NamedTuple

from workloads.blocking import Waiting
from workloads.compute import Compute
from workloads.execute import Execution
from workloads.messaging import Messenger
from workloads.program import Program
from workloads.recorder import Recorder
from workloads.timeline import Timeline
from workloads.tracing import TracedCompute, TracedMessenger

Rule = Callable[[Program], Waiting]
"""The waiting rule of a program on the number of processes that it has."""


class LaunchedProgram(NamedTuple):
    """A program and all ranks that were launched for it.

    Attributes:
        comm: those ranks.
        program: what to run, as it is on the number of processes that it asks for.
        rule: gives the waiting rule of the ranks that run.
        key: (seed, repeat, job) of the compute times.
        step_ns: calibrated step of the working set.
        clock: says the time in nanoseconds, the same on all ranks.
    """

    comm: Any
    program: Program
    rule: Rule
    key: tuple[int, int, int]
    step_ns: float
    clock: Callable[[], int] = time_ns


class MoldableExecution:
    """A program ready to run on this rank; it writes ``timeline`` if given. Collective over all ranks."""

    def __init__(self, launched: LaunchedProgram, timeline: Timeline | None = None) -> None:
        self._launched = launched
        comm, program = launched.comm, launched.program
        self._recorder = recorder = Recorder()
        compute = partial(TracedCompute, timeline) if timeline else Compute
        self._options = launched.key, launched.step_ns, compute
        everybody = program.on(comm.size)
        make = partial(TracedMessenger, timeline=timeline) if timeline else Messenger
        one_sided = program.read == "rma"
        self._messenger = make(
            comm, launched.rule(everybody), recorder, one_sided=one_sided, clock=launched.clock
        )
        self._execution = Execution(everybody, self._messenger, recorder, *self._options)

    def run(self, ranks: Sequence[int] = ()) -> dict[str, Any]:
        """Run all phases on these ``ranks`` of the communicator, this one among them, by default on all.

        Returns the rank's record; ``ranks[i]`` is rank i there.
        """
        if ranks and list(ranks) != list(range(self._launched.comm.size)):
            program = self._launched.program.on(len(ranks))
            self._messenger.enter(ranks, self._launched.rule(program))
            self._execution = Execution(program, self._messenger, self._recorder, *self._options)
        return self._execution.run()

    def close(self) -> None:
        """Free what MPI holds for it. Collective over all, those that have not run included."""
        self._messenger.close()
