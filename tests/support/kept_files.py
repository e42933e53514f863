"""Stores and recordings that released versions wrote, in ``stored/VERSION``, and what is read from them.

A folder holds ``lockstep.sqlite.xz``, a store with an experiment ``two-jobs`` (measured and simulated), one
``shown`` (measured, with timelines) and a simulation of jobs ``queues``; ``two-jobs.toml``; a recording
``bsp.npz``; and ``told.json``. The version wrote the store and the recording by ``run``, ``simulate -o`` and
``record``, and ``python -P tests/support/kept_files.py VERSION`` the last. The keys
in the store of 0.3.0, its digests and its checksums were renewed when names changed (docs/decisions.md):
nothing was published, and the values are as its runs wrote them. Nobody writes them again: all versions with
this form of stores must read what is there.
"""

import json
import lzma
import sys
import tempfile
from pathlib import Path

import numpy as np

import lockstep
from harness.analyse import stored_runs
from harness.measure.session import Silent
from harness.store import database, recording
from workloads.native.recorded import KINDS

STORED = Path(__file__).resolve().parent / "stored"
VERSIONS = sorted(path.parent.name for path in STORED.glob("*/told.json"))
COLUMNS = [
    *(
        "policy",
        *("waiting", "kind", "jobs", "n", "slowdown", "job_mean", "job_max", "makespan_s", "dedicated_s"),
    ),
    *("computing", "communicating", "synchronizing", "switching", "idle"),
]


def unpacked(version, folder):
    """The store of a version, in a folder."""
    packed = (STORED / version / f"{database.FILE_NAME}.xz").read_bytes()
    (folder / database.FILE_NAME).write_bytes(lzma.decompress(packed))
    return folder


def told(version, results):
    """What is read from the unpacked store and from the recording of a version, in types of JSON."""
    (shown,) = stored_runs.read(results, "shown", Silent())
    with database.Store(results, existing=True) as store:
        spans = [stored_runs.spans_of(store, record) for record in shown.records]
    (queues,) = (one for one in stored_runs.read(results, "queues", Silent()) if one.by_job)
    samples = database.load(results).calibrations
    return {
        "rows": [
            lockstep.load(results, name).rows()[COLUMNS].to_dict("records") for name in ("two-jobs", "shown")
        ],
        "spans": [[len(run), sum(span.end_ns - span.begin_ns for span in run)] for run in spans],
        "schedules": [
            [record.scheduler["policy"], record.schedule.saturated, dict(record.schedule.metrics)]
            for record in queues.records
            if record.schedule
        ],
        "samples": {row.quantity: [len(row.samples), sum(row.samples)] for row in samples.itertuples()},
        "recording": [
            [rank.rank, rank.elapsed_ns, int(rank.rows["compute_ns"].sum()), kinds_of(rank)]
            for rank in recording.read(STORED / version / "bsp.npz").ranks
        ],
    }


def kinds_of(rank):
    """How many operations of each kind a rank did."""
    kinds, counts = np.unique(rank.rows["kind"], return_counts=True)
    return {KINDS[kind]: int(count) for kind, count in zip(kinds, counts, strict=True)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = told(sys.argv[1], unpacked(sys.argv[1], Path(place)))
    with (STORED / sys.argv[1] / "told.json").open("x") as file:
        file.write(json.dumps(found, indent=1) + "\n")
