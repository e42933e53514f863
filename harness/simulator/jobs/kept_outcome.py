"""When which job of a log ran, as a record keeps it: NumPy's columns, compressed, in base64."""

import base64
import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from coordinator.view import Submitter
from harness.simulator.jobs.model import NEVER_NS, Columns, Integers, JobLevelOutcome, Jobs

TIMES = ("start_ns", "finish_ns", "size", "first")
WHOLE = ("numbers", "start_ns", "finish_ns", "first", "submit_ns", "min_processes", "max_processes")
EVERY = ("numbers", *TIMES, *Columns._fields, "factor")
"""The columns with an entry for each job; those in ``WHOLE`` hold whole numbers."""
NAMES = ("user", "account", "partition", "qos")
"""What is kept of the submitters of jobs, a line each; ``submitter`` is that of each job."""


def kept(outcome: JobLevelOutcome, numbers: Integers) -> str:
    """The text from which ``known`` makes an outcome again; its jobs have these numbers in the log."""
    columns = {name: getattr(outcome, name) for name in TIMES} | outcome.jobs.columns._asdict()
    if outcome.jobs.submitters:
        of_jobs = outcome.jobs.submitters
        places_of = {submitter: place for place, submitter in enumerate(dict.fromkeys(of_jobs))}
        columns["submitter"] = np.array([places_of[one] for one in of_jobs], dtype=np.int64)
        columns["submitters"] = np.array([[getattr(one, name) for name in NAMES] for one in places_of])
    if outcome.places is not None:
        places = [(job, *ends) for job, place in outcome.places.items() for ends in place]
        columns["places"] = np.array(places, dtype=np.int64).reshape(-1, 3)
    file = io.BytesIO()
    np.savez_compressed(file, numbers=numbers, factor=outcome.jobs.factor, **columns)
    return base64.b64encode(file.getvalue()).decode()


def known(text: str, processors: int) -> tuple[JobLevelOutcome, Integers]:
    """An outcome on this number of processors, and the numbers of its jobs.

    Raises:
        ValueError: for a text that ``kept`` cannot have made.
    """
    columns = _columns(text)
    _check(columns, processors)
    own = {name: columns[name] for name in (*Columns._fields, "factor")}
    jobs = Jobs(**own, submitters=_submitters(columns))
    places: dict[int, list[tuple[int, int]]] = {}
    for job, first, last in columns.get("places", np.zeros((0, 3), dtype=np.int64)).tolist():
        places.setdefault(job, []).append((first, last))
    times = {name: columns[name] for name in TIMES}
    if places and not places.keys() >= set(np.flatnonzero(times["start_ns"] < NEVER_NS).tolist()):
        raise ValueError("outcome has a job without its processors")
    there = places if "places" in columns else None
    return JobLevelOutcome(jobs, processors, **times, places=there), columns["numbers"]


def _submitters(columns: Mapping[str, Any]) -> tuple[Submitter, ...]:
    if "submitters" not in columns:
        return ()
    lines, of_jobs = columns["submitters"], columns.get("submitter", np.zeros(0))
    if lines.dtype.kind != "U" or lines.ndim != 2 or lines.shape[1] != len(NAMES):
        raise ValueError("outcome has no lines of names as submitters")
    if of_jobs.dtype.kind not in "iu" or of_jobs.shape != columns["numbers"].shape:
        raise ValueError("outcome has no submitter of each job")
    if not ((of_jobs >= 0) & (of_jobs < len(lines))).all():
        raise ValueError("outcome has a submitter without a name")
    every = [Submitter(*names) for names in lines.tolist()]
    return tuple(every[place] for place in of_jobs.tolist())


def _columns(text: str) -> dict[str, Any]:
    try:
        file = io.BytesIO(base64.b64decode(text, validate=True))
        if not zipfile.is_zipfile(file):
            raise ValueError("no .npz file")
        file.seek(0)
        with np.load(file, allow_pickle=False) as columns:
            return {name: np.asarray(column) for name, column in columns.items()}
    except (ValueError, EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"outcome cannot be read: {error}") from None


def _check(columns: Mapping[str, Any], processors: int) -> None:
    for name in EVERY:
        if name not in columns:
            raise ValueError(f"outcome lacks {name}")
        column = columns[name]
        if column.dtype.kind not in ("iu" if name in WHOLE else "iuf") or column.ndim != 1:
            raise ValueError(f"outcome has no column of numbers as {name}")
        if len(column) != len(columns["numbers"]) or not len(column):
            raise ValueError(f"outcome has {len(column)} entries of {name}")
    if not (np.isfinite(columns["size"]) & (columns["size"] >= 0)).all():
        raise ValueError("outcome has a size that no job can have")
    places = columns.get("places", np.zeros((0, 3), dtype=np.int64))
    if places.dtype.kind not in "iu" or places.ndim != 2 or places.shape[1] != 3:
        raise ValueError("outcome has no rows of job, first and last processor as places")
    first, last = places[:, 1], places[:, 2]
    if not ((first >= 0) & (first <= last) & (last < processors)).all():
        raise ValueError(f"outcome has places outside of {processors} processors")
