"""A program that starts with as many of its ranks as its admission says; the others never wake for it.

Whatever MPI does collectively is done before the start line by all ranks that were launched. Those that
then begin need no message for it, and the rest go on sleeping in the kernel, where they wait for their agent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import time_ns
from typing import Any

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


class MoldableExecution:
    """A program ready to run on this rank. Collective over ``comm``.

    Args:
        comm: all ranks that were launched.
        program: what to run, as it is on the number of processes that it asks for.
        rule: gives the waiting rule.
        key: (seed, repeat, job) of the compute times.
        step_ns: calibrated step of the working set.
        timeline: written, if given.
        clock: one that all ranks share.
    """

    def __init__(
        self,
        comm: Any,
        program: Program,
        rule: Rule,
        key: tuple[int, int, int],
        step_ns: float,
        timeline: Timeline | None = None,
        clock: Callable[[], int] = time_ns,
    ) -> None:
        self._comm = comm
        self._program = program
        self._rule = rule
        self._recorder = recorder = Recorder()
        self._options = key, step_ns, partial(TracedCompute, timeline) if timeline else Compute
        everybody = program.on(comm.size)
        make = partial(TracedMessenger, timeline=timeline) if timeline else Messenger
        one_sided = program.read == "rma"
        self._messenger = make(comm, rule(everybody), recorder, one_sided=one_sided, clock=clock)
        self._execution = Execution(everybody, self._messenger, recorder, *self._options)

    def run(self, ranks: Sequence[int] = ()) -> dict[str, Any]:
        """Run all phases on these ``ranks`` of the communicator, this one among them, by default on all.

        Returns the rank's record; ``ranks[i]`` is rank i there.
        """
        if ranks and list(ranks) != list(range(self._comm.size)):
            program = self._program.on(len(ranks))
            self._messenger.enter(ranks, self._rule(program))
            self._execution = Execution(program, self._messenger, self._recorder, *self._options)
        return self._execution.run()

    def close(self) -> None:
        """Free what MPI holds for it. Collective over all, those that have not run included."""
        self._messenger.close()
