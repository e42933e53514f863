"""The run's clock as ranks read it: CLOCK_MONOTONIC of their node plus an offset.

The agent of a node keeps the offset up to date in a file that ranks map, so that reading the clock
takes no message. In a run on the driver's host only, both clocks are the same, and there is no such file.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from time import monotonic_ns

NAME = "clock"
WORD_BYTES = 8


def offset_word(folder: Path) -> memoryview:
    """A new word in the run directory ``folder``, 0 at first; its agent writes the offset in ns there."""
    with (folder / NAME).open("xb+") as file:
        file.write(bytes(WORD_BYTES))
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), WORD_BYTES)).cast("q")


class RunClock:
    """Reads the run's clock on the node whose agent has the run directory ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._ahead_ns = memoryview(bytes(WORD_BYTES)).cast("q")
        if (folder / NAME).exists():
            with (folder / NAME).open("rb") as file:
                word = mmap.mmap(file.fileno(), WORD_BYTES, prot=mmap.PROT_READ)
            self._ahead_ns = memoryview(word).cast("q")

    def now_ns(self) -> int:
        """The time of the run's clock in nanoseconds."""
        return monotonic_ns() + self._ahead_ns[0]
