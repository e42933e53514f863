"""The experiment: which jobs run under which schedulers, how often, over which sweep, as validated values.

Its jobs have processes ([[jobs]]), or are those of a job log or of a model, which have none.
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeGuard

from coordinator.owners import Owner
from coordinator.topology import Topology
from coordinator.workload import LEASE_S, Node, ParallelJob
from harness.spec import experiment_source, hosts, job_source, overrides, owners, settings, submission, sweep
from harness.spec.experiment_source import Document
from harness.spec.job_source import LEVEL, LOG_MINUTES, JobSource, ScaledWindow, log_place
from harness.spec.jobs import JobGroup, as_started, check_here, job_group
from harness.spec.machine import check_real, machine_values
from harness.spec.scheduler import THROUGH_SLURM, Reader, Scheduler, check_tiers, of_jobs, reader
from harness.spec.table_checks import Table, as_table, tables
from workloads.bounds import ALONE_S, JOBS, RANKS, RUNS, fits, within
from workloads.locks.lock_program import LockProgram
from workloads.machine import check_values, lost_processors
from workloads.validation import InputError, known_keys, one_of, under

if TYPE_CHECKING:
    from harness.spec.log_window import Window

SPINNING, TWO_PHASE = "spinning", "two-phase"
"""How jobs that are larger than the machine wait when they run alone."""

REPEATS = {"min": 3, "max": 8}
PRECISION = 0.05
TIMEOUT_FACTOR = 10.0

QUICK_REPEATS = 3
QUICK_SHARE = 0.25
"""The maximum of repeats under --quick without a [quick] table, and the share of dedicated_s and work_s."""

QUICK_REPLICATIONS, QUICK_WIDTH = 5, 2
"""The same of random jobs: the most replications, and how many times as wide their intervals may be."""

KEYS = ("name", "processors", "seed", "machine", "schedulers", "owners", "sweep", "quick")
OF_PROCESSES = (
    *("hosts", "lease_s", "repeats", "jobs", "log", "precision", "dedicated", "slurm", "timeout_factor"),
)


@dataclass(frozen=True)
class Cell:
    """One point of the sweep: its settings, jobs, values of the machine, and number of processors."""

    index: int
    settings: Table
    groups: tuple[JobGroup, ...]
    machine: Table
    processors: int
    source: JobSource | None = None  # of jobs without processes, in the place of groups
    log: ScaledWindow | None = None  # the part of a job log whose jobs the groups are
    window: "Window | None" = None  # the table ``[log]`` of that part; None if rebuilt from records

    @property
    def identity(self) -> list[Any]:
        """What results depend on at this point of the sweep."""
        groups = [group.identity for group in self.groups]
        return [groups, self.machine, self.processors, self.source and self.source.identity]

    def jobs(self) -> tuple[ParallelJob, ...]:
        """The jobs, numbered from 0 in file order."""
        alike = (group for group in self.groups for _ in range(group.count))
        return tuple(
            ParallelJob(
                *(n, group.program, group.arrival_s, group.estimate),
                submitter=group.submitter,
                after=group.after,
            )
            for n, group in enumerate(alike)
        )

    @property
    def topology(self) -> Topology:
        with under("machine"):
            return Topology.of(self.machine, self.processors)

    @property
    def lost(self) -> frozenset[int]:
        with under("machine"):
            return lost_processors(self.machine, self.processors)


@dataclass(frozen=True)
class Experiment:
    """A validated experiment."""

    name: str  # as in the file, else the file's name
    processors: int  # the largest number that a cell uses
    repeats: int  # how often everything is measured at most
    seed: int  # seed of all compute times and of the order of the runs
    schedulers: tuple[Scheduler, ...]  # in file order, no two alike
    # The points of the sweep, the last key varying fastest; one cell without a sweep.
    cells: tuple[Cell, ...] = field(repr=False)
    nodes: tuple[Node, ...] = ()  # the hosts to run on; empty for this host
    lease_s: float = LEASE_S  # how long the agents continue without the driver
    # SPINNING, or TWO_PHASE: jobs with more processes than processors also run alone with two-phase waits,
    # and slowdowns refer to the times of these runs.
    dedicated: str = SPINNING
    min_repeats: int = 1  # how often at least; more repeats follow for rows that are not precise
    # Widest 95 % interval of a row, as a share of its median, that needs no more repeats.
    precision: float = PRECISION
    # Of the workstations, for all runs but dedicated ones; see ``harness.spec.owners.on``.
    owners: tuple[Owner, ...] = ()
    # A run that takes so many times as long as its jobs alone is stopped; None: its limit is a guess.
    timeout_factor: float | None = None

    written: Document | None = field(default=None, repr=False, compare=False)  # its file, for messages

    @property
    def of_settings(self) -> bool:
        """Whether its schedulers are settings, and its programs run as their users start them."""
        return any(scheduler.setting for scheduler in self.schedulers)

    @property
    def of_log(self) -> bool:
        """Whether its jobs are those of a part of a job log, with processes."""
        return any(cell.log for cell in self.cells)

    @property
    def log_file(self) -> Path | None:
        """The job log whose jobs have processes, as an absolute path; None without one."""
        if not (self.of_log and self.written):
            return None
        return log_place(self.written.data["log"]["file"], self.written.folder).absolute()

    @property
    def by_job(self) -> bool:
        """Whether its jobs have no processes: it is simulated job by job, and never run."""
        return any(cell.source for cell in self.cells)

    def through(self, cluster: str | None) -> Self:
        """The same with one more scheduler, that of the cluster with this name; None for no more."""
        if cluster is None:
            return self
        one_of("through", cluster, (THROUGH_SLURM.name,))
        return dataclasses.replace(self, schedulers=(*self.schedulers, THROUGH_SLURM))

    def check_processes(self) -> None:
        """Refuse an experiment whose jobs have no processes."""
        if self.by_job:
            raise self.located(without_processes())

    def located(self, error: InputError) -> InputError:
        """The error with the place in the file to which it refers."""
        return self.written.located(error) if self.written else error

    @property
    def measured_cells(self) -> tuple[Cell, ...]:
        """One cell for each set of jobs, number of processors and topology: real runs vary nothing else."""
        first: dict[tuple[tuple[JobGroup, ...], int, Topology], Cell] = {}
        for cell in self.cells:
            first.setdefault((cell.groups, cell.processors, cell.topology), cell)
        return tuple(first.values())

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything that one repeat depends on.

        It leaves out the name, the lease, the number of repeats and the precision, so that a longer
        series continues a shorter one. A number is the same however it is written (100, 100.0).
        It leaves out settings as well: which are measured is known only in time, and each run has its own.
        """
        content = {
            "seed": self.seed,
            "dedicated": self.dedicated,
            "owners": [dataclasses.asdict(owner) for owner in self.owners],
            "schedulers": [] if self.of_settings else [one.table for one in self.schedulers],
            "cells": [cell.identity for cell in self.cells],
        }
        text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def usable_processors() -> tuple[int, ...]:
    """Ids of the cores that this process may use, ascending."""
    return tuple(sorted(os.sched_getaffinity(0)))


def without_processes() -> InputError:
    """The error of an experiment that is to run, but whose jobs have no processes."""
    rule = "has no processes that could run or be looked at"
    return InputError("level", LEVEL, rule, "use lockstep simulate, or an experiment such as three-jobs")


def load(
    source: str | Mapping[str, Any],
    *,
    policies: Iterable[str] = (),
    settings: Iterable[str | overrides.Override] = (),
    quick: bool = False,
    seed: int | None = None,
    log: str | None = None,
    here: bool = False,
    real: bool = False,
) -> Experiment:
    """The experiment in a file, the built-in one of a name, or the one that a file's tables describe.

    ``policies``, if any, replace the file's schedulers, each with its keys: ``gang quantum_ms=20``.
    ``settings`` are overrides, also as ``key=value``, applied after those of ``quick``: the file's [quick]
    table, else at most QUICK_REPEATS and QUICK_SHARE of each dedicated_s and work_s. ``seed`` replaces the
    file's, and ``log`` the file of its job log. ``here``: this host must be able to run it, with its
    processors, mechanisms and scheduling classes; ``real``: some host.
    """
    written, settings, policies = experiment_source.read(source), tuple(settings), tuple(policies)
    changes = list(_quick(written)) if quick else []
    changes += overrides.schedulers(policies)
    changes += [overrides.parse(one) if isinstance(one, str) else one for one in settings]
    if seed is not None:
        changes.append(overrides.make("seed", seed, f"--seed {seed}"))
    if log is not None:
        if not {"level", "log"} & written.data.keys():
            raise InputError(
                "--log",
                log,
                f"is a job log, and {written.file} has no table [log] for it",
                "write lockstep simulate log --log FILE",
            )
        changes.append(overrides.make("log.file", log, f"--log {log}"))
    changed = written.overridden(changes)
    try:
        experiment = _of_jobs(changed) if "level" in changed.data else _of_processes(changed, here)
        if here or real:
            _check_run(experiment)
    except InputError as error:
        raise changed.located(error) from None
    experiment = dataclasses.replace(experiment, written=changed)
    if "quick" in changed.data and not quick:  # not in effect, but right as well
        load(source, policies=policies, settings=settings, quick=True, log=log)
    return experiment


def _quick(written: Document) -> Iterable[overrides.Override]:
    data = written.data
    table = data.get("quick")
    if isinstance(table, dict):
        for key, value in table.items():
            try:
                yield overrides.make(key, value, f"[quick] {key} = {value!r}")
            except InputError as error:
                raise written.located(error) from None
        return
    if "level" in data:
        yield from _quick_model(data)
        return
    repeats = data.get("repeats", 1 if "log" in data else REPEATS["max"])
    if isinstance(repeats, dict):
        repeats = repeats.get("max", REPEATS["max"])
    if isinstance(repeats, int) and not isinstance(repeats, bool):
        yield overrides.make("repeats", min(repeats, QUICK_REPEATS), "--quick")
    jobs, swept, log = data.get("jobs"), data.get("sweep"), data.get("log")
    axes = swept if isinstance(swept, dict) else {}
    minutes = log.get("minutes", LOG_MINUTES) if isinstance(log, dict) else None
    if _scales(minutes) and "log.minutes" not in axes:
        yield overrides.make("log.minutes", minutes * QUICK_SHARE, "--quick")
    for index, job in enumerate(jobs if isinstance(jobs, list) else ()):
        table = job if isinstance(job, dict) else {}
        program = table.get("program")
        program = program if isinstance(program, dict) else {}
        times = {"program.dedicated_s": program.get("dedicated_s"), "work_s": table.get("work_s")}
        for name, seconds in times.items():
            key = f"jobs[{index}].{name}"
            if _scales(seconds) and not any(overrides.make(axis, None, "").sets(key) for axis in axes):
                yield overrides.make(key, seconds * QUICK_SHARE, "--quick")


def _quick_model(data: Table) -> Iterable[overrides.Override]:
    usual = JobSource()
    width, most = (data.get(key, getattr(usual, key)) for key in ("half_width", "replications"))
    if "model" in data and _scales(width) and isinstance(most, int):
        yield overrides.make("half_width", QUICK_WIDTH * width, "--quick")
        yield overrides.make("replications", min(most, QUICK_REPLICATIONS), "--quick")


def _scales(seconds: Any) -> TypeGuard[float]:
    """Whether --quick can shorten it; the checks find other faults."""
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and abs(seconds) <= ALONE_S


def _of_jobs(document: Document) -> Experiment:
    """An experiment whose jobs have no processes."""
    data, folder = document.data, document.folder
    one_of("level", data["level"], (LEVEL,))
    known_keys(data, ("level", *KEYS, *job_source.KEYS, *job_source.FORMER), "")
    seed = data.get("seed", 1)
    within("seed", seed)
    as_table(data.get("quick", {}), "quick")
    swept = sweep.checked(data)
    cells = tuple(_cell_of_jobs(n, *point) for n, point in enumerate(sweep.points(data, swept)))
    schedulers = sweep.schedulers(data, swept, of_jobs)
    _check_hidden(data, swept, partial(_cell_of_jobs, 0, {}), of_jobs)
    present = owners.parse(data.get("owners", []), folder, schedulers)
    _check_runs(data, "sweep", len(cells) * len(schedulers))
    return Experiment(
        name=experiment_name(data, Path(document.file).stem),
        processors=max(cell.processors for cell in cells),
        repeats=1,
        seed=seed,
        schedulers=schedulers,
        cells=cells,
        owners=present,
    )


def _cell_of_jobs(index: int, settings: Table, data: Table) -> Cell:
    with sweep.blamed(settings):
        source = job_source.parse(data)
        machine = as_table(data.get("machine", {}), "machine")
        known_keys(machine, job_source.MACHINE_KEYS, "machine")
        with under("machine"):
            check_values(machine)
        return Cell(index, settings, (), machine, job_source.processors_of(data, source), source)


def _of_processes(document: Document, here: bool) -> Experiment:
    data, folder = document.data, document.folder
    known_keys(data, (*KEYS, *OF_PROCESSES), "")
    plain: dict[str, Any] = {"seed": 1, "lease_s": LEASE_S, "precision": PRECISION, "dedicated": SPINNING}
    plain |= {key: data[key] for key in plain if key in data}
    one_of("dedicated", plain["dedicated"], (SPINNING, TWO_PHASE))
    min_repeats, repeats = _repeats(data.get("repeats", 1 if "log" in data else REPEATS))
    for key in ("precision", "lease_s", "seed"):
        within(key, plain[key])
    as_table(data.get("quick", {}), "quick")
    submission.parse(data.get("slurm", {}))
    swept = sweep.checked(data)
    nodes = hosts.parse(data.get("hosts", []))
    if nodes and "processors" in swept:
        raise InputError(
            'sweep."processors"',
            swept["processors"],
            "the hosts have numbers of processors of their own",
            "write an experiment for each",
        )
    points = enumerate(sweep.points(data, swept))
    cells = tuple(_cell(index, *point, folder, here, nodes) for index, point in points)
    adapting = any(group.program.adapts for cell in cells for group in cell.groups)
    of_settings = settings.are_settings(data.get("schedulers"))
    read = settings.of_file if of_settings else reader(here=here, adapting=adapting)
    schedulers = sweep.schedulers(data, swept, read)
    if of_settings:
        _refuse_without_effect({**swept, **data})
    if nodes and any(scheduler.options.quota_ns for scheduler in schedulers):
        rule = "a CPU quota is of one host (quota_processors)"
        raise InputError("hosts", data["hosts"], rule, "leave one of the two out")
    _check_hidden(
        data,
        swept,
        lambda tables: _cell(0, {}, tables, folder, here=False, nodes=nodes),
        settings.of_file if of_settings else reader(),
    )
    present = owners.parse(data.get("owners", []), folder, schedulers)
    partitions = {group.submitter.partition for cell in cells for group in cell.groups}
    for number, scheduler in enumerate(schedulers):
        check_tiers(f"schedulers[{number}]", scheduler, partitions)
    for cell in cells:
        _check_sizes(cell, schedulers)
        owners.on(present, cell.processors)
        for number, group in enumerate(cell.groups):
            _check_group(group, number, cell, nodes, plain["dedicated"])
    _check_runs(data, "repeats", repeats * len(cells) * len(schedulers))
    return Experiment(
        name=experiment_name(data, Path(document.file).stem),
        processors=max(cell.processors for cell in cells),
        repeats=repeats,
        min_repeats=min_repeats,
        schedulers=schedulers,
        cells=cells,
        nodes=nodes,
        owners=present,
        timeout_factor=_timeout_factor(data, of_settings=of_settings),
        **plain,
    )


NOT_OF_SETTINGS = ("hosts", "processors", "machine", "dedicated", "owners")


def _refuse_without_effect(data: Table) -> None:
    """Refuse keys that say where and how programs run: with settings their commands do."""
    for key, value in data.items():
        first = re.split(r"[.\[]", key)[0]
        if first in NOT_OF_SETTINGS:
            raise InputError(
                key,
                value,
                "cannot be set for programs with settings, which run as their users start them",
                f"leave {first} out; the command may have it",
            )


def _timeout_factor(data: Table, *, of_settings: bool) -> float | None:
    if of_settings:
        within("--timeout-factor", factor := data.get("timeout_factor", TIMEOUT_FACTOR), "timeout_factor")
        return float(factor)
    if "timeout_factor" in data:
        raise InputError(
            "timeout_factor",
            data["timeout_factor"],
            "needs programs with settings: other runs end by dedicated_s",
            "leave it out",
        )
    return None


def _check_run(experiment: Experiment) -> None:
    """Refuse what only simulators can run."""
    experiment.check_processes()
    for cell in experiment.cells:
        with sweep.blamed(cell.settings):
            check_real(cell.machine)


def _check_runs(data: Table, key: str, runs: int) -> None:
    if runs > RUNS:
        raise InputError(
            key,
            data.get(key, REPEATS),
            f"makes {runs} runs with the sweep and the schedulers; at most {RUNS} are allowed",
            "reduce the repeats or the sweep",
        )


def _check_hidden(
    data: Table, swept: Mapping[str, list[Any]], cell: Callable[[Table], Cell], read: Reader
) -> None:
    """Check each value that the sweep replaces; whether it fits to others does not matter."""
    for key, tables_with_it in sweep.hidden(data, swept):
        try:
            cell(tables_with_it)
            sweep.schedulers(tables_with_it, {}, read)
        except InputError as error:
            if overrides.make(key, None, key).sets(error.key):
                raise


def _repeats(repeats: Any) -> tuple[int, int]:
    if not isinstance(repeats, dict):
        within("repeats", repeats)
        return repeats, repeats
    known_keys(repeats, tuple(REPEATS), "repeats")
    low, high = (repeats.get(key, default) for key, default in REPEATS.items())
    for key, value in (("min", low), ("max", high)):
        within("repeats", value, f"repeats.{key}")
    if low > high:
        raise InputError("repeats.min", low, f"must be at most max, {high}", f"write {high} or less")
    return low, high


def experiment_name(data: Table, default: str) -> str:
    name = data.get("name", default)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(
            "name", name, "must be text of at least one character", 'write name = "my-experiment"'
        )
    return name


def _processors(number_asked: Any, here: bool, nodes: Sequence[Node]) -> int:
    within("processors", number_asked)
    if nodes:
        # The hosts have their own numbers; ``processors`` of the file is for one host.
        return sum(node.processors for node in nodes)
    most = len(usable_processors())
    if here and number_asked > most:
        raise InputError(
            "processors",
            number_asked,
            f"must be at most {most}, which this process may use here",
            f"write {most} or less, or 0 for all of them",
        )
    return int(number_asked) or most


def _check_sizes(cell: Cell, schedulers: Sequence[Scheduler]) -> None:
    counts = [group.count for group in cell.groups]
    ranks = sum(group.count * group.program.width for group in cell.groups)
    if sum(counts) > JOBS or ranks > RANKS:
        raise InputError(
            "jobs",
            counts,
            f"must be at most {JOBS} with {RANKS} processes, and are {sum(counts)} with {ranks}",
            "give fewer or smaller jobs",
        )
    strict = [scheduler.name for scheduler in schedulers if not scheduler.policy.allows_oversubscription]
    for index, group in enumerate(cell.groups if strict else ()):
        what = "program.processes" if group.program.moldable else "command"
        with sweep.blamed(cell.settings):
            key, lost = f"jobs[{index}].{what}", len(cell.lost)
            fits(key, group.program.width, cell.processors, lost=lost, under=strict[0])


def _check_group(group: JobGroup, number: int, cell: Cell, nodes: Sequence[Node], dedicated: str) -> None:
    program, most = group.program, min((node.processors for node in nodes), default=RANKS)
    if program.kind == LockProgram.kind and program.processes > most:
        rule = f"the locks of a LOCK job need a page of one host, and one has {most} processors"
        key, remedy = f"jobs[{number}].program.processes", "give the job fewer processes"
        with sweep.blamed(cell.settings):
            raise InputError(key, program.processes, rule, remedy)
    if dedicated == TWO_PHASE and program.waits == "mpi" and program.width > cell.processors:
        what = "threads" if program.threads > 1 else "processes"
        raise InputError(
            "dedicated",
            TWO_PHASE,
            f"the command of jobs[{number}] has {program.width} {what} and waits as its MPI does",
            'give that job waits = "two-phase"',
        )


def _cell(index: int, point: Table, data: Table, folder: Path, here: bool, nodes: Sequence[Node]) -> Cell:
    with sweep.blamed(point):
        machine = machine_values(as_table(data.get("machine", {}), "machine"), folder)
        size = _processors(data.get("processors", 0), here, nodes)
        if "log" in data:
            groups, log, window = _of_log(data, folder, size)
            cell = Cell(index, point, groups, machine, size, log=log, window=window)
        else:
            cell = Cell(index, point, _groups(data, check=here and not nodes), machine, size)
        _ = cell.topology, cell.lost  # complain of what does not fit
        return cell


def _groups(data: Table, *, check: bool) -> tuple[JobGroup, ...]:
    """The jobs of the tables ``[[jobs]]``; ``check``: this host must have their programs."""
    jobs = tables(data.get("jobs", []), "jobs", 'program = { pattern = "NEWS", dedicated_s = 2.0 }')
    read = as_started if settings.are_settings(data.get("schedulers")) else job_group
    groups = tuple(read(job, f"jobs[{n}]") for n, job in enumerate(jobs))
    for n, group in enumerate(groups if check else ()):
        check_here(group, f"jobs[{n}]")
    return groups


def _of_log(
    data: Table, folder: Path, processors: int
) -> tuple[tuple[JobGroup, ...], ScaledWindow, "Window"]:
    """The jobs of the table ``[log]``, what became of them, and the table."""
    from harness.spec import log_window  # noqa: PLC0415 - NumPy is slow to load

    for other in ("jobs", "dedicated"):
        if other in data:
            raise InputError(other, data[other], "cannot be combined with [log]", "leave one of the two out")
    window = log_window.parse(as_table(data["log"], "log"))
    return *log_window.queue(window, folder, processors, data.get("seed", 1)), window


def _plain(value: Any) -> Any:
    """``value`` with whole floats as integers, so that the digest does not depend on the notation."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
