"""``lockstep simulate EXPERIMENT``: simulate every scheduler."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.analyse import summary
from harness.analyse.results_document import ResultsDocument
from harness.commands import Answer
from harness.commands.shared import (
    Counted,
    announce_compiler,
    experiment_arguments,
    judged,
    results_argument,
    tau_argument,
    thresholds_of,
    verdict_arguments,
)
from harness.measure.calibrate import Constants, constants
from harness.measure.plan import plan
from harness.measure.session import Watcher
from harness.predict import pool as threads
from harness.predict import recorded_programs
from harness.predict.pool import Pool
from harness.predict.recorded_programs import RecordedPrograms
from harness.report import text
from harness.spec import experiment, experiment_source, overrides
from harness.spec.experiment import Experiment
from harness.spec.experiment_source import Document
from harness.store.database import Store
from workloads.bounds import within
from workloads.validation import InputError

if TYPE_CHECKING:
    from harness.predict.mpi_pool import MpiPool


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    experiment_arguments(parser)
    add = parser.add_argument
    tau_argument(parser)
    results_argument(parser, "store whose last calibration gives the values missing in [machine]")
    verdict_arguments(parser)
    add("--mpi", action="store_true", help="simulate on the ranks of mpiexec (docs/slurm.md)")
    add("--trace", metavar="FILE", help="with level = 'jobs': trace of jobs (SWF or sacct)")
    add("-o", dest="folder", type=Path, metavar="DIR", help="with level = 'jobs': output directory")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Simulate the experiment; the status is 1 if any simulation failed.

    Raises:
        InputError: for bad input.
    """
    within("--tau", options.tau)
    pool = _pool() if options.mpi else None
    compute = pool.compute if pool else threads.compute
    if (written := _job_level(options)) is None:
        answer = _simulated(options, watcher, compute)
    else:
        from harness.commands import job_level  # noqa: PLC0415 - numba is slow to load

        answer = job_level.answer(
            written,
            trace=options.trace,
            folder=options.folder,
            quick=options.quick,
            progress=Counted(watcher, options.experiment),
            compute=compute,
        )
    return replace(answer, notes=(*answer.notes, str(pool))) if pool else answer


def _simulated(options: argparse.Namespace, watcher: Watcher, compute: Pool) -> Answer:
    wanted = experiment.load(
        options.experiment, settings=options.settings, quick=options.quick, seed=options.seed
    )
    conditions = thresholds_of(options, wanted)
    recorded_programs.check(wanted)
    from harness.predict import process_level  # noqa: PLC0415 - numba is slow to load

    calibrated, recorded = _stored(options.results, wanted)
    announce_compiler(watcher)
    records = process_level.predict(wanted, calibrated, Counted(watcher, wanted.name), compute, recorded)
    failures = [record.failure for record in records if record.failure]
    first = next(task for task in plan(wanted, wanted.cells) if task.scheduler == wanted.schedulers[0])
    rows = summary.rows(wanted, records, options.tau, wanted.cells)
    machine = vars(process_level.Host.of_calibration(calibrated, first).machine(first.scheduler))
    found = ResultsDocument(wanted.name, wanted.digest, "", machine, rows, None, failures, ())
    document = found.document()
    del document["session"], document["agreement"]
    notes = [f"{len(failures)} simulations failed: {failures[0]}"] if failures else []
    given = [cell.machine for cell in wanted.cells]
    if not calibrated and any(not {"context_switch_us", "latency_us"} <= values.keys() for values in given):
        notes.append(
            f"no calibration in {options.results}: values missing in [machine] are from Dusseau et al. 1996"
        )
    shown = text.simulated(wanted.name, rows)
    answer = Answer(document, shown, status=1 if failures else 0, notes=tuple(notes), results=found)
    return judged(answer, options, conditions, "simulated")


def _pool() -> MpiPool:
    threads.join_pool()
    from harness.predict.mpi_pool import MpiPool  # noqa: PLC0415 - starts MPI

    return MpiPool()


def _job_level(options: argparse.Namespace) -> Document | None:
    """The experiment file if it has a ``level``; None for one of processes."""
    written = experiment_source.read(options.experiment)
    if "level" not in written.data:
        return None
    changes = [overrides.parse(text) for text in options.settings]
    if options.seed is not None:
        changes.append(overrides.make("seed", options.seed, f"--seed {options.seed}"))
    return written.overridden(changes)


def _stored(results: Path, wanted: Experiment) -> tuple[Constants | None, RecordedPrograms]:
    """The constants of the last calibration in a store, None without one, and recordings of the commands."""
    try:
        with Store(results, existing=True) as store:
            found, records = store.last_calibration(), store.runs(wanted.digest)
            recorded = recorded_programs.of(wanted, records, store.path.parent)
    except InputError:
        return None, recorded_programs.of(wanted, (), results)
    return (constants(found) if found else None), recorded
