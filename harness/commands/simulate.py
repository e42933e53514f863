"""``lockstep simulate EXPERIMENT``: every scheduler on a simulated machine."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import document, experiment, overrides, summary
from harness.calibrate import Constants, constants
from harness.commands import Answer
from harness.commands.shared import Counted, announce_compiler, experiment_arguments
from harness.document import Document
from harness.experiment import Cell, Experiment
from harness.papers import parallel
from harness.report import simulations
from harness.site import Watcher
from harness.store import Store
from workloads.validation import InputError, number

if TYPE_CHECKING:
    from harness.mpi_pool import MpiPool

MECHANISM = "signals"
"""What stops and continues processes on a host if nothing else is asked for."""

SCHEMA = 1
"""Of the document that --json prints."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    experiment_arguments(parser)
    add = parser.add_argument
    add(
        "--tau", type=float, default=summary.TAU_S, metavar="S", help="bound of the bounded slowdown, seconds"
    )
    add(
        "--results",
        type=Path,
        default=Path("lockstep-results"),
        metavar="DIR",
        help="whose last calibration stands for what [machine] leaves out (default: %(default)s)",
    )
    add("--mpi", action="store_true", help="simulate on the ranks of mpiexec (docs/slurm.md)")
    add("--trace", metavar="FILE", help="trace of jobs for a file with level = 'jobs' (.swf, .swf.gz, sacct)")
    add("-o", dest="folder", type=Path, metavar="DIR", help="level = 'jobs': write traces and tables here")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Simulate the experiment; the status is 1 if any simulation failed.

    Raises:
        InputError: for bad input.
    """
    number("--tau", options.tau, above=0)
    if (written := _job_level(options)) is not None:
        from harness.simulator.jobs import command  # noqa: PLC0415 - numba is slow to load

        return command.answer(
            written,
            trace=options.trace,
            folder=options.folder,
            quick=options.quick,
            progress=Counted(watcher, options.experiment),
        )
    wanted = experiment.load(
        options.experiment, settings=options.settings, quick=options.quick, seed=options.seed
    )
    from harness.simulator.experiment import simulate_experiment  # noqa: PLC0415 - numba is slow to load

    calibrated = _calibrated(options.results)
    machines = [_machine(wanted, cell, calibrated) for cell in wanted.cells]
    announce_compiler(watcher)
    pool = _pool() if options.mpi else None
    compute = pool.compute if pool else parallel.compute
    rows = simulate_experiment(wanted, machines, options.tau, Counted(watcher, wanted.name), compute)
    failures = [failure for row in rows for failure in row.pop("failures")]
    found = {
        "schema": SCHEMA,
        "experiment": wanted.name,
        "digest": wanted.digest,
        "machine": vars(machines[0]),
        "rows": rows,
        "failures": failures,
        "doubts": [],
    }
    notes = [f"{len(failures)} simulations failed: {failures[0]}"] if failures else []
    if pool:
        notes.append(str(pool))
    if not calibrated and any(
        None in (m.context_switch_us, m.latency_us) for m in (cell.machine for cell in wanted.cells)
    ):
        notes.append(
            f"no calibration in {options.results}: what [machine] leaves out is as in Dusseau et al. 1996"
        )
    return Answer(found, simulations.experiment(found), status=1 if failures else 0, notes=tuple(notes))


def _pool() -> MpiPool:
    from harness.mpi_pool import MpiPool  # noqa: PLC0415 - starts MPI

    return MpiPool()


def _job_level(options: argparse.Namespace) -> Document | None:
    """The experiment file if it is one of jobs rather than processes."""
    written = document.read(options.experiment)
    if "level" not in written.data:
        return None
    changes = [overrides.parse(text) for text in options.settings]
    if options.seed is not None:
        changes.append(overrides.make("seed", options.seed, f"--seed {options.seed}"))
    return written.overridden(changes)


def _machine(wanted: Experiment, cell: Cell, calibrated: Constants | None) -> Any:
    """The machine of a cell: this host's likeness if its local scheduler is asked for, or none is.

    Else the paper's machine, with the host's context switch and latency. What the file says
    goes before either.
    """
    from harness.simulated import machine_like  # noqa: PLC0415
    from harness.simulator.machine import SimulatedMachine  # noqa: PLC0415

    given = cell.machine.given()
    try:
        if calibrated is None:
            return SimulatedMachine(**{"processors": wanted.processors, **given})
        if given.get("local", "eevdf") == "eevdf":
            likeness = machine_like(calibrated.of_run(MECHANISM), wanted.processors, wanted.schedulers[0])
            return dataclasses.replace(likeness, **given)
        costs = {"context_switch_us": calibrated.handoff_us, "latency_us": calibrated.latency_us}
        return SimulatedMachine(**{"processors": wanted.processors, **costs, **given})
    except InputError as error:
        raise error.under("machine") from None


def _calibrated(results: Path) -> Constants | None:
    """The constants of the last calibration in a store; None without one."""
    try:
        with Store(results, existing=True) as store:
            found = store.last_calibration()
    except InputError:
        return None
    return constants(found) if found else None
