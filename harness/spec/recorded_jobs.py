"""The jobs that a log records: its reader, and which of its jobs can run again or be simulated."""

from functools import cache
from pathlib import Path

import numpy as np

from coordinator.view import Submitter
from harness.spec import sacct_records, swf_records, trace_text
from harness.spec.other_logs import names_jobs
from harness.spec.swf_records import (
    CANCELLED,
    GROUP,
    LAST_PARTIAL,
    PARTIAL,
    PARTIAL_FAILED,
    PARTITION,
    QUEUE,
    RUN,
    STATUS,
    STILL_RUNNING,
    SUBMIT,
    USER,
    Records,
    sizes_of,
)
from harness.spec.trace_text import UNKNOWN, Faults, refuse
from workloads.validation import InputError

MOST_ABOVE = 50  # lines of other programs above the names of sacct's columns


def records_of(path: Path, faults: Faults = refuse) -> Records:
    """The recorded jobs in a file or pipe; ``faults`` gets those that cannot be read."""
    lines = trace_text.lines(path)
    by_sacct = any(map(names_jobs, lines[:MOST_ABOVE]))
    return (sacct_records.read if by_sacct else swf_records.read)(path, lines, faults)


def usable(path: Path, rows: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
    """The rows of jobs that can be simulated, and how many were left out, by reason."""
    status = rows[:, STATUS]
    reasons = {
        "partial record": np.isin(status, (PARTIAL, LAST_PARTIAL, PARTIAL_FAILED)),
        "still running": status == STILL_RUNNING,
        "never ran": (rows[:, RUN] < 0) | ((status == CANCELLED) & (rows[:, RUN] == 0)),
        "no size": sizes_of(rows) <= 0,
        "no time of submission": rows[:, SUBMIT] < 0,
    }
    keep = np.ones(len(rows), dtype=bool)
    skipped = {}
    for reason, hit in reasons.items():
        if count := int((hit & keep).sum()):
            skipped[reason] = count
        keep &= ~hit
    if not keep.any():
        left_out = ", ".join(f"{count} {reason}" for reason, count in skipped.items()) or "it has no jobs"
        raise InputError(
            "trace", str(path), f"must hold at least one job that ran: {left_out}", "choose another log"
        )
    return rows[keep], skipped


def submitters(records: Records, rows: np.ndarray) -> tuple[Submitter, ...]:
    """Who submitted the job of each of these ``rows``, and to what; empty if the log says nothing of it.

    Groups stand for accounts, and queues for qualities of service.
    """
    fields = (USER, GROUP, PARTITION, QUEUE)
    if (rows[:, fields] == UNKNOWN).all():
        return ()

    @cache
    def submitter(*numbers: float) -> Submitter:
        names = (records.named(*pair) for pair in zip(fields, map(int, numbers), strict=True))
        user, account, partition, qos = names
        return Submitter(user, account, partition, qos)

    return tuple(submitter(*numbers) for numbers in rows[:, fields].tolist())
