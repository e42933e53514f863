"""A job by the names that Slurm's commands take."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PRINTED = re.compile(
    r"(?:Submitted batch job )?([1-9][0-9]{0,9})(?:(?:;| on cluster )([\w.][\w.-]*)?)?", re.ASCII
)
"""A line with which sbatch tells a job, with --parsable or without: wrappers may drop options."""


@dataclass(frozen=True)
class SlurmJob:
    """A job, or a task of an array, written as its id.

    Attributes:
        id: "12", or "12_3" for a task.
        cluster: where it is; empty for the cluster of the commands.
    """

    id: str
    cluster: str = ""

    def __str__(self) -> str:
        return self.id

    @classmethod
    def printed(cls, text: str) -> list[SlurmJob]:
        """All jobs that lines of sbatch's output may tell, each once, without the lines of banners."""
        lines = (_PRINTED.fullmatch(line.strip()) for line in text.splitlines())
        return list(dict.fromkeys(cls(found[1], found[2] or "") for found in lines if found))

    @property
    def place(self) -> tuple[str, ...]:
        """The options with which Slurm's commands ask the job's cluster."""
        return ("-M", self.cluster) if self.cluster else ()

    @property
    def whole(self) -> SlurmJob:
        """The array of a task; other jobs are whole."""
        return SlurmJob(self.id.partition("_")[0], self.cluster)

    def task(self, number: int) -> SlurmJob:
        return SlurmJob(f"{self.id}_{number}", self.cluster)
