"""``lockstep demo``: three short jobs on this host for a minute, and the result in three sentences."""

from __future__ import annotations

import argparse

from harness import application
from harness.commands import Answer, shared
from harness.measure.session import Watcher
from harness.report import cells, conclusion
from harness.report.cells import Line
from harness.spec import experiment


def arguments(parser: argparse.ArgumentParser) -> None:
    shared.add(parser, "--quick", "--results", "--anyway")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Run the built-in experiment ``demo``; the status is 1 if any run failed."""
    wanted = experiment.load("demo", quick=options.quick, here=True)
    ran = application.run(wanted, options.results, watcher, anyway=options.anyway)
    said = conclusion.sentences(ran.results.rows)
    failed = [record.failure for record in (*ran.made, *ran.simulated) if record.failure]
    notes = [f"{len(failed)} runs failed: {failed[0]}"] if failed else []
    doubts = cells.doubts(ran.results.doubts)
    following = Line(f"Next: lockstep report {options.results} --open; lockstep run three-jobs", "dim")
    document = ran.results.document() | {"conclusion": said}
    return Answer(document, [*doubts, *said, following], status=1 if failed else 0, notes=tuple(notes))
