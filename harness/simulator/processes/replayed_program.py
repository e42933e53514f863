"""A recorded program as the simulator carries it out: steps of each process, some of them many times over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
        ("ends", np.int8),  # not a step: the end of the program
        (
            "carries_us",
            np.uint16,
        ),  # the wait spins so much longer than by its rule, if it spins and may block
    ],
    align=True,
)
"""A step; ``replay.py`` says what happens in it."""

RAW = np.dtype((np.void, STEP.itemsize))
"""A step as bytes: NumPy copies those at once, but a step field by field."""

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
        """How many there are."""
        return len(self.parts[0].steps)

    def count(self, rank: int) -> int:
        """How many steps a process carries out."""
        return sum(part.times * len(part.steps[rank]) for part in self.parts)

    def busy_ns(self, rank: int) -> int:
        """The processor time of a process."""
        every = ((part.times, part.steps[rank]) for part in self.parts)
        return sum(times * int(steps["busy_ns"][steps["sleeps"] == 0].sum()) for times, steps in every)

    def longest_ns(self) -> int:
        """The longest time of a step."""
        return max(int(steps["busy_ns"].max(initial=0)) for part in self.parts for steps in part.steps)

    def blocks(self, rank: int, count: int) -> Iterator[NDArray[np.void]]:
        """All steps of a process in blocks of ``count``, with final message numbers; the end is marked.

        At any time one block is in memory. The last one holds the mark, and may be shorter.
        """
        held: list[NDArray[np.void]] = []
        room = count
        for steps in self._runs(rank, count):
            begin = 0
            while begin < len(steps):
                held.append(steps[begin : begin + room])
                begin += len(held[-1])
                room -= len(held[-1])
                if room == 0:
                    yield _joined(held)
                    held, room = [], count
        end = np.zeros(1, STEP)
        end["ends"], end["outgoing"], end["incoming"] = 1, -1, -1
        yield _joined([*held, end])

    def _runs(self, rank: int, most: int) -> Iterator[NDArray[np.void]]:
        """The steps with final numbers, at most ``most`` at once."""
        before = np.zeros(len(self.channels), dtype=np.int64)
        for part in self.parts:
            every = part.steps[rank]
            together = max(1, most // max(1, len(every)))  # short parts several times at once
            for first in range(0, part.times, together):
                times = min(together, part.times - first)
                for begin in range(0, len(every), most):
                    steps = np.tile(every[begin : begin + most].view(RAW), times).view(STEP)
                    channels = steps["incoming"]  # -1 for no message: the last of each of these
                    steps["number"] += np.append(before, 0)[channels]
                    if times > 1:
                        time = np.repeat(np.arange(times), len(every))
                        steps["number"] += time * np.append(part.messages, 0)[channels]
                    yield steps
                before += times * part.messages


def _joined(pieces: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """Steps one after the other, as one array."""
    return np.concatenate([piece.view(RAW) for piece in pieces]).view(STEP) if len(pieces) > 1 else pieces[0]
