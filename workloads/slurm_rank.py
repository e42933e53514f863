"""A rank of a job that Lockstep does not coordinate: it begins at once and leaves its record in a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workloads.agent_line import StartOrder


class SlurmRank:
    """Replaces ``workloads.agent_line.AgentLine`` for one rank of a job that another scheduler runs."""

    def __init__(self, folder: str, job: int, rank: int) -> None:
        self._file = record_file(folder, job, rank)
        self._rank = rank

    def begin(self) -> StartOrder:
        """Begin now, on a core that no other rank of the job has on this node."""
        cores = sorted(os.sched_getaffinity(0))
        core = cores[int(os.environ.get("SLURM_LOCALID", self._rank)) % len(cores)]
        os.sched_setaffinity(0, {core})
        return StartOrder(core)

    def wish(self) -> None:
        """None: nobody gives the job other cores."""

    def evolve(self, processes: int) -> None:
        """Nothing: nobody wants to know."""

    def observe(self, peers: Sequence[int]) -> None:
        """Nothing: nobody wants to know."""

    def clock(self) -> Callable[[], int]:
        """The wall clock, which all nodes share."""
        return time.time_ns

    def leave(self, record: dict[str, Any]) -> None:
        """Write the record atomically, with times by the wall clock, which all nodes share."""
        ahead_ns = time.time_ns() - time.monotonic_ns()
        times = {name: record[name] + ahead_ns for name in ("start_ns", "finish_ns")}
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(record | times), encoding="utf-8")
        new.rename(self._file)


def record_file(folder: str, job: int, rank: int) -> Path:
    return Path(folder) / f"{job}-{rank}.json"
