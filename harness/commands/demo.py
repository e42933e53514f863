"""``lockstep demo``: three short jobs on this host for a minute, and the result in three sentences."""

import argparse
from pathlib import Path

from harness import application
from harness.analyse import stored_runs
from harness.application import RunOptions
from harness.commands import Answer, explore, shared
from harness.measure.session import Watcher
from harness.report import cells, text
from harness.report.cells import Line
from harness.spec import experiment
from workloads.validation import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    shared.add(parser, "--quick", "--results", "--no-wait")
    shared.output(parser, "also write the page of lockstep explore (default with --open: explore.html)")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Run the built-in experiment ``demo``; the status is 1 if any run failed."""
    demo = experiment.load("demo", quick=options.quick, here=True)
    path = options.output or (Path("explore.html") if options.open else None)
    if path:
        shared.check_writable("--output", path)
    run = RunOptions(no_wait=options.no_wait, timeline=path is not None)
    ran = application.run(demo, options.results, watcher, run)
    if path:
        stored = stored_runs.read(options.results, "demo", watcher)[-1]
        explore.write(path, demo, stored, options.results, watcher)
    sentences = text.conclusion(ran.results.rows)
    failed = [record.failure for record in (*ran.made, *ran.simulated) if record.failure]
    notes = [f"{len(failed)} runs failed: {failed[0]}"] if failed else []
    if path and options.open:
        try:
            shared.show(path)
        except InputError as error:  # the sentences are there nevertheless
            notes.append(str(error))
    warnings = [*([Line(ran.results.notice, "bold yellow")] if ran.results.notice else ())]
    warnings += cells.warning_lines(ran.results.warnings)
    following = Line(f"Next: lockstep report {options.results} --open; lockstep run three-jobs", "dim")
    document = ran.results.document() | {"conclusion": sentences}
    return Answer(document, [*warnings, *sentences, following], status=1 if failed else 0, notes=tuple(notes))
