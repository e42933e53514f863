"""``lockstep explore``: the same jobs under three schedulers, in slow motion, as a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness import application
from harness.analyse import stored
from harness.analyse.timelines import Span
from harness.commands import SCHEMA, Answer, shared
from harness.measure.session import Watcher
from harness.spec import experiment
from harness.spec.experiment import Experiment
from harness.store.database import FILE_NAME, Store
from harness.store.records import POLICY, RunRecord

if TYPE_CHECKING:
    from harness.report.explore import Measured


def arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "experiment file or built-in experiment (default: the last one of --results, else demo)"
    shared.add(parser, "experiment", nargs="?", help=help_text)
    shared.add(parser, "--set")
    shared.add(parser, "--results", help="store with a calibration, and with runs to show beside simulations")
    shared.output(parser, "file of the page (default: %(default)s)", Path("explore.html"))


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Simulate the neighbours of an experiment, and write the page."""
    path = options.output
    shared.check_writable("--output", path)
    base, measured = _wanted(options, watcher)
    write(path, base, measured, options.results, watcher)
    if options.open:
        shared.show(path)
    document = {"schema": SCHEMA, "experiment": base.name, "measured": list(measured), "file": str(path)}
    beside = f", and measured under {', '.join(measured)}" if measured else ""
    return Answer(document, [f"{path}: {base.name}, simulated{beside}"])


def write(path: Path, base: Experiment, measured: Measured, results: Path, watcher: Watcher) -> None:
    """Write the page of an experiment and its ``measured`` runs, with the constants in ``results``."""
    from harness.report import explore  # noqa: PLC0415 - numpy and jinja are slow to import

    around, simulated, calibrated = application.explore(base, results, watcher)
    machine = "this host's calibrated constants" if calibrated else "the machine of Dusseau et al. 1996"
    shared.write("--output", path, explore.html(around, simulated, measured, machine))


def _wanted(options: argparse.Namespace, watcher: Watcher) -> tuple[Experiment, Measured]:
    if not (options.experiment or options.settings) and (options.results / FILE_NAME).exists():
        found = stored.read(options.results, None, watcher)[-1]
        return found.experiment, runs(options.results, found)
    name = options.experiment or "demo"
    return experiment.load(name, settings=options.settings), {}


def runs(results: Path, found: stored.Found) -> Measured:
    """The first measured run with a timeline of each policy of a page, at the first point of the sweep."""
    from harness.report.explore import PANELS  # noqa: PLC0415

    first = found.experiment.cells[0].index
    known: dict[str, tuple[RunRecord, list[Span]]] = {}
    with Store(results, existing=True) as store:
        traced = set(store.with_timelines(found.experiment_digest))
        for record in found.records:
            policy = record.scheduler["policy"]
            ours = record.kind == POLICY and record.cell == first and record.id in traced
            if ours and policy in PANELS and policy not in known and record.makespan_ns:
                known[policy] = record, stored.spans_of(store, record)
    return {policy: known[policy] for policy in PANELS if policy in known}
