"""The id of a job, and its state: Slurm's word, checked against the status file of the job."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Self

_PRINTED = re.compile(
    r"(?:Submitted batch job )?([1-9][0-9]{0,9})(?:(?:;| on cluster )([\w.][\w.-]*)?)?", re.ASCII
)
"""A line with which sbatch tells a job, with --parsable or without: wrappers may drop options."""


@dataclass(frozen=True)
class SlurmJob:
    """A job, or a task of an array, written as its id."""

    id: str  # "12", or "12_3" for a task
    cluster: str = ""  # where it is; empty for the cluster of the commands

    def __str__(self) -> str:
        return self.id

    @classmethod
    def printed(cls, text: str) -> list[Self]:
        """All jobs that lines of sbatch's output may tell, each once, without the lines of banners."""
        lines = (_PRINTED.fullmatch(line.strip()) for line in text.splitlines())
        return list(dict.fromkeys(cls(match[1], match[2] or "") for match in lines if match))

    @property
    def place(self) -> tuple[str, ...]:
        return ("-M", self.cluster) if self.cluster else ()

    @property
    def whole(self) -> "SlurmJob":
        """The array of a task; other jobs are whole."""
        return SlurmJob(self.id.partition("_")[0], self.cluster)

    def task(self, number: int) -> "SlurmJob":
        return SlurmJob(f"{self.id}_{number}", self.cluster)


@dataclass(frozen=True)
class Standing:
    """A job as squeue shows it, without anything that users write.

    ``name`` differs from ``id`` for a task of an array ("12_3") and a part of a heterogeneous job ("12+0").
    ``state`` is Slurm's word, ``user`` the number of its owner, ``processors`` are as in ``processors`` of
    the client, if it was asked.
    """

    id: str
    name: str
    state: str
    user: int
    nodes: tuple[str, ...] = ()
    processors: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        return self.state in ENDS


class JobState(Enum):
    """States of a job that matter to a caller who waits for it."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    TIMEOUT = "TIMEOUT"
    UNKNOWN = "UNKNOWN"

    @property
    def over(self) -> bool:
        return self not in (JobState.PENDING, JobState.RUNNING)


_QUEUED = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_BEGINNING = ("CONFIGURING", "EXPEDITING", "POWER_UP_NODE")
_GOING_ON = ("RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING")
_ENDING = ("COMPLETING", "STAGE_OUT", "UPDATE_DB")
_ELSEWHERE = ("REVOKED",)  # another cluster of a federation has begun it
REPORTED = {
    **dict.fromkeys((*_QUEUED, *_BEGINNING), JobState.PENDING),
    **dict.fromkeys((*_GOING_ON, *_ENDING, *_ELSEWHERE), JobState.RUNNING),
    **{name: JobState[name] for name in ("CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT")},
    "BOOT_FAIL": JobState.NODE_FAIL,
    "RECONFIG_FAIL": JobState.NODE_FAIL,
    "DEADLINE": JobState.TIMEOUT,
}
"""Slurm's words that need no further evidence."""

ENDS = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("PREEMPTED", "REVOKED", "TIMEOUT"),
)
"""Slurm's words for jobs that have ended, unless they are queued again."""

FAILED = ("FAILED", "LAUNCH_FAILED")  # Slurm's words for a failure that the script itself may tell better

MEANINGS = {
    JobState.PENDING: "waits",
    JobState.RUNNING: "runs",
    JobState.COMPLETED: "has completed",
    JobState.CANCELLED: "was cancelled",
    JobState.FAILED: "has failed",
    JobState.NODE_FAIL: "lost a node",
    JobState.OUT_OF_MEMORY: "ran out of memory: ask for more with --mem",
    JobState.PREEMPTED: "was preempted: submit again with --resume",
    JobState.TIMEOUT: "ran into its time limit: give it more with --time, or submit again with --resume",
    JobState.UNKNOWN: "has left no exit status: it cannot be said to have completed",
}
"""The meaning of each state, as the rest of a sentence."""


@dataclass(frozen=True)
class Ending:
    """The content of a job's status file: the exit status of its command, and whether its time was up."""

    status: int
    out_of_time: bool = False

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The content of a status file; None if it is not whole."""
        status, *reason = text.split() or [""]
        return cls(int(status), "time-limit" in reason) if status.isdecimal() else None


def judge(reported: str | None, ending: Ending | None) -> JobState:
    """The state of a job, COMPLETED only by its script's exit status of 0: Slurm's word is no evidence."""
    name = reported.split()[0].rstrip("+") if reported and reported.strip() else ""
    if name in REPORTED:
        return REPORTED[name]
    if ending is None:
        return JobState.FAILED if name in FAILED else JobState.UNKNOWN
    if ending.status == 0:
        return JobState.COMPLETED
    return JobState.TIMEOUT if ending.out_of_time else JobState.FAILED


def explain(state: JobState, ending: Ending | None) -> str:
    if state is JobState.FAILED and ending is not None:
        return f"ended with status {ending.status}"
    return MEANINGS[state]
