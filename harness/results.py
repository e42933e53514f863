"""What a store holds, experiment by experiment, for the commands that read results."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from harness import counterpart
from harness.experiment import Experiment
from harness.rebuild import experiment_of
from harness.records import MEASURED_KINDS, RunRecord
from harness.site import Watcher, session_name
from harness.store import Store
from workloads.validation import InputError


@dataclass(frozen=True)
class Found:
    """An experiment and all its runs in a store, oldest first."""

    experiment: Experiment
    records: list[RunRecord]


def results_arguments(parser: argparse.ArgumentParser) -> None:
    """Add RESULTS and --experiment."""
    parser.add_argument("results", metavar="RESULTS", type=Path, help="a directory with records")
    help_text = "only the experiments of this name, or the one whose digest begins so"
    parser.add_argument("--experiment", metavar="NAME", help=help_text)


def read(results: Path, wanted: str | None, watcher: Watcher, *, simulate: bool = False) -> list[Found]:
    """The experiments in the store at ``results``, that of the last run last.

    With ``simulate`` measured runs that have no simulated counterpart are simulated, and
    that is recorded too.

    Raises:
        InputError: if there is no store, no run in it, or none of an experiment ``wanted``.
        StoreError: if a simulated run cannot be recorded.
    """
    with Store(results, existing=True) as store:
        found = []
        for digest in _digests(store, wanted):
            records = store.runs(digest)
            experiment = experiment_of(records)
            if simulate:
                records += _simulated(experiment, records, store, watcher)
            found.append(Found(experiment, records))
        return found


def _digests(store: Store, wanted: str | None) -> list[str]:
    known = store.experiments()
    if not known:
        raise InputError("RESULTS", str(store.path), "holds no runs", "fill it with lockstep run --results")
    chosen = [digest for digest, name in known if wanted in (None, name) or digest.startswith(wanted or "-")]
    if not chosen:
        names = ", ".join(f"{name} ({digest[:8]})" for digest, name in known)
        raise InputError("--experiment", wanted, "is not in this store", f"it holds {names}")
    return chosen


def _simulated(
    experiment: Experiment, records: list[RunRecord], store: Store, watcher: Watcher
) -> list[RunRecord]:
    measured = [record for record in records if record.kind in MEASURED_KINDS]
    if not measured:
        return []
    watcher.note("simulating the runs that were only measured")
    made = []
    for record in counterpart.complete(experiment, records, session_name()):
        store.add_run(record)
        made.append(record)
    return made
