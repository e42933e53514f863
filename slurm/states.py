"""What has become of a job: what Slurm says of it, held against what the job has left."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """States of a job that make a difference to whoever waits for it."""

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
        """Whether nothing more will happen."""
        return self not in (State.PENDING, State.RUNNING)


_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT")
_GOING_ON = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT")
REPORTED = {
    **dict.fromkeys(_WAITING, State.PENDING),
    **dict.fromkeys(_GOING_ON, State.RUNNING),
    **{name: State[name] for name in ("CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT")},
    "BOOT_FAIL": State.NODE_FAIL,
    "DEADLINE": State.TIMEOUT,
    "REVOKED": State.CANCELLED,
}
"""Slurm's words that are believed without further evidence."""

MEANINGS = {
    State.PENDING: "waits",
    State.RUNNING: "runs",
    State.COMPLETED: "has completed",
    State.CANCELLED: "was cancelled",
    State.FAILED: "has failed",
    State.NODE_FAIL: "lost a node",
    State.OUT_OF_MEMORY: "ran out of memory: ask for more with --mem",
    State.PREEMPTED: "was preempted: submit again with --resume",
    State.TIMEOUT: "ran into its time limit: give it more with --time, or submit again with --resume",
    State.UNKNOWN: "has left no exit status: it cannot be said to have completed",
}
"""What each state means, as the rest of a sentence."""


@dataclass(frozen=True)
class Ending:
    """What a job's script has left: the exit status of its command, and whether its time was up."""

    status: int
    out_of_time: bool = False

    @classmethod
    def parse(cls, text: str) -> Ending | None:
        """The content of a status file; None if it is not whole."""
        status, *why = text.split() or [""]
        return cls(int(status), "time-limit" in why) if status.isdecimal() else None


def judge(reported: str | None, ending: Ending | None) -> State:
    """The state of a job.

    A job has COMPLETED only if its script says so, with an exit status of 0; Slurm's own
    COMPLETED, and its silence, are no evidence.

    Args:
        reported: by squeue or sacct, as in "CANCELLED by 0"; None if neither knows the job.
        ending: what its script has left; None for nothing.
    """
    name = reported.split()[0].rstrip("+") if reported and reported.strip() else ""
    if name in REPORTED:
        return REPORTED[name]
    if ending is None:
        return State.FAILED if name == "FAILED" else State.UNKNOWN
    if ending.status == 0:
        return State.COMPLETED
    return State.TIMEOUT if ending.out_of_time else State.FAILED


def explain(state: State, ending: Ending | None) -> str:
    """A job's end as the rest of a sentence."""
    if state is State.FAILED and ending is not None:
        return f"ended with status {ending.status}"
    return MEANINGS[state]
