"""``lockstep run EXPERIMENT``: measure every scheduler against dedicated runs."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from coordinator.drive import takeover
from coordinator.drive.driver import run_workload
from coordinator.host import mechanisms
from coordinator.host.launchers import find_launcher
from coordinator.workload import Node, Result, Workload
from harness.analyse import results_document
from harness.analyse.caveats import calibration_load
from harness.analyse.precision import RowPrecision, scattered
from harness.commands import Answer, Interrupted
from harness.commands.shared import (
    announce_compiler,
    anyway_argument,
    experiment_arguments,
    judged,
    results_argument,
    tau_argument,
    thresholds_of,
    verdict_arguments,
)
from harness.measure import host_check, measured, plan, runner, turn
from harness.measure.calibrate import mpi_probe, mpi_probe_between
from harness.measure.plan import Key, Task
from harness.measure.recalibration import Recalibrated
from harness.measure.session import Site, Tools, Watcher
from harness.predict import missing, recorded_programs
from harness.report import text
from harness.spec import experiment, hosts, jobs
from harness.spec.experiment import Experiment
from harness.store import conditions
from harness.store.database import FILE_NAME, Store
from harness.store.records import MEASURED_KINDS, RunRecord
from slurm import allocation
from workloads.bounds import within
from workloads.validation import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    experiment_arguments(parser)
    measuring_arguments(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--hosts", metavar="A:N,B:N", help="hosts to run on, each with its number of processors"
    )
    where.add_argument("--hostfile", type=Path, metavar="FILE", help="file with such a host on each line")
    where.add_argument("--allocation", action="store_true", help="run on the nodes of this Slurm allocation")
    add = parser.add_argument
    add("--part", metavar="K/N", help="only part K of N of the sweep (see lockstep collect)")
    tau_argument(parser)
    results_argument(parser)
    anyway_argument(parser)
    verdict_arguments(parser)


def measuring_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the measurement."""
    add = parser.add_argument
    add(
        "--resume",
        action="store_true",
        help="skip recorded runs, and take over a run whose driver was killed",
    )
    add("--no-simulate", dest="simulate", action="store_false", help="measure only")
    add("--timeline", action="store_true", help="record a timeline of every rank, for trace and report")


def passed_on(options: argparse.Namespace) -> list[str]:
    """The words that repeat these arguments in another invocation, except EXPERIMENT and --resume."""
    words = [word for setting in options.settings for word in ("--set", setting)]
    words += ["--quick"] if options.quick else []
    words += [] if options.seed is None else ["--seed", str(options.seed)]
    words += [] if options.simulate else ["--no-simulate"]
    return words + (["--timeline"] if options.timeline else [])


def real_tools(nodes: Sequence[Node] = ()) -> Tools:
    """The MPI launcher of this host, or one that starts ranks on these nodes, and its probes.

    Raises:
        InputError: if there is no launcher.
    """
    hosts = [node.host for node in nodes]
    launcher = find_launcher(hosts=hosts)
    run_with_it = partial(run_workload, launcher=launcher)
    probes = mpi_probe(launcher), run_with_it, mpi_probe_between(launcher, hosts)
    return Tools(str(launcher), *probes, host_check.disturbances, turn.reserved)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Run the experiment; the status is 1 if any run of this session failed.

    Raises:
        InputError: for bad input, before anything starts.
        StoreError: if records cannot be written.
        LaunchError: if the first calibration fails, or the launcher has gone.
        Interrupted: on SIGINT or SIGTERM, with everything released.
    """
    within("--tau", options.tau)
    wanted = experiment.load(
        options.experiment,
        settings=[*options.settings, *_where(options)],
        quick=options.quick,
        seed=options.seed,
        here=True,
    )
    conditions = thresholds_of(options, wanted)
    for task in () if options.allocation else plan.plan(wanted):
        if error := measured.left_to_slurm(task):
            raise error
    if options.simulate:
        recorded_programs.check(wanted)
    cells = _part(options.part, wanted)
    taken = _take_over(wanted, options.results, watcher) if options.resume else None
    tools = real_tools(wanted.nodes)
    with Store(options.results, warn=watcher.warn) as store:
        here = Site.here(experiment.usable_processors()[: wanted.processors], tools, store, wanted.nodes)
        made = [measured.record_taken_over(wanted, here, *taken)] if taken else []
        stored, before, precision = _begun(wanted, here, made, resumed=options.resume)
        if _to_do(wanted, cells, [*before, *made], precision):
            with here.reserved(watcher, anyway=options.anyway):
                # Whoever had the processors until now may have recorded runs of this experiment.
                stored, before, precision = _begun(wanted, here, made, resumed=options.resume)
                made += _measure(wanted, cells, here, [*before, *made], precision, options.timeline, watcher)
        path, simulated = store.path, []
        if options.simulate:
            simulated = _simulate(wanted, here, [*before, *made], precision, options.timeline, watcher)
    found = results_document.results(wanted, [*before, *made, *simulated], options.tau, here.session)
    failed = [record for record in (*made, *simulated) if record.failure]
    notes = [f"{len(made)} runs recorded in {path}{_earlier(stored, resumed=options.resume)}"]
    for what, ours in (("runs", made), ("simulations", simulated)):
        if bad := sum(1 for record in ours if record.failure):
            notes.append(f"{bad} of {len(ours)} {what} failed")
    status = 1 if failed else 0
    answer = Answer(found.document(), text.render(found), status=status, notes=tuple(notes), results=found)
    return judged(answer, options, conditions, "measured")


def _earlier(count: int, *, resumed: bool) -> str:
    """What becomes of the runs of this experiment that were in the store before, in words."""
    if not count:
        return ""
    if resumed:
        return f", {count} found there"
    return f"; reports use these and not its {count} earlier runs of this experiment (--resume extends them)"


def _take_over(wanted: Experiment, results: Path, watcher: Watcher) -> tuple[Workload, Result] | None:
    """Take over a run for this store whose driver was killed less than a lease ago; None without one.

    Raises:
        InputError: if the driver is alive.
        Interrupted: on SIGINT or SIGTERM, with everything released.
    """
    store = Path(os.path.realpath(results / FILE_NAME))
    for path, workload in takeover.runs(watcher.warn):
        purpose = measured.purpose_of(workload)
        if purpose is None or (purpose.store, purpose.digest) != (store, wanted.digest):
            continue
        try:
            result = takeover.resume_workload(path, watcher.note)
            watcher.warn("this driver took over the run in progress, after its driver was killed")
            return workload, result
        except takeover.NotAbandoned as found:
            rule = f"{found} and records in {results}"
            raise InputError(
                "--resume", True, rule, "wait for its end, or choose another --results"
            ) from None
        except takeover.Over as found:
            watcher.warn(f"{found}; this driver repeats it")
        except (KeyboardInterrupt, SystemExit):
            raise Interrupted("interrupted: everything is released; continue with --resume") from None
    return None


def _where(options: argparse.Namespace) -> list[str]:
    """The hosts on the command line, as overrides of the file."""
    if options.allocation:
        return hosts.of_allocation()
    entries = hosts.read(options.hostfile) if options.hostfile else allocation.split(options.hosts or "")
    return [f"hosts={json.dumps(entries)}"] if any(entries) else []


def _part(text: str | None, wanted: Experiment) -> set[int]:
    """Indices of the cells to measure: all, or every N-th from the K-th for a part K/N.

    Raises:
        InputError: if ``text`` names no part.
    """
    cells = [cell.index for cell in wanted.measured_cells]
    if text is None:
        return set(cells)
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError("--part", text, "must be K/N with 1 <= K <= N", "write 1/4, 2/4, 3/4, 4/4")
    return set(cells[int(found[1]) - 1 :: int(found[2])])


def _begun(
    wanted: Experiment, here: Site, made: Sequence[RunRecord], *, resumed: bool
) -> tuple[int, list[RunRecord], RowPrecision]:
    """How many runs of this experiment are stored without ``made``, those to extend, and what rows need.

    Raises:
        InputError: if runs under the present conditions cannot extend the stored ones.
    """
    stored = [record for record in here.store.runs(wanted.digest) if record.kind in MEASURED_KINDS]
    before = _comparable(here.store.runs(wanted.digest), here) if resumed else []
    return len(stored), before, RowPrecision(wanted, [*before, *made])


def _to_do(
    wanted: Experiment, cells: Collection[int], before: Sequence[RunRecord], precision: RowPrecision
) -> dict[Key, Task]:
    """The runs of these cells that ``before`` lacks; none if no row needs any of them."""
    done = plan.recorded(before)
    ours = [task for task in plan.plan(wanted) if task.cell.index in cells and not task.scheduler.of_slurm]
    tasks = {task.key: task for task in ours if task.key not in done}
    return tasks if any(map(precision.needs, tasks.values())) else {}


def _measure(
    wanted: Experiment,
    cells: Collection[int],
    here: Site,
    before: Sequence[RunRecord],
    precision: RowPrecision,
    timeline: bool,
    watcher: Watcher,
) -> list[RunRecord]:
    """Measure the runs of these cells that ``before`` lacks, and take them into ``precision``."""
    made: list[RunRecord] = []
    if not (tasks := _to_do(wanted, cells, before, precision)):
        return made
    here.warn_of_disturbances(watcher)
    for standing in precision.unknown():
        watcher.standing(standing)
    working_sets = jobs.working_sets(job for task in tasks.values() for job in task.jobs)
    try:
        load = calibration_load
        calibrated = Recalibrated(here, working_sets, _mechanisms(wanted), load, watcher)
        back_end = measured.Measured(here, calibrated, watcher.note, timeline)
        to_do = list(tasks.values())
        for record in runner.run(to_do, back_end, here.store, watcher, precision.needs, precision.expects):
            made.append(record)
            precision.add(record)
            for standing in precision.news(record):
                watcher.standing(standing)
    except (KeyboardInterrupt, SystemExit):  # the driver ends by the latter on SIGTERM
        ended = plan.recorded(made)
        total = len(made) + sum(precision.needs(task) for key, task in tasks.items() if key not in ended)
        raise Interrupted(
            f"interrupted: everything is released; {len(made)} of {total} runs are recorded in "
            f"{here.store.path}; continue with --resume"
        ) from None
    if wanted.least_repeats < wanted.repeats and (wide := list(precision.wide())):
        shown = ", ".join(f"{name} ({width:.0%})" for name, width in wide)
        asked = f"precision = {wanted.precision:.0%}"
        watcher.warn(f"after {wanted.repeats} repeats intervals are wider than {asked}: {shown}")
    return made


def _mechanisms(wanted: Experiment) -> set[str]:
    """The mechanisms of the experiment's schedulers on this host."""
    users = [scheduler for scheduler in wanted.schedulers if scheduler.policy.needs_mechanism]
    return {mechanisms.choose(scheduler.options.mechanism)[0] for scheduler in users}


def _simulate(
    wanted: Experiment,
    here: Site,
    records: Sequence[RunRecord],
    precision: RowPrecision,
    timeline: bool,
    watcher: Watcher,
) -> list[RunRecord]:
    """Simulate those of ``records`` that have no simulated counterpart among them."""

    def heard(record: RunRecord) -> None:
        precision.add(record)
        for standing in precision.simulated_news(record):
            watcher.standing(standing)

    watcher.note("simulating the measured runs")
    announce_compiler(watcher)
    return missing.complete(
        wanted,
        records,
        here.session,
        here.store,
        watcher,
        timeline=timeline,
        heard=heard,
        further=scattered,
    )


def _comparable(before: list[RunRecord], here: Site) -> list[RunRecord]:
    """``before``, if runs under the present conditions can extend that series.

    Raises:
        InputError: if conditions differ; the message names the field and both values.
    """
    for record in before:
        if found := conditions.difference(record.conditions, here.conditions):
            field, old, new = found
            rule = f"the recorded runs were measured with {field} = {old!r}, but now it is {new!r}"
            raise InputError("--resume", True, rule, "omit --resume, or choose another --results directory")
    return before
