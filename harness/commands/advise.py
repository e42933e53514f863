"""``lockstep advise``: the best policy and waiting rule for a program on this host, by simulation."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from harness.analyse import advise, results_document
from harness.commands import SCHEMA, Answer, stored
from harness.commands.run import real_tools, results_argument
from harness.commands.shared import Counted, announce_compiler
from harness.measure.calibrate import Constants, constants
from harness.measure.session import Site, Watcher
from harness.report import advice
from harness.spec.experiment import usable_processors
from harness.store.database import Store
from workloads.bounds import within
from workloads.patterns import PATTERNS
from workloads.program import Program


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add = parser.add_argument
    add("--like", type=Path, metavar="RESULTS", help="take the jobs of the last experiment in this store")
    add("--pattern", default="BARRIER", help=f"one of {', '.join(PATTERNS)} (default: %(default)s)")
    add("--granularity-us", type=float, default=1000.0, metavar="G", help="mean compute time of a phase")
    add("--imbalance", type=float, default=0.25, metavar="V/G", help="width of its range as a share of G")
    add("--processes", type=int, default=2, metavar="P", help="processes of a job (default: %(default)s)")
    add("--jobs", type=int, default=3, metavar="N", help="number of jobs (default: %(default)s)")
    results_argument(parser)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Simulate the candidates with this host's last calibration; calibrate first if there is none.

    Raises:
        InputError: for a program that does not fit the machine, or a store that cannot be read.
        LaunchError: if the calibration fails.
    """
    within("--jobs", options.jobs)
    program, jobs = _described(options, watcher)
    processors = len(usable_processors())
    wanted = advise.experiment(program, jobs, processors)
    found = _constants(options.results, watcher)
    announce_compiler(watcher)
    rows = advise.predict(wanted, found, Counted(watcher, "simulating"))
    asked = [row for row in rows if row.program["granularity_us"] == program.granularity_us]
    asked.sort(key=advise.slowdown)
    ranges = advise.ranges(rows)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "program": dataclasses.asdict(program),
        "jobs": jobs,
        "processors": processors,
        "constants": found.of_run("signals"),
        "rows": [
            {"scheduler": row.scheduler, **results_document.summary_document(row.simulated)}
            for row in asked
            if row.simulated
        ],
        "ranges": [dataclasses.asdict(one) for one in ranges],
    }
    return Answer(document, advice.render(asked, ranges, processors))


def _described(options: argparse.Namespace, watcher: Watcher) -> tuple[Program, int]:
    if options.like:
        last = stored.read(options.like, None, watcher)[-1].experiment
        return advise.like(options.like, last.cells[0].jobs())
    program = Program(
        pattern=options.pattern,
        processes=options.processes,
        granularity_us=options.granularity_us,
        imbalance=options.imbalance,
        dedicated_s=advise.LEAST_S,
    )
    return program, options.jobs


def _constants(folder: Path, watcher: Watcher) -> Constants:
    with Store(folder, warn=watcher.warn) as store:
        if calibrated := store.last_calibration():
            return constants(calibrated)
        here = Site.here(usable_processors()[:2], real_tools(), store)
        return constants(here.calibrate([0], ["signals"], watcher))
