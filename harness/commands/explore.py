"""``lockstep explore``: the same jobs under three schedulers, in slow motion, as a page."""

import argparse
from pathlib import Path

from harness import application
from harness.analyse import stored_runs
from harness.analyse.timelines import Span
from harness.commands import SCHEMA, Answer, shared
from harness.measure.session import Watcher
from harness.measure.trust import PAPER
from harness.predict.parameter_grid import PANELS
from harness.spec import experiment
from harness.spec.experiment import Experiment
from harness.store.database import FILE_NAME, Store
from harness.store.records import POLICY, RunRecord


def arguments(parser: argparse.ArgumentParser) -> None:
    shared.add(
        parser,
        "experiment",
        nargs="?",
        help="show this experiment file or built-in one (default: the last one of --results, else demo)",
    )
    shared.add(parser, "--set")
    shared.add(
        parser,
        "--results",
        help="take the calibration, and runs to show with simulations, from this directory",
    )
    shared.output(parser, "write the page to this file", Path("explore.html"))


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    path = options.output
    source = None
    shared.check_writable("--output", path)
    if not (options.experiment or options.settings) and (options.results / FILE_NAME).exists():
        experiments = stored_runs.read(options.results, None, watcher)
        source = stored_runs.of_processes(
            experiments, options.results, f"lockstep report {options.results} shows them"
        )[-1]
        base = source.experiment
    else:
        base = experiment.load(options.experiment or "demo", settings=options.settings)
        base.check_processes()
    measured = write(path, base, source, options.results, watcher)
    if options.open:
        shared.show(path)
    document = {"schema": SCHEMA, "experiment": base.name, "measured": measured, "file": str(path)}
    beside = f", and measured under {', '.join(measured)}" if measured else ""
    return Answer(document, [f"{path}: {base.name}, simulated{beside}"])


def write(
    path: Path, base: Experiment, source: stored_runs.Found | None, results: Path, watcher: Watcher
) -> list[str]:
    """Write the page, with measured runs of ``source``; returns the policies of these runs."""
    from harness.report import explore  # noqa: PLC0415 - numpy and jinja are slow to import

    grid, simulated, taken = application.explore(base, results, watcher)
    machine = "this host's calibrated constants" if taken.calibration else f"the machine of {PAPER}"
    if taken.line:
        watcher.warn(taken.line)
    measured = _measured(results, source) if source else {}
    shared.write("--output", path, explore.html(grid, simulated, measured, machine))
    return list(measured)


def _measured(results: Path, source: stored_runs.Found) -> dict[str, tuple[RunRecord, list[Span]]]:
    """The first run with a timeline of each policy of a page, at the first point of the sweep."""
    first = source.experiment.cells[0].index
    with Store(results, existing=True) as store:
        traced = {*store.with_timelines(source.experiment_digest)}
        records: dict[str, RunRecord] = {}
        for record in source.records:
            if record.kind == POLICY and record.cell == first and record.id in traced and record.makespan_ns:
                records.setdefault(record.scheduler["policy"], record)
        return {
            one: (records[one], stored_runs.spans_of(store, records[one])) for one in PANELS if one in records
        }
