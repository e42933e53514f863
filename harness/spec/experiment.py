"""The experiment: which jobs run under which schedulers, how often, over which sweep.

:func:`load` turns an experiment file into frozen, validated values. Every error names the
file, the line or override, the key, the value, the rule and the remedy.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

from coordinator.workload import LEASE_S, Node, ParallelJob
from harness.spec import experiment_source, hosts, overrides, submission
from harness.spec.experiment_source import Document
from harness.spec.jobs import JobGroup, job_group
from harness.spec.machine import machine_values
from harness.spec.scheduler import Scheduler, schedulers_of
from harness.spec.table_checks import as_table, field_names, known_keys, tables
from workloads.bounds import ALONE_S, CELLS, JOBS, RANKS, RUNS, fits, within
from workloads.machine import KEYS as MACHINE_KEYS
from workloads.other import Command
from workloads.program import Program
from workloads.validation import LONGEST, InputError, one_of

SPINNING, TWO_PHASE = "spinning", "two-phase"
"""How jobs that are larger than the machine wait when they run alone."""

QUICK_REPEATS = 2
QUICK_SHARE = 0.25
"""The most repeats under --quick without a [quick] table, and the share of dedicated_s and work_s."""


@dataclass(frozen=True)
class Cell:
    """One point of the sweep: its settings, its jobs and its values of the machine."""

    index: int
    settings: Mapping[str, Any]
    groups: tuple[JobGroup, ...]
    machine: Mapping[str, Any]

    def jobs(self) -> tuple[ParallelJob, ...]:
        """The jobs, numbered from 0 in file order."""
        alike = (group for group in self.groups for _ in range(group.count))
        return tuple(ParallelJob(n, group.program, group.arrival_s) for n, group in enumerate(alike))


@dataclass(frozen=True)
class Experiment:
    """A validated experiment.

    Attributes:
        name: as in the file, else the file's name.
        processors: how many processors it uses.
        repeats: how often everything is measured.
        seed: seed of all compute times and of the order of the runs.
        schedulers: in file order, no two alike.
        cells: the points of the sweep, the last key varying fastest; one cell without a sweep.
        nodes: the hosts to run on; empty for this host.
        lease_s: how long the agents go on without the driver.
        dedicated: SPINNING, or TWO_PHASE: jobs with more processes than there are processors also run
            alone with two-phase waits, and slowdowns refer to the times of these runs.
    """

    name: str
    processors: int
    repeats: int
    seed: int
    schedulers: tuple[Scheduler, ...]
    cells: tuple[Cell, ...] = field(repr=False)
    nodes: tuple[Node, ...] = ()
    lease_s: float = LEASE_S
    dedicated: str = SPINNING

    @property
    def measured_cells(self) -> tuple[Cell, ...]:
        """One cell for each different set of jobs: real runs cannot vary the machine."""
        first: dict[tuple[JobGroup, ...], Cell] = {}
        for cell in self.cells:
            first.setdefault(cell.groups, cell)
        return tuple(first.values())

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything that one repeat depends on.

        It leaves out the name, the lease and the number of repeats, so that a longer series
        continues a shorter one. A number is the same however it is written (100, 100.0).
        """
        content: dict[str, Any] = {
            "processors": self.processors,
            "seed": self.seed,
            "schedulers": [scheduler.identity for scheduler in self.schedulers],
            "cells": [
                [[dataclasses.asdict(group) for group in cell.groups], cell.machine] for cell in self.cells
            ],
        }
        if self.dedicated != SPINNING:  # digests of older experiments lack it
            content["dedicated"] = self.dedicated
        text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def usable_processors() -> tuple[int, ...]:
    """Ids of the cores that this process may use, ascending."""
    return tuple(sorted(os.sched_getaffinity(0)))


def load(
    source: str,
    *,
    settings: Iterable[str] = (),
    quick: bool = False,
    seed: int | None = None,
    here: bool = False,
) -> Experiment:
    """The experiment in the file at path ``source``, or the built-in one of that name.

    Args:
        source: path or name.
        settings: ``key=value`` overrides, applied in order after those of ``quick``.
        quick: apply the file's [quick] table; without one, measure at most
            QUICK_REPEATS times with QUICK_SHARE of each dedicated_s and work_s.
        seed: replaces the file's.
        here: whether this host must be able to run it, with its processors, mechanisms and
            scheduling classes.

    Raises:
        InputError: for any fault in it.
    """
    written = experiment_source.read(source)
    changes = list(_quick(written)) if quick else []
    changes += [overrides.parse(text) for text in settings]
    if seed is not None:
        changes.append(overrides.make("seed", seed, f"--seed {seed}"))
    changed = written.overridden(changes)
    try:
        return _experiment(changed.data, Path(written.file), here)
    except InputError as error:
        raise changed.located(error) from None


def _quick(written: Document) -> Iterable[overrides.Override]:
    data = written.data
    table = data.get("quick")
    if isinstance(table, dict):
        for key, value in table.items():
            yield overrides.make(key, value, f"[quick] {key} = {value!r}")
        return
    repeats = data.get("repeats", 5)
    if isinstance(repeats, int) and not isinstance(repeats, bool):
        yield overrides.make("repeats", min(repeats, QUICK_REPEATS), "--quick")
    jobs, sweep = data.get("jobs"), data.get("sweep")
    swept = isinstance(sweep, dict) and "program.dedicated_s" in sweep
    for index, job in enumerate(jobs if isinstance(jobs, list) else ()):
        program = job.get("program") if isinstance(job, dict) else None
        dedicated_s = program.get("dedicated_s") if isinstance(program, dict) else None
        if _scales(dedicated_s) and not swept:
            key = f"jobs[{index}].program.dedicated_s"
            yield overrides.make(key, dedicated_s * QUICK_SHARE, "--quick")
        work_s = job.get("work_s") if isinstance(job, dict) else None
        if _scales(work_s):
            yield overrides.make(f"jobs[{index}].work_s", work_s * QUICK_SHARE, "--quick")


def _scales(seconds: Any) -> TypeGuard[float]:
    """Whether --quick can shorten it; the checks find other faults."""
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and abs(seconds) <= ALONE_S


def _experiment(data: Mapping[str, Any], file: Path, here: bool) -> Experiment:
    known = ("name", "processors", "hosts", "lease_s", "repeats", "seed", "machine", "jobs", "schedulers")
    known_keys(data, (*known, "dedicated", "sweep", "quick", "slurm"), "")
    one_of("dedicated", data.get("dedicated", SPINNING), (SPINNING, TWO_PHASE))
    within("repeats", data.get("repeats", 5))
    within("lease_s", data.get("lease_s", LEASE_S))
    within("seed", data.get("seed", 1))
    as_table(data.get("quick", {}), "quick")
    submission.parse(data.get("slurm", {}))
    cells = _cells(data, file.parent)
    nodes = hosts.parse(data.get("hosts", []))
    processors = _processors(data.get("processors", 0), here, nodes)
    schedulers = schedulers_of(data.get("schedulers", []), here)
    for cell in cells:
        _check_sizes(cell, processors, schedulers)
        if data.get("dedicated") == TWO_PHASE:
            _check_waits(cell, processors)
    runs = data.get("repeats", 5) * len(cells) * len(schedulers)
    if runs > RUNS:
        rule = f"makes {runs} runs with the sweep and the schedulers; at most {RUNS} are allowed"
        raise InputError("repeats", data.get("repeats", 5), rule, "reduce the repeats or the sweep")
    return Experiment(
        name=experiment_name(data, file.stem),
        processors=processors,
        repeats=data.get("repeats", 5),
        seed=data.get("seed", 1),
        schedulers=schedulers,
        cells=cells,
        nodes=nodes,
        lease_s=data.get("lease_s", LEASE_S),
        dedicated=data.get("dedicated", SPINNING),
    )


def experiment_name(data: Mapping[str, Any], default: str) -> str:
    """The name in a file, else ``default``.

    Raises:
        InputError: for a name that cannot be shown.
    """
    name = data.get("name", default)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        rule = "must be text of at least one character"
        raise InputError("name", name, rule, 'write name = "my-experiment"')
    return name


def _processors(wanted: Any, here: bool, nodes: Sequence[Node]) -> int:
    within("processors", wanted)
    if nodes:
        # The hosts have their own numbers; ``processors`` of the file is for one host.
        return sum(node.processors for node in nodes)
    most = len(usable_processors())
    if here and wanted > most:
        rule = f"this process may use {most} here"
        raise InputError("processors", wanted, rule, "give fewer, or 0 for all of them")
    return int(wanted) or most


def _check_sizes(cell: Cell, processors: int, schedulers: Sequence[Scheduler]) -> None:
    counts = [group.count for group in cell.groups]
    ranks = sum(group.count * group.program.processes for group in cell.groups)
    if sum(counts) > JOBS or ranks > RANKS:
        rule = f"make {sum(counts)} jobs with {ranks} processes; at most {JOBS} and {RANKS} are allowed"
        raise InputError("jobs", counts, rule, "give fewer or smaller jobs")
    strict = [scheduler.name for scheduler in schedulers if not scheduler.policy.folds]
    for index, group in enumerate(cell.groups if strict else ()):
        what = "program.processes" if isinstance(group.program, Program) else "command"
        try:
            fits(f"jobs[{index}].{what}", group.program.processes, processors, under=strict[0])
        except InputError as error:
            raise _swept(error, cell.settings) from None


def _check_waits(cell: Cell, processors: int) -> None:
    for index, group in enumerate(cell.groups):
        program = group.program
        if isinstance(program, Command) and program.waits == "mpi" and program.processes > processors:
            rule = f"the command of jobs[{index}] has {program.processes} processes and waits as its MPI does"
            raise InputError("dedicated", TWO_PHASE, rule, 'give that job waits = "two-phase"')


def _cells(data: Mapping[str, Any], folder: Path) -> tuple[Cell, ...]:
    jobs = tables(data.get("jobs", []), "jobs", 'program = { pattern = "NEWS", dedicated_s = 2.0 }')
    machine = as_table(data.get("machine", {}), "machine")
    sweep = as_table(data.get("sweep", {}), "sweep")
    size = 1
    for key, values in sweep.items():
        _check_axis(key, values)
        size *= len(values)
        if size > CELLS:
            rule = f"makes more than {CELLS} points"
            raise InputError(f'sweep."{key}"', values, rule, "give fewer values, or several files")
    points = [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]
    return tuple(_cell(index, settings, jobs, machine, folder) for index, settings in enumerate(points))


def _check_axis(key: str, values: Any) -> None:
    where = f'sweep."{key}"'
    fields = {"program": field_names(Program), "machine": MACHINE_KEYS}
    known = [f"{room}.{name}" for room, names in fields.items() for name in names]
    if key not in known:
        close = difflib.get_close_matches(key[:LONGEST], known, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else 'write "program.KEY" or "machine.KEY", in quotes'
        raise InputError(where, values, "a sweep varies a key of the program or the machine", remedy)
    if not isinstance(values, list) or not values:
        raise InputError(where, values, "must be a list of at least one value", "write [a, b, c]")
    if len(values) > CELLS:
        raise InputError(where, values, f"must be a list of at most {CELLS} values", "give fewer")
    for index, value in enumerate(values):
        if value in values[:index]:
            raise InputError(f"{where}[{index}]", value, "is twice in the sweep", "remove one")


def _cell(
    index: int, settings: Mapping[str, Any], jobs: Sequence[Any], machine: Mapping[str, Any], folder: Path
) -> Cell:
    swept: dict[str, dict[str, Any]] = {"program": {}, "machine": {}}
    for key, value in settings.items():
        room, name = key.split(".", 1)
        swept[room][name] = value
    try:
        groups = tuple(job_group(job, f"jobs[{n}]", swept["program"]) for n, job in enumerate(jobs))
        return Cell(index, settings, groups, machine_values({**machine, **swept["machine"]}, folder))
    except InputError as error:
        raise _swept(error, settings) from None


def _swept(error: InputError, settings: Mapping[str, Any]) -> InputError:
    """The error, under the sweep's key if its value comes from the sweep."""
    name = re.sub(r"^jobs\[\d+\]\.", "", error.key)
    if name not in settings:
        return error
    return InputError(f'sweep."{name}"', error.value, error.rule, error.remedy)


def _plain(value: Any) -> Any:
    """``value`` with whole floats as integers, so that the digest does not depend on the notation."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
