"""The deeds behind ``lockstep`` and the commands, with typed arguments: run, simulate, advise, explore."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.drive.driver import run_workload
from coordinator.host import mechanisms, processes
from coordinator.host.launcher_choice import find_launcher
from coordinator.workload import Node
from harness import Interrupted
from harness.analyse import result_warnings, results_document, summary
from harness.analyse.agreement import by_scheduler, errors_of
from harness.analyse.columns import duration
from harness.analyse.precision import RowPrecision, scattered
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import Row
from harness.measure import host_check, measured, plan, runner, trust
from harness.measure.as_started import AsStarted
from harness.measure.calibrate import Constants, mpi_probe, mpi_probe_between
from harness.measure.measured import Recalibrated
from harness.measure.plan import BackEnd, Key, Task
from harness.measure.session import (
    Counted,
    MeasurementSession,
    OverloadedError,
    Tools,
    Watcher,
    announce_compiler,
    reserved,
    session_name,
)
from harness.measure.through_slurm import Cluster, ThroughSlurm
from harness.measure.trust import Chosen
from harness.spec import jobs
from harness.spec.experiment import Experiment, usable_processors
from harness.spec.job_source import TAU_OF_LOGS_S
from harness.spec.scheduler import THROUGH_SLURM
from harness.store import conditions, journal, measuring
from harness.store.database import Store
from harness.store.journal import RunName
from harness.store.records import MEASURED_KINDS, RunRecord
from workloads.bounds import within
from workloads.late import Late
from workloads.program import Program
from workloads.validation import InputError
from workloads.work import OF_USERS, Command

if TYPE_CHECKING:
    from harness.analyse import advise as advice
    from harness.predict import missing, recorded_programs, recorded_waits, schedule_files, simulations
    from harness.predict import pool as threads
    from harness.predict.parameter_grid import ParameterGrid
    from harness.predict.pool import Pool
    from harness.predict.recorded_programs import RecordedPrograms
    from harness.predict.simulations import SimulatedBackEnd
else:  # measuring alone does not load simulators
    advice = Late("harness.analyse.advise")
    missing, recorded_programs = Late("harness.predict.missing"), Late("harness.predict.recorded_programs")
    threads, simulations = Late("harness.predict.pool"), Late("harness.predict.simulations")
    recorded_waits = Late("harness.predict.recorded_waits")
    schedule_files = Late("harness.predict.schedule_files")


def real_tools(nodes: Sequence[Node] = (), *, mpi: bool = True) -> Tools:
    """This host's launcher, or one that starts ranks on these nodes, and its probes; none without ``mpi``."""
    hosts = [node.host for node in nodes]
    launcher = find_launcher(hosts=hosts, needed=mpi)
    run_with_it = partial(run_workload, launcher=launcher)
    probes = mpi_probe(launcher), run_with_it, mpi_probe_between(launcher, hosts)
    return Tools(str(launcher), *probes, host_check.disturbances, reserved)


class Stopped(Interrupted):
    """A run was interrupted after some of its runs; ``ran`` has the results so far."""

    def __init__(self, message: str, ran: Ran) -> None:
        super().__init__(message)
        self.ran = ran


@dataclass(frozen=True)
class Ran:
    """The results of an experiment, and runs that this invocation ``made`` and ``simulated``."""

    results: ResultsDocument  # of all its runs in the store
    store: Path
    earlier: int  # how many measured runs were there before
    made: Sequence[RunRecord]
    simulated: Sequence[RunRecord]
    resumed: Sequence[RunRecord]  # of those before the ones in the results


def limits_kept() -> AbstractContextManager[None]:
    """A context after which this process has the limits of before, which a run and its checks raise."""
    return processes.kept_limits()


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run an experiment."""

    simulate: bool = True  # whether to simulate the measured runs, too
    resume: bool = False  # whether to leave out runs that are recorded already
    timeline: bool = False  # whether to record a timeline of every rank
    no_wait: bool = False  # whether to measure even while another Lockstep uses these processors
    part: str | None = None  # K/N for every N-th cell of the sweep from the K-th
    first_repeat: int = 0  # the first repeat to make; earlier ones belong to other schedulers
    tau_s: float = summary.TAU_S  # the bound of the bounded slowdown
    # Runs of other experiments: what they have of these programs alone is not measured again.
    known: Sequence[RunRecord] = ()


def run(experiment: Experiment, results: Path, watcher: Watcher, options: RunOptions = RunOptions()) -> Ran:
    """Measure every scheduler against dedicated runs, and simulate the same, as ``lockstep.run``.

    The experiment is loaded for this host.
    """
    if THROUGH_SLURM in experiment.schedulers:
        Cluster.of(experiment)  # complains before anything starts
    if options.simulate:
        recorded_programs.check(experiment)
    _check_bound(experiment, options.tau_s)
    experiment = _with_recorded_waits(experiment)
    cells = _part(options.part, experiment)
    programs = {job.program for cell in experiment.measured_cells for job in cell.jobs()}
    tools = real_tools(experiment.nodes, mpi=any(program.needs_launcher for program in programs))
    with Store(results, warn=watcher.warn) as store:
        session = MeasurementSession.begin(
            usable_processors()[: experiment.processors], tools, store, experiment.nodes
        )
        if any(isinstance(program, OF_USERS) for program in programs):
            session = replace(session, conditions=conditions.of_commands(session.conditions))
        series = _Series(experiment, cells, session, options, watcher)
        try:
            series.measure()
        except Interrupted as stopped:
            if not series.measured:
                raise
            raise Stopped(str(stopped), series.ran) from None
        if options.simulate:
            series.simulate()
        if options.resume:
            _keep_recorded_waits(store, experiment, series.every)
        return series.ran


def _check_bound(experiment: Experiment, tau_s: float) -> None:
    """Refuse another bound of the bounded slowdown where it would change none."""
    remedy = "leave it out"
    if tau_s == summary.TAU_S:
        return
    if experiment.of_log:
        reason = f"a time below {TAU_OF_LOGS_S:g} s of the log counts as that, on the scale of the run times"
    elif experiment.by_job:
        reason, remedy = "tau_s of the experiment is the bound", f"write --set tau_s={tau_s:g}"
    else:
        return
    raise InputError("--slowdown-bound", tau_s, f"has no effect: {reason}", remedy)


def _with_recorded_waits(experiment: Experiment) -> Experiment:
    """The experiment with waits, recorded and simulated, if its log names the scheduler of the site."""
    known = any(cell.window and cell.window.scheduler for cell in experiment.cells)
    return recorded_waits.of_windows(experiment) if known else experiment


def _keep_recorded_waits(store: Store, experiment: Experiment, records: Sequence[RunRecord]) -> None:
    """Let reports find the waits that are compared with those of runs that had been made before."""
    if any(cell.log and cell.log.recorded_waits for cell in experiment.cells):
        for record in recorded_waits.lacking(experiment, records):
            store.add_run(record)


def _part(text: str | None, experiment: Experiment) -> set[int]:
    """Indices of the cells to measure: all, or every N-th from the K-th for a part K/N."""
    cells = [cell.index for cell in experiment.measured_cells]
    if text is None:
        return set(cells)
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError("--part", text, "must be K/N with 1 <= K <= N", "write 1/4, 2/4, 3/4, 4/4")
    return set(cells[int(match[1]) - 1 :: int(match[2])])


class _Series:
    """The runs of some cells of an experiment: stored ones, and those that this invocation makes."""

    def __init__(
        self,
        experiment: Experiment,
        cells: Collection[int],
        session: MeasurementSession,
        options: RunOptions,
        watcher: Watcher,
    ) -> None:
        self._wanted = experiment
        self._cells = cells
        self._session = session
        self._options = options
        self._watcher = watcher
        self._store = session.store
        self._stored = self._store.runs(experiment.digest) if options.resume else []
        self._made = [*plan.shared(experiment, options.known, plan.recorded(self._stored))]
        self._simulated: list[RunRecord] = []
        self._shared = {self._store.add_run(record) for record in self._made} - {None}
        self._look()

    def _look(self) -> None:
        """Find out how many runs of the experiment are stored, which of them to extend, and what rows need.

        Only those to extend are read, so that a series of many invocations takes each as long as the first.
        """
        if self._options.resume:
            last = (self._stored[-1].id or 0) if self._stored else 0
            self._stored += self._store.runs(self._wanted.digest, after=last)
        self._before = [run for run in self._stored if run.id not in self._shared]
        for record in self._before:
            self._settle(record)
        for record in (record for record in self._before if record.kind in MEASURED_KINDS):
            if difference := conditions.difference(record.conditions, self._session.conditions):
                field, old, new = difference
                raise InputError(
                    "--resume",
                    True,
                    f"the recorded runs were measured with {field} = {old!r}, but now it is {new!r}",
                    "omit --resume, or choose another --results directory",
                )
        self._earlier = self._store.count(self._wanted.digest, MEASURED_KINDS) - len(self._shared)
        self._precision = RowPrecision(self._wanted, self.measured)

    def _settle(self, record: RunRecord) -> None:
        """Remove the journal of a run that is recorded, unless it continues from there."""
        journal.settle(RunName(record.digest, plan.key_of(record)).place(self._store.path), record)

    @property
    def measured(self) -> list[RunRecord]:
        """The runs that are extended, and those that were made."""
        return [*self._before, *self._made]

    @property
    def every(self) -> list[RunRecord]:
        """These, and their simulations."""
        return [*self.measured, *self._simulated]

    @property
    def ran(self) -> Ran:
        """The results so far."""
        document = results_document.results(self._wanted, self.every, self._options.tau_s, self._session.name)
        return Ran(document, self._store.path, self._earlier, self._made, self._simulated, self._before)

    def _lacking(self) -> dict[Key, Task]:
        """The runs to make; none if no row needs any of them."""
        records = plan.recorded(self.measured)
        ours = [task for task in plan.plan(self._wanted) if task.cell.index in self._cells]
        first = self._options.first_repeat
        tasks = {task.key: task for task in ours if task.repeat >= first and task.key not in records}
        return tasks if any(map(self._precision.needs, tasks.values())) else {}

    def measure(self) -> None:
        """Make the runs that are lacking, while no other Lockstep uses the processors."""
        if not self._lacking():
            return
        ours = measuring.claimed(self._store.path, self._wanted.digest, self._cells)
        with self._session.reserved(self._watcher, no_wait=self._options.no_wait), ours as other:
            if other and self._options.resume:
                results = self._store.path.parent
                raise InputError(
                    "--resume",
                    True,
                    f"{other} measures these runs into {results} now, and both would make each of them",
                    "wait for its end, or choose another --results directory",
                )
            # The Lockstep that used the processors until now may have recorded runs of this experiment.
            self._look()
            if tasks := self._lacking():
                self._carry_out(tasks)

    def _carry_out(self, tasks: Mapping[Key, Task]) -> None:
        precision, watcher, earlier = self._precision, self._watcher, len(self._made)
        self._session.warn_of_disturbances(watcher)
        for standing in precision.unknown():
            watcher.row_status(standing)
        to_do = list(tasks.values())
        try:
            back_end = self._back_end(to_do)
            for record in runner.run(to_do, back_end, self._store, watcher, precision):
                self._settle(record)
                self._made.append(record)
                precision.heard(record, watcher)
        except (KeyboardInterrupt, SystemExit):  # the driver ends by the latter on SIGTERM
            ended = plan.recorded(self._made)
            count = len(self._made) - earlier
            total = count + sum(precision.needs(task) for key, task in tasks.items() if key not in ended)
            progress = f"{count} of {total} runs are recorded in {self._store.path}"
            raise Interrupted(
                f"interrupted: everything is released; {progress}; continue with --resume"
            ) from None
        experiment = self._wanted
        if experiment.min_repeats < experiment.repeats and (wide := list(precision.wide())):
            name, width = max(wide, key=itemgetter(1))
            text = f"after {experiment.repeats} repeats {len(wide)} rows have intervals wider than precision"
            watcher.warn(f"{text} = {experiment.precision:.0%}, the widest {name} ({width:.0%})")

    def _back_end(self, tasks: Sequence[Task]) -> BackEnd:
        if self._wanted.of_settings:
            as_started = AsStarted(self._session, self._watcher)
            as_started.prepare(tasks)
            return as_started
        every = [job for task in tasks for job in task.jobs]
        constants: Callable[[Task], Constants] = lambda task: Constants()  # noqa: E731
        if any(job.program.needs_constants for job in every):
            users = [one for one in self._wanted.schedulers if one.policy.stops_processes]
            ways = {mechanisms.choose(one.options.mechanism)[0] for one in users}
            constants = Recalibrated(self._session, jobs.working_sets(every), ways, self._watcher)
        options = self._options
        here = measured.Measured(
            self._session, constants, self._watcher.note, options.timeline, options.resume
        )
        if THROUGH_SLURM not in self._wanted.schedulers:
            return here
        return ThroughSlurm(self._session, Cluster.of(self._wanted), here, self._watcher)

    def simulate(self) -> None:
        """Simulate the measured runs."""
        self._watcher.note("simulating the measured runs")
        announce_compiler(self._watcher)
        self._simulated = missing.complete(
            self._wanted,
            self.measured,
            self._session.name,
            self._store,
            self._watcher,
            timeline=self._options.timeline,
            heard=partial(self._precision.heard, watcher=self._watcher),
            further=scattered,
        )


BY = ("process", "job")
"""How jobs are simulated."""


@dataclass(frozen=True)
class Simulations:
    """The results of a simulated experiment, notes on them, and files with the schedules of logs."""

    results: ResultsDocument
    notes: list[str]
    files: list[Path]


def simulate(
    experiment: Experiment,
    results: Path,
    watcher: Watcher,
    tau_s: float = summary.TAU_S,
    compute: Pool | None = None,
    output: Path | None = None,
    *,
    timeline: bool = False,
    resume: bool = False,
    by: str | None = None,
) -> Simulations:
    """Simulate every scheduler of an experiment without running it, ``by`` process or by job.

    The last good calibration of this host in ``results`` gives the constants that the experiment leaves open.
    The store in ``output``, if any, gets the simulated runs, with the ranks' activities if ``timeline``;
    ``resume`` leaves out what it has. Of jobs without processes it also gets files of their schedules.
    """
    session = session_name() if output else ""
    _check_bound(experiment, tau_s)
    experiment = _with_recorded_waits(experiment)
    if by_job := _simulated_by_job(experiment, by, timeline=timeline):
        prepared = _by_job(experiment, session, tau_s)
    else:
        prepared = _by_process(experiment, results, session, watcher, timeline=timeline)
    back_end, tasks = prepared.back_end, prepared.tasks
    if by_job and not experiment.of_log:
        experiment = tasks[0].experiment  # with the content of its logs
    new_records: list[RunRecord] = []
    files: list[Path] = []
    with Store(output, warn=watcher.warn) if output else nullcontext() as store:
        before = store.runs(experiment.digest) if store and resume else []
        records = plan.recorded(before)
        lacking = [task for task in tasks if not _made(task, records.get(task.key), back_end)]

        def keep(record: RunRecord) -> None:
            if store and output:
                files.extend(schedule_files.write(output, record))
                store.add_run(record)
            new_records.append(record)

        try:
            progress = Counted(watcher, experiment.name)
            simulations.carry_out(lacking, back_end, progress, compute or threads.compute, keep)
        except KeyboardInterrupt:
            if not new_records:
                raise
            place = f"recorded in {store.path}; continue with --resume" if store else LOST
            many = f"{len(new_records)} of {len(lacking)} simulations are {place}"
            raise Interrupted(f"interrupted: {many}") from None
        if store and resume:
            _keep_recorded_waits(store, experiment, [*before, *new_records])
    failures = [record.failure for record in new_records if record.failure]
    notes = [f"{len(failures)} simulations failed: {failures[0]}"] if failures else []
    if store:
        notes.insert(0, _recorded(store, len(new_records), len(before) if resume else None))
    document = results_document.results(experiment, [*before, *new_records], tau_s)
    return Simulations(
        replace(document, machine=prepared.machine, failures=failures, warnings=()),
        [*notes, *prepared.notes],
        files,
    )


def _recorded(store: Store, count: int, found: int | None) -> str:
    """How many simulations a store has got, and of a series that continues how many it had."""
    earlier = "" if found is None else f", {found} found there"
    return f"{count} simulated runs recorded in {store.path}{earlier}"


def _simulated_by_job(experiment: Experiment, by: str | None, *, timeline: bool) -> bool:
    """Whether jobs are simulated without processes; InputError for what needs some then."""
    if experiment.by_job and by == BY[0]:
        raise InputError(
            "--by", by, "needs processes, and the jobs of this experiment have none", "leave it out"
        )
    by_job = experiment.by_job or by == BY[1]
    if by_job and timeline:
        raise InputError(
            "--timeline", timeline, "needs processes, and jobs are simulated without them", "leave it out"
        )
    return by_job


@dataclass(frozen=True)
class _Prepared:
    """A simulated back end, its tasks, the simulated machine, and notes on where its constants are from."""

    back_end: SimulatedBackEnd
    tasks: Sequence[Task]
    machine: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


def _by_job(experiment: Experiment, session: str, tau_s: float) -> _Prepared:
    from harness.predict import job_level  # noqa: PLC0415 - numba is slow to load

    here = conditions.of_session(usable_processors(), job_level.SIMULATOR)
    of = job_level.SimulatedByJob
    simulated = of.of(experiment) if experiment.by_job else of.of_processes(experiment, tau_s)
    back_end = replace(simulated, session=session, conditions=here)
    return _Prepared(back_end, back_end.tasks)


def _by_process(
    experiment: Experiment, results: Path, session: str, watcher: Watcher, *, timeline: bool
) -> _Prepared:
    recorded_programs.check(experiment)
    from harness.predict import process_level  # noqa: PLC0415 - numba is slow to load

    basis, recorded = _stored(results, experiment)
    announce_compiler(watcher)
    here = conditions.of_session(usable_processors(), process_level.SIMULATOR)
    host = partial(process_level.Host.of_calibration, basis.constants, conditions=here)
    back_end = process_level.Simulated(host, session, timeline, recorded)
    first = next(
        task for task in plan.plan(experiment, experiment.cells) if task.scheduler == experiment.schedulers[0]
    )
    machine = vars(process_level.Host.of_calibration(basis.constants, first).machine(first.scheduler))
    machines = [cell.machine for cell in experiment.cells]
    incomplete = any(not {"context_switch_us", "latency_us"} <= values.keys() for values in machines)
    notes = [*recorded.lacks(), *([basis.line] if incomplete and basis.line else [])]
    return _Prepared(back_end, process_level.tasks_of(experiment), machine, notes)


def _made(task: Task, record: RunRecord | None, back_end: SimulatedBackEnd) -> bool:
    """Whether a record is the simulation that ``back_end`` would make of a task."""
    return record is not None and record.constants == back_end.constants(task)


LOST = "lost; with -o DIR they would have been kept"


def explore(
    base: Experiment, results: Path, watcher: Watcher
) -> tuple[ParameterGrid, list[RunRecord], Chosen]:
    """Simulate the neighbours with timelines; also returns the calibration in ``results`` for that."""
    recorded_programs.check(base)
    from harness.predict import parameter_grid, process_level  # noqa: PLC0415 - numba is slow to load

    basis, recorded = _stored(results, base)
    for line in recorded.lacks():
        watcher.warn(line)
    around = parameter_grid.around(base)
    announce_compiler(watcher)
    progress = Counted(watcher, f"around {base.name}")
    records = process_level.predict(
        around.experiment, basis.constants, progress, threads.compute, recorded, timeline=True
    )
    return around, records, basis


def _stored(results: Path, experiment: Experiment) -> tuple[Chosen, RecordedPrograms]:
    """The calibration in a store to go by, and recordings of the commands."""
    if experiment.of_settings:
        first = experiment.schedulers[0]
        raise InputError("schedulers[0].setting", first.setting, first.not_simulated, "use lockstep run")
    here = conditions.of_session(usable_processors(), "")
    try:
        with Store(results, existing=True) as store:
            recorded = recorded_programs.stored(experiment, store)
            return trust.chosen(store.calibrations(), here, results), recorded
    except InputError:
        return trust.chosen((), here, results), recorded_programs.of(experiment, (), results)


def advise(
    description: Program | Path | None,
    jobs: int,
    results: Path,
    watcher: Watcher,
    *,
    no_wait: bool = False,
    record: Callable[[], tuple[Path, list[str]]] | None = None,
) -> advice.Advice:
    """Simulate the candidates for ``jobs`` jobs with this host's last good calibration, made now without one.

    ``description`` is the program, or its recording; without it ``record`` makes one, and gives warnings.
    """
    within("--jobs", jobs)
    processors = len(usable_processors())
    jobs_here = (
        _jobs_of(description, jobs, processors) if description else None
    )  # bad input shows before a calibration
    basis = _calibration(results, watcher, no_wait=no_wait)
    age = duration(trust.age_s(basis.calibration)) if basis.calibration else ""
    warnings = result_warnings.of_use(basis, conditions.of_session(usable_processors(), ""))
    if isinstance(description, Path) and (lacks := recorded_programs.program_in(description).lacks):
        warnings.append(lacks)
    if jobs_here is None:
        assert record is not None
        path, more = record()
        jobs_here, warnings = _jobs_of(path, jobs, processors), [*warnings, *more]
    experiment, program = jobs_here
    constants = basis.constants or Constants()
    announce_compiler(watcher)
    rows = advice.predict(experiment, constants, Counted(watcher, "simulating"))
    ranges: list[advice.Range] = []
    compared: list[Row] = []
    if isinstance(program, Program):
        ranges = advice.ranges(rows)
        rows = [row for row in rows if row.program["granularity_us"] == program.granularity_us]
    else:
        with Store(results, existing=True) as store:
            compared = advice.compared(store)
    rows.sort(key=advice.slowdown)
    missed = errors_of(compared), by_scheduler(compared)
    return advice.Advice(
        program, rows, ranges, processors, constants, basis.calibration, age, warnings, *missed
    )


def _jobs_of(description: Program | Path, jobs: int, processors: int) -> tuple[Experiment, Program | Command]:
    if isinstance(description, Program):
        return advice.experiment(description, jobs, processors), description
    experiment = advice.of_recording(description, jobs, processors)
    command = experiment.cells[0].groups[0].program
    assert isinstance(command, Command)
    return experiment, command


def _calibration(folder: Path, watcher: Watcher, *, no_wait: bool) -> Chosen:
    """The calibration of this host to go by; it is made now if there is none that is good."""
    at = conditions.of_session(usable_processors(), "")
    with Store(folder, warn=watcher.warn) as store:
        if not (basis := trust.chosen(store.calibrations(), at, folder)).calibration:
            session = MeasurementSession.begin(usable_processors()[:2], real_tools(), store)
            with session.reserved(watcher, no_wait=no_wait):
                session.warn_of_disturbances(watcher)
                try:
                    session.calibrate([0], ["signals"], watcher)
                except OverloadedError as error:
                    watcher.warn(str(error))
            basis = trust.chosen(store.calibrations(), at, folder)
        return basis
