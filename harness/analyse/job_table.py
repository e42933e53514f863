"""Tables of simulated jobs, read again: the schedule in a file of ``swf.write_jobs``."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np

from harness.simulator.jobs.model import NEVER_NS, WHOLE_NS, Floats, Integers, JobLevelOutcome, rigid
from harness.simulator.jobs.swf import COLUMNS


def read_jobs(path: Path, processors: int) -> JobLevelOutcome:
    """The schedule of rigid jobs that ``swf.write_jobs`` wrote; one that did not end has its estimated time.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is no such table.
    """
    import pandas  # noqa: PLC0415 - takes longer to import than all the rest together

    texts = {"allocated_resources": str, "workload_name": str}
    found = pandas.read_csv(path, dtype=texts, keep_default_na=False, index_col=False)
    if tuple(found.columns) != COLUMNS or not len(found):
        raise ValueError("it has other columns, or no jobs")

    def numbers(name: str) -> Floats:
        column: Floats = found[name].to_numpy(dtype=float)
        return column

    size = numbers("requested_number_of_resources")
    if not (size >= 1).all() or not (size <= processors).all():
        raise ValueError("its jobs ask for processors that there are not")
    submit_ns, start_ns, finish_ns = (
        _nanoseconds(numbers(f"{name}_time")) for name in ("submission", "starting", "finish")
    )
    texts_of_places = enumerate(found["allocated_resources"])
    places = {job: _places(str(text), processors) for job, text in texts_of_places if text}
    stretch = numbers("stretch")
    known = stretch > 0
    spent_s = numbers("turnaround_time")
    alone_s = np.where(known, spent_s / np.where(known, stretch, 1.0), numbers("requested_time"))
    jobs = rigid(submit_ns, size.astype(np.int64), _nanoseconds(alone_s))
    return JobLevelOutcome(
        jobs, processors, start_ns, finish_ns, size, np.full(len(found), -1), places=places
    )


def _nanoseconds(times_s: Floats) -> Integers:
    """Times in nanoseconds; NEVER_NS for those that are unknown."""
    known = (times_s >= 0) & (times_s < NEVER_NS / WHOLE_NS)
    return np.where(known, np.rint(np.where(known, times_s, 0.0) * WHOLE_NS), NEVER_NS).astype(np.int64)


def _places(text: str, processors: int) -> tuple[int, ...]:
    """The processors in ranges such as ``0-3 8``.

    Raises:
        ValueError: if it is anything else, or there are no such processors.
    """
    parts = []
    for part in text.split():
        first, _, last = part.partition("-")
        parts.append(range(int(first), int(last or first) + 1))
        if not 0 <= parts[-1].start < parts[-1].stop <= processors:
            raise ValueError(f"there are no processors {part[:20]}")
    return tuple(chain(*parts))
