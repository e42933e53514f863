"""A program that changes its number of active processes between phases; the others are parked.

The job has as many ranks as it can ever use. The first ``k`` of them are active and share each
phase's work; the rest sleep in the kernel. When the agent asks for another number, the root notifies the
active ranks, which stop after the phase in progress. Then it wakes the parked ranks, and the job continues
with other peers, compute times and cores.

Source: malleable jobs as in Anastasiadis and Sevcik 1997, section 3.1 (DYN-EQUI).
"""

import dataclasses
import os
from collections.abc import Callable, Sequence

from workloads.agent_line import ANYWHERE
from workloads.execute import Execution, LaunchedProgram
from workloads.messaging import ROOT, Messenger
from workloads.record import RankResult, Recorder
from workloads.waiting_rules import FIXED, Waiting

SLEEPING = Waiting(FIXED, 0, 0, 0, 0)  # parked ranks block at once

Wish = Callable[[], Sequence[int] | None]
"""Returns the cores that the job should get, one for each active rank; None without a change."""


class MalleableExecution:
    """A malleable program on this rank, parked or not, whose root calls ``wish`` after each phase."""

    def __init__(self, launched: LaunchedProgram, wish: Wish) -> None:
        self._comm = comm = launched.comm
        self._launched = launched
        self._recorder = Recorder()
        self._wish = wish
        self._wished = [ANYWHERE] * comm.size
        self._control = Messenger(comm, SLEEPING, Recorder())
        waiting = launched.rule(launched.program.on(comm.size))
        self._messenger = Messenger(
            comm, waiting, self._recorder, clock=launched.clock, coscheduling=launched.coscheduling
        )
        self._sizes: list[tuple[int, int]] = []

    def run(self, ranks: Sequence[int] = ()) -> RankResult:
        """Run all phases; the result's ``phases`` counts those in which the rank was active.

        At first as many ranks are active as ``ranks`` has entries, by default all, each where it is.
        The root's ``sizes`` lists (phases, active ranks) from one change to the next.
        """
        self._recorder.start()
        self._wished = [ANYWHERE] * (len(ranks) or self._comm.size)
        remaining = self._launched.program.phase_count()
        cores = self._wished
        phases = 0
        while remaining:
            count = self._together(cores, remaining) if self._comm.rank < len(cores) else 0
            phases += count
            self._sizes.append((count, len(cores)))
            self._control.barrier(learning=False)
            remaining, cores = self._comm.bcast((remaining - count, self._wished), ROOT)
        messenger = self._messenger
        return self._recorder.finish(
            self._comm.rank,
            self._comm.size,
            phases,
            messenger.served,
            messenger.rechecks,
            estimate_ns=messenger.estimate_ns,
            sizes=tuple(self._sizes) if self._comm.rank == ROOT else None,
        )

    def close(self) -> None:
        self._messenger.close()
        self._control.close()

    def _together(self, cores: Sequence[int], phase_count: int) -> int:
        """Run phases with the other active ranks until the end or a change; returns how many ran."""
        if (core := cores[self._comm.rank]) != ANYWHERE:
            os.sched_setaffinity(0, {core})
        launched = self._launched
        key = self._launched.key
        program = dataclasses.replace(launched.program.on(len(cores)), phases=phase_count, dedicated_s=None)
        self._messenger.enter(range(len(cores)), launched.rule(program))
        # Until the first change, compute times are the same as in a program that never changes.
        changed = (*key, len(self._sizes)) if self._sizes else key
        launched = launched._replace(program=program, key=changed)
        return Execution(launched, self._messenger, self._recorder).advance(self._over())

    def _over(self) -> Callable[[], bool]:
        """A function that says after every phase whether to stop: the root's notice comes in time."""
        messenger = self._messenger
        if messenger.rank != ROOT:
            return lambda: messenger.noticed
        change = False

        def over() -> bool:
            nonlocal change
            if not change and self._changed():
                change = True
                for other in range(1, messenger.size):
                    messenger.notify(other)
                return messenger.size == 1
            return change

        return over

    def _changed(self) -> bool:
        """Whether the agent asks for other cores; the root notes them."""
        wished = self._wish() if self._comm.rank == ROOT else None
        if wished is None or list(wished) == self._wished:
            return False
        self._wished = list(wished)
        return True
