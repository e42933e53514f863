"""``lockstep compare RESULTS``: measured against simulated slowdowns, with verdicts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from harness.analyse import verdicts
from harness.analyse.results_document import ResultsDocument, results
from harness.analyse.summary import TAU_S
from harness.commands import SCHEMA, Answer
from harness.commands.stored import Found, read, results_arguments
from harness.measure.session import Watcher
from harness.report import verdict_table
from workloads.bounds import within


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    results_arguments(parser)
    parser.add_argument(
        "--tolerance",
        type=float,
        default=verdicts.TOLERANCE,
        metavar="SHARE",
        help="accepted error of the simulated workload slowdown (default: %(default)s)",
    )


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Compare; the status is 1 if any row is outside the tolerance.

    It simulates measured runs that have no simulated counterpart yet, and records the simulations.

    Raises:
        InputError: if there is no such store or experiment, or it holds no measured runs.
        StoreError: if simulated runs cannot be recorded.
    """
    within("--tolerance", options.tolerance)
    stored = read(options.results, options.experiment, watcher, simulate=True)
    judged = [_judged(one, options.tolerance) for one in stored]
    rows = [row for one in judged for row in one.rows]
    outside = any(row.verdict and row.verdict.verdict == verdicts.OUTSIDE for row in rows)
    text = verdict_table.render(judged, options.tolerance)
    return Answer(document(judged, options.tolerance), text, status=1 if outside else 0)


def _judged(found: Found, tolerance: float) -> ResultsDocument:
    return verdicts.judged(results(found.experiment, found.records, TAU_S), found.records, tolerance)


def document(judged: Sequence[ResultsDocument], tolerance: float) -> dict[str, Any]:
    """The document that --json prints."""
    keys = ("experiment", "digest", "machine", "agreement", "doubts", "rows")
    experiments = [{key: known[key] for key in keys} for known in (one.document() for one in judged)]
    return {"schema": SCHEMA, "tolerance": tolerance, "experiments": experiments}
