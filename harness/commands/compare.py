"""``lockstep compare``: measured against simulated slowdowns, or measurements before and after."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.analyse import before_after, comparison, verdicts
from harness.analyse.results_document import ResultsDocument
from harness.analyse.stored_runs import of_processes, read
from harness.commands import SCHEMA, Answer, shared
from harness.measure.session import Watcher
from harness.report import dashboards, documents, tables, text
from harness.report.dashboards import Metric
from workloads.validation import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    shared.add(parser, "results", "--experiment")
    add = parser.add_argument
    add(
        "after",
        metavar="AFTER",
        type=Path,
        nargs="?",
        help="compare with a second directory: is each row better or worse there than in the first?",
    )
    add(
        "--between",
        nargs=2,
        metavar="SCHEDULER",
        help='tell whether the second of two schedulers of RESULTS is better, e.g. none "gang 100 ms"',
    )
    add("--csv", type=Path, metavar="FILE", help="also write the rows as comma-separated values")
    shared.add(parser, "--tolerance", *shared.EXPORTS)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Compare; the status is 1 if any row is outside the tolerance, or worse than in the first directory."""
    shared.check_exports(options)
    if options.between or options.after is not None:
        return _before_after(options, watcher)
    experiments = read(options.results, options.experiment, watcher, simulate=True)
    stored = of_processes(
        experiments, options.results, "choose two schedulers with --between, or give a second directory"
    )
    judged = [verdicts.judged(one.results, one.records, options.tolerance) for one in stored]
    files = shared.exports_of(options) | ({"--csv": options.csv} if options.csv else {})
    _check_one(files, [f"{one.experiment} ({one.digest[:8]})" for one in judged])
    if options.csv:
        shared.write("--csv", options.csv, tables.comma_separated(judged[0]))
    metrics = list[Metric]()
    for side in ("measured", "simulated") if files else ():
        metrics += dashboards.of_rows(judged[0].experiment, judged[0].rows, side)
    shared.export(options, metrics)
    rows = [row for one in judged for row in one.rows]
    outside = any(row.verdict and row.verdict.verdict == verdicts.OUTSIDE for row in rows)
    shown = text.compared(judged, options.tolerance)
    return Answer(document(judged, options.tolerance), shown, status=1 if outside else 0)


def _before_after(options: argparse.Namespace, watcher: Watcher) -> Answer:
    arguments = options.results, options.after, options.between, options.experiment
    experiments, rows = before_after.compare(*arguments, watcher)
    if options.csv:
        lines = comparison.flat(row.plain() for row in rows)
        shared.write("--csv", options.csv, tables.lines_of_values(lines))
    names = [one["experiment"] for one in experiments]
    _check_one(shared.exports_of(options), names)
    shared.export(options, dashboards.of_comparison(names[0], rows))
    worse = any(row.verdict == comparison.WORSE for row in rows)
    shown = [part for one in experiments for part in documents.before_after(one)]
    document = {"schema": SCHEMA, "experiments": experiments}
    return Answer(document, shown, status=1 if worse and not options.between else 0)


def _check_one(files: Mapping[str, Path], experiments: Sequence[str]) -> None:
    """Refuse files, by their options, with the rows of more than one experiment."""
    for option, path in files.items() if len(experiments) > 1 else ():
        raise InputError(
            option,
            str(path),
            f"holds the rows of one experiment, and RESULTS has {', '.join(experiments)}",
            "choose one with --experiment",
        )


def document(judged: Sequence[ResultsDocument], tolerance: float) -> dict[str, Any]:
    keys = ("experiment", "digest", "machine", "agreement", "warnings", "rows")
    experiments = [{key: content[key] for key in keys} for content in (one.document() for one in judged)]
    return {"schema": SCHEMA, "tolerance": tolerance, "experiments": experiments}
