"""When which job of a log ran, as a record keeps it: NumPy's columns, compressed, in base64."""

import base64
import io

import numpy as np

from harness.simulator.jobs.model import Columns, Integers, JobLevelOutcome, Jobs

TIMES = ("start_ns", "finish_ns", "size", "first")


def kept(outcome: JobLevelOutcome, numbers: Integers) -> str:
    """The text from which ``known`` makes an outcome again; its jobs have these numbers in the log."""
    columns = {name: getattr(outcome, name) for name in TIMES} | outcome.jobs.columns._asdict()
    if outcome.places is not None:
        places = [(job, *ends) for job, place in outcome.places.items() for ends in place]
        columns["places"] = np.array(places, dtype=np.int64).reshape(-1, 3)
    file = io.BytesIO()
    np.savez_compressed(file, numbers=numbers, factor=outcome.jobs.factor, **columns)
    return base64.b64encode(file.getvalue()).decode()


def known(text: str, processors: int) -> tuple[JobLevelOutcome, Integers]:
    """An outcome on this number of processors, and the numbers of its jobs."""
    with np.load(io.BytesIO(base64.b64decode(text))) as file:
        columns = dict(file)
    jobs = Jobs(**{name: columns[name] for name in (*Columns._fields, "factor")})
    places: dict[int, list[tuple[int, int]]] = {}
    for job, first, last in columns.get("places", np.zeros((0, 3), dtype=np.int64)).tolist():
        places.setdefault(job, []).append((first, last))
    times = {name: columns[name] for name in TIMES}
    there = places if "places" in columns else None
    return JobLevelOutcome(jobs, processors, **times, places=there), columns["numbers"]
