"""A recorded program as the simulator carries it out: steps of each process, some of them many times over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from harness.simulator.processes import model as m
from harness.simulator.processes.operations import Operations, end, operations
from workloads.validation import InputError

STEP = np.dtype(
    [
        ("busy_ns", np.int64),  # processor time, or of a step that sleeps its time; at least 1
        ("number", np.int64),  # of the message to take, from 0 for each channel
        ("outgoing", np.int32),  # channel of the message to give; -1 for none
        ("incoming", np.int32),  # and of the one to take
        ("collective", np.int8),  # the wait belongs to a collective operation
        ("continues", np.int8),  # and to that of the step before
        ("polls", np.int8),  # the program polls for it, so it spins under every waiting rule
        ("sleeps", np.int8),  # it takes no processor, and has no messages
        ("carries_us", np.uint16),  # ``more_us`` of its wait
    ],
    align=True,
)
"""A step: processor time; then, if the step has one, a message to give; then one to take. As operations:
SLEEPING or COMPUTE, SEND, RECEIVE, LEARN."""

MOST_STEPS = 2**31 - 1
"""Of a process."""


@dataclass(frozen=True)
class RepeatedSteps:
    """Steps that the processes carry out ``times`` times over.

    Attributes:
        steps: of each process, of type STEP; messages are numbered from 0 within one time.
        messages: how many go over each channel in one time.
        times: at least 1.
    """

    steps: tuple[NDArray[np.void], ...]
    messages: NDArray[np.int64]
    times: int = 1

    @cached_property
    def operations(self) -> tuple[Operations, ...]:
        """The operations of each process, as one time of them; all simulations of a program share them."""
        return tuple(_operations(steps) for steps in self.steps)


@dataclass(frozen=True)
class ReplayedProgram:
    """What the processes of a program do, and over which channels they talk.

    Attributes:
        parts: one after the other.
        channels: (channels, 3) sender and receiver, which are ranks, and whether the channel meets.
        as_mpi: whether its processes spin whatever the waiting rule of the run, as their MPI does.
    """

    parts: tuple[RepeatedSteps, ...]
    channels: NDArray[np.int32]
    as_mpi: bool = False

    def __post_init__(self) -> None:
        if (longest := max(map(self.count, range(self.processes)))) > MOST_STEPS:
            rule = f"a process has {longest} steps, and {MOST_STEPS} is the most"
            raise InputError("recording", longest, rule, "record a shorter run")

    @property
    def processes(self) -> int:
        return len(self.parts[0].steps)

    def count(self, rank: int) -> int:
        """How many steps a process carries out."""
        return sum(part.times * len(part.steps[rank]) for part in self.parts)

    def busy_ns(self, rank: int) -> int:
        """The processor time of a process."""
        every = ((part.times, part.steps[rank]) for part in self.parts)
        return sum(times * int(steps["busy_ns"][steps["sleeps"] == 0].sum()) for times, steps in every)

    def longest_ns(self) -> int:
        return max(int(steps["busy_ns"].max(initial=0)) for part in self.parts for steps in part.steps)

    def operations(self, rank: int, most: int, first: int) -> Iterator[Operations]:
        """All operations of a process, in blocks of at most ``most``; its channels go from ``first`` on.

        At any time one block is in memory, and the operations of one part.
        """
        before = np.zeros(len(self.channels), dtype=np.int64)
        for part in self.parts:
            every = part.operations[rank]
            together = max(1, most // max(1, len(every)))  # short parts several times at once
            for begun in range(0, part.times, together):
                times = min(together, part.times - begun)
                for begin in range(0, len(every), most):
                    piece = every[begin : begin + most]
                    block = np.tile(piece.view(m.RAW), times).view(m.OPERATION)
                    takes = np.flatnonzero(block["code"] == m.RECEIVE)
                    channels = block["peer"][takes]
                    block["value"][takes] += before[channels] + takes // len(piece) * part.messages[channels]
                    if first:
                        block["peer"] += first * (block["peer"] >= 0)
                    yield block[None]
                before += times * part.messages
        yield end(1, m.PASSES)


def _operations(steps: NDArray[np.void]) -> Operations:
    """The operations of some steps, with channels and messages as they are."""
    gives, takes, collective = steps["outgoing"] >= 0, steps["incoming"] >= 0, steps["collective"] > 0
    last = np.cumsum(1 + gives + takes + (takes & collective))
    made = operations(1, int(last[-1]) if len(steps) else 0)[0]
    at = last - (takes & collective)
    made["code"][last[takes & collective] - 1] = m.LEARN
    place = at[takes] - 1
    made["code"][place], made["peer"][place] = m.RECEIVE, steps["incoming"][takes]
    made["value"][place], made["more_us"][place] = steps["number"][takes], steps["carries_us"][takes]
    for name, mark in (("collective", m.COLLECTIVE), ("continues", m.CONTINUES), ("polls", m.POLLS)):
        made["marks"][place] |= (steps[name][takes] > 0) * np.int8(mark)
    place = (at - takes)[gives] - 1
    made["code"][place], made["peer"][place] = m.SEND, steps["outgoing"][gives]
    place = at - takes - gives - 1
    made["code"][place] = np.where(steps["sleeps"] > 0, m.SLEEPING, m.COMPUTE)
    made["marks"][place], made["value"][place] = m.PASSES, steps["busy_ns"]
    found: Operations = made
    return found
