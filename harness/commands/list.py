"""``lockstep list RESULTS``: the experiments in a store, and their runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands import SCHEMA, Answer
from harness.measure.session import Watcher
from harness.report import listing
from harness.store.database import load
from harness.store.records import ALONE_KINDS, BY_JOB, FURTHER, MEASURED_KINDS, SIMULATED, SIMULATED_DEDICATED

if TYPE_CHECKING:
    import pandas


def arguments(parser: argparse.ArgumentParser) -> None:
    default = Path("lockstep-results")
    parser.add_argument(
        "results",
        metavar="RESULTS",
        type=Path,
        nargs="?",
        default=default,
        help="list the records of this directory",
    )


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    every = load(options.results).runs
    by_job = every["kind"] == BY_JOB
    found = [
        _described(str(digest), runs)
        for digest, runs in every[~by_job].groupby("digest", sort=False)
        if len(runs)
    ]
    schedules = [
        {"experiment": name, "schedulers": len(rows), **_period(rows)}
        for name, rows in every[by_job].groupby("experiment", sort=False)
    ]
    document = {"schema": SCHEMA, "experiments": found, "job_level": schedules}
    return Answer(document, listing.experiments(document))


def _described(digest: str, runs: pandas.DataFrame) -> dict[str, Any]:
    """What a store holds of one experiment; ``runs`` are its rows of the table of runs."""
    policies = runs[~runs["kind"].isin(ALONE_KINDS)]
    return {
        "experiment": runs["experiment"].iloc[-1],
        "digest": digest,
        "sessions": int(runs["session"].nunique()),
        "measured": int(runs["kind"].isin(MEASURED_KINDS).sum()),
        "simulated": int(runs["kind"].isin([SIMULATED, SIMULATED_DEDICATED]).sum()),
        "failed": int(runs["makespan_ns"].isna().sum()),
        "schedulers": len({str(table) for table in policies["scheduler"]}),
        "cells": int(runs["cell"].nunique()),
        "repeats": int(runs["repeat"][runs["repeat"] < FURTHER].max()) + 1,
        **_period(runs),
    }


def _period(rows: pandas.DataFrame) -> dict[str, str]:
    return {"first": str(rows["recorded_at"].min()), "last": str(rows["recorded_at"].max())}
