"""``lockstep calibrate``: the machine constants that waiting rules and the simulator use."""

import argparse
from typing import Any

from coordinator.host import mechanisms
from harness import application
from harness.analyse.result_warnings import of_calibration
from harness.analyse.statistics import median_interval
from harness.commands import SCHEMA, Answer
from harness.commands.shared import add
from harness.measure import trust
from harness.measure.calibrate import CACHE
from harness.measure.session import MeasurementSession, Watcher
from harness.report import listing
from harness.spec.experiment import usable_processors
from harness.store.database import Store
from harness.store.records import Calibration, quantile
from workloads.validation import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--working-set-bytes",
        type=int,
        default=0,
        metavar="BYTES",
        help="also measure steps through a working set of this size",
    )
    add(parser, "--results", "--no-wait")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    processors = usable_processors()[:2]
    if len(processors) < 2:
        raise InputError(
            "processors",
            len(processors),
            "a calibration needs two processors",
            "allow this process a second one (taskset)",
        )
    with Store(options.results, warn=watcher.warn) as store:
        session = MeasurementSession.begin(processors, application.real_tools(), store)
        usable = [name for name, mechanism in mechanisms.known().items() if not mechanism.unavailable()]
        with session.reserved(watcher, no_wait=options.no_wait):
            session.warn_of_disturbances(watcher)
            calibrations = session.calibrate([options.working_set_bytes], usable, watcher)
        warnings = of_calibration(calibrations)
        taken = trust.chosen(store.calibrations(), session.conditions, options.results)
        notes = (f"{store.path} holds the samples", *([taken.line] if taken.line else []))
    document = {
        "schema": SCHEMA,
        "machine": session.conditions.recorded(),
        "constants": [
            _row(calibration)
            for calibration in calibrations
            if calibration.quantity != CACHE
            and (calibration.quantity != "memory_step_ns" or options.working_set_bytes)
        ],
        "warnings": warnings,
    }
    return Answer(document, listing.constants(document), notes=notes)


def _row(calibration: Calibration) -> dict[str, Any]:
    ordered = sorted(calibration.samples)
    interval = median_interval(ordered)
    return {
        "quantity": calibration.quantity.replace("_ns", ""),
        "median_us": quantile(ordered, 0.5) / 1e3,
        "ci95_us": interval and [end_ns / 1e3 for end_ns in interval],
        "p10_us": quantile(ordered, 0.1) / 1e3,
        "p90_us": quantile(ordered, 0.9) / 1e3,
        "n": len(ordered),
    }
