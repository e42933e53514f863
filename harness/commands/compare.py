"""``lockstep compare RESULTS``: is the simulator right about the runs in a store?"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any

from harness import answer, compare, results
from harness.commands import Answer
from harness.report import verdicts
from harness.site import Watcher
from harness.summary import TAU_S
from workloads.validation import number

SCHEMA = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    results.results_arguments(parser)
    parser.add_argument(
        "--tolerance",
        type=float,
        default=compare.TOLERANCE,
        metavar="SHARE",
        help="error of the simulated workload slowdown that is accepted (default: %(default)s)",
    )


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Compare; the status is 1 if any row is outside the tolerance.

    Measured runs that have no simulated counterpart yet are simulated, and that is recorded.

    Raises:
        InputError: if there is no such store or experiment, or it holds no measured runs.
        StoreError: if simulated runs cannot be recorded.
    """
    number("--tolerance", options.tolerance, above=0, most=0.99)
    read = results.read(options.results, options.experiment, watcher, simulate=True)
    found = [_compared(one, options.tolerance) for one in read]
    document = {"schema": SCHEMA, "tolerance": options.tolerance, "experiments": found}
    outside = sum(row["verdict"] == compare.OUTSIDE for one in found for row in one["rows"])
    return Answer(document, verdicts.render(document), status=1 if outside else 0)


def _compared(found: results.Found, tolerance: float) -> Mapping[str, Any]:
    document = answer.document(found.experiment, found.records, TAU_S)
    rows = [
        row | dataclasses.asdict(compare.verdict(row, found.records, tolerance)) for row in document["rows"]
    ]
    return {key: document[key] for key in ("experiment", "digest", "machine", "agreement")} | {"rows": rows}
