"""A program that changes its number of active processes between phases; the others are parked.

The job has as many ranks as it can ever use. The first ``k`` of them are active and share each
phase's work; the rest sleep in the kernel. When the agent wishes another number, the root tells the active
ranks, which stop after the phase in progress, wakes the parked ones, and all go on with new
messages, compute times and cores.

Source: malleable jobs as in Anastasiadis and Sevcik 1997, section 3.1 (DYN-EQUI).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from workloads.agent import ANYWHERE
from workloads.blocking import FIXED, Waiting
from workloads.execute import Execution
from workloads.messaging import ROOT, Messenger, members
from workloads.program import Program
from workloads.recorder import Recorder

SLEEPING = Waiting(FIXED, 0, 0, 0, 0)
"""Parked ranks block at once."""

Wish = Callable[[], Sequence[int] | None]
"""The cores that the agent wants the job to have, one for each active rank, if that has changed."""


class MalleableExecution:
    """A malleable program ready to run on this rank. Collective over ``comm``.

    Args:
        comm: all ranks, parked ones included.
        program: what to run; its ``processes`` is the most that can be active.
        rule: the waiting rule of active ranks.
        recorder: takes the rank's times.
        key: (seed, repeat, job) of the compute times.
        step_ns: calibrated step of the working set.
        wish: asked by the root before the first phase and after each; until it says something, all
            ranks are active.
        clock: one that all ranks share.
    """

    def __init__(
        self,
        comm: Any,
        program: Program,
        rule: Waiting,
        recorder: Recorder,
        key: tuple[int, int, int],
        step_ns: float,
        wish: Wish,
        clock: Callable[[], int],
    ) -> None:
        self._comm = comm
        self._program = program
        self._rule = rule
        self._recorder = recorder
        self._key = key
        self._step_ns = step_ns
        self._wish = wish
        self._clock = clock
        self._wished: Sequence[int] = [ANYWHERE] * comm.size
        self._control = Messenger(comm, SLEEPING, Recorder())
        self._sizes: list[tuple[int, int]] = []
        self._counts = {"served": 0, "rechecks": 0, "estimate_ns": -1}

    def run(self) -> dict[str, Any]:
        """Run all phases; returns the rank's record, ``phases`` being those in which it was active.

        The root's ``sizes`` lists (phases, active ranks) from one change to the next.
        """
        self._recorder.start()
        self._changed()
        left, cores = self._comm.bcast((self._program.phase_count(), self._wished), ROOT)
        phases = 0
        while left:
            part = members(self._comm, self._comm.rank < len(cores))
            done = self._together(part, cores, left) if part else 0
            phases += done
            self._sizes.append((done, len(cores)))
            self._control.barrier(learning=False)
            left, cores = self._comm.bcast((left - done, self._wished), ROOT)
        record: dict[str, Any] = {"rank": self._comm.rank, "processes": self._comm.size, "phases": phases}
        if self._comm.rank == ROOT:
            record["sizes"] = self._sizes
        return {**record, **self._recorder.finish(), **self._counts}

    def close(self) -> None:
        """Free what MPI holds for it. Collective."""
        self._control.close()

    def _together(self, part: Any, cores: Sequence[int], left: int) -> int:
        """Run phases with the other active ranks until the end or a change; returns how many."""
        if (core := cores[part.rank]) != ANYWHERE:
            os.sched_setaffinity(0, {core})
        messenger = Messenger(part, self._rule, self._recorder, clock=self._clock)
        program = dataclasses.replace(self._program.on(part.size), phases=left, dedicated_s=None)
        # Until the first change, compute times are the same as in a program that never changes.
        key = (*self._key, len(self._sizes)) if self._sizes else self._key
        execution = Execution(program, messenger, self._recorder, key, self._step_ns)
        done = execution.advance(self._over(messenger))
        self._counts["served"] += messenger.served
        self._counts["rechecks"] += messenger.rechecks
        self._counts["estimate_ns"] = messenger.estimate_ns
        messenger.close()
        part.Free()
        return done

    def _over(self, messenger: Messenger) -> Callable[[], bool]:
        """Whether to stop here; asked by each active rank after every phase.

        The root's notice after one phase reaches the others before they complete the next one.
        """
        if messenger.rank != ROOT:
            return lambda: messenger.noticed
        told = False

        def over() -> bool:
            nonlocal told
            if not told and self._changed():
                told = True
                for other in range(1, messenger.size):
                    messenger.notify(other)
                return messenger.size == 1
            return told

        return over

    def _changed(self) -> bool:
        """Whether the agent has a new wish; the root takes it over."""
        wished = self._wish() if self._comm.rank == ROOT else None
        if wished is None or wished == self._wished:
            return False
        self._wished = wished
        return True
