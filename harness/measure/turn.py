"""Taking turns: a measurement waits until no other Lockstep of this host uses its processors."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coordinator.host.processor_claims import Reservation, Rival

if TYPE_CHECKING:
    from harness.measure.session import Watcher

LOOK_S = 0.1
"""Time from one look at the processors to the next."""


@contextmanager
def reserved(
    processors: Sequence[int],
    watcher: Watcher,
    anyway: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[None]:
    """A context in which no other series of runs begins on these processors, of any user of this host.

    It begins when those that use them now have ended. With ``anyway``, and in a job of Slurm, it begins at
    once and warns of them: a batch job must not spend its time waiting, and what it waits for may
    be suspended for its sake.
    """
    slurm = "SLURM_JOB_ID" in environment
    ours = Reservation(processors)
    said: list[Rival] = []
    try:
        while found := ours.take(anyway=anyway or slurm):
            if anyway or slurm:
                why = "" if anyway else ", and a job of Slurm does not wait"
                watcher.warn(f"Lockstep: {_words(found)}, so the runs disturb each other{why}")
                break
            if found != said:
                watcher.warn(f"waiting: {_words(found)} (--anyway does not wait)")
                watcher.note("waiting")
                said = found
            time.sleep(LOOK_S)
        yield
    finally:
        ours.close()


def _words(rivals: Sequence[Rival]) -> str:
    return "; ".join(f"{rival.name} measures on processors {rival.processors}" for rival in rivals)
