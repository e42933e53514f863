"""``lockstep collect PART...``: merge the results of a sweep's parts into one store, and report them."""

import argparse
from pathlib import Path

from harness.analyse import stored_runs
from harness.commands import Answer, report
from harness.commands.shared import add
from harness.measure.session import Watcher
from harness.report import text
from harness.store.database import Store
from workloads.validation import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "parts",
        metavar="PART",
        nargs="+",
        type=Path,
        help="merge the results directory of a part (lockstep run --part)",
    )
    add(parser, "--results")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Merge what is not merged yet, and answer as ``lockstep run``; the status is 1 if a part is missing."""
    missing: list[str] = []
    merged = 0
    with Store(options.results, warn=watcher.warn) as store:
        for part in options.parts:
            try:
                with Store(part, existing=True, warn=watcher.warn) as other:
                    stored_runs.check(other)  # nothing spreads that no command can read
                    merged += store.merge(other)
            except InputError as error:
                missing.append(f"part not merged: {error}")
    if len(missing) == len(options.parts):
        raise InputError(
            "PART",
            str(options.parts[0]),
            "holds no records, and neither does any other part",
            "read the logs of the parts",
        )
    experiment = stored_runs.read(options.results, None, watcher)[-1]
    page = options.results / "report.html"
    report.write(page, "html", experiment, options.results)
    results = experiment.results
    notes = (f"merged {merged} runs into {options.results}; {page} is their report", *missing)
    return Answer(results.document(), text.render(results), status=1 if missing else 0, notes=notes)
