"""``lockstep simulate EXPERIMENT``: simulate every scheduler."""

import argparse
from dataclasses import replace
from pathlib import Path

from harness import application
from harness.commands import Answer
from harness.commands.shared import EXPERIMENT, VERDICTS, add, judged, load, thresholds_of
from harness.measure.session import Watcher
from harness.predict import pool as threads
from harness.predict.pool import Pool
from harness.report import text
from harness.spec import experiment_source, overrides
from harness.spec.experiment_source import Document
from workloads.validation import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, *EXPERIMENT, "--tau")
    help_text = "store whose last calibration gives the values missing in [machine] (default: %(default)s)"
    add(parser, "--results", help=help_text)
    add(parser, *VERDICTS)
    own = parser.add_argument
    own("--mpi", action="store_true", help="simulate on the ranks of mpiexec (docs/slurm.md)")
    own("--trace", metavar="FILE", help="with level = 'jobs': trace of jobs (SWF or sacct)")
    help_text = "record the simulations there: report, compare and trace read them"
    own("-o", "--output", type=Path, metavar="DIR", help=help_text)
    help_text = "with -o: record a timeline of every rank, for trace and report"
    add(parser, "--timeline", help=help_text)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Simulate the experiment; the status is 1 if any simulation failed."""
    pool, compute = None, threads.compute
    if options.mpi:
        threads.join_pool()
        from harness.predict.mpi_pool import MpiPool  # noqa: PLC0415 - starts MPI

        compute = (pool := MpiPool()).compute
    if (written := _job_level(options)) is None:
        answer = _simulated(options, watcher, compute)
    else:
        from harness.commands import job_level  # noqa: PLC0415 - numba is slow to load

        answer = job_level.answer(written, options, watcher, compute)
    return replace(answer, notes=(*answer.notes, str(pool))) if pool else answer


def _simulated(options: argparse.Namespace, watcher: Watcher, compute: Pool) -> Answer:
    if options.trace:
        rule = f"is a job log, and {options.experiment} is an experiment of processes"
        raise InputError("--trace", options.trace, rule, "write lockstep simulate trace --trace FILE")
    if options.timeline and not options.output:
        raise InputError("--timeline", True, "is a part of records", "add -o DIR")
    wanted = load(options)
    conditions = thresholds_of(options, wanted)
    found, notes = application.simulate(
        wanted, options.results, watcher, options.tau, compute, options.output, timeline=options.timeline
    )
    document = found.document()
    del document["session"], document["agreement"]
    shown = text.simulated(wanted.name, found.rows)
    answer = Answer(document, shown, status=1 if found.failures else 0, notes=tuple(notes))
    return judged(answer, found, options, conditions, "simulated")


def _job_level(options: argparse.Namespace) -> Document | None:
    """The experiment file if it has a ``level``; None for one of processes."""
    written = experiment_source.read(options.experiment)
    if "level" not in written.data:
        return None
    changes = overrides.schedulers(options.policies)
    changes += [overrides.parse(text) for text in options.settings]
    if options.seed is not None:
        changes.append(overrides.make("seed", options.seed, f"--seed {options.seed}"))
    return written.overridden(changes)
