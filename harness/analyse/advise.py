"""Advice by simulation: the best policy and waiting rule for some jobs of a program on this host."""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from coordinator.workload import ParallelJob
from harness.analyse import results_document, summary
from harness.analyse.agreement import Errors
from harness.analyse.rows import Row
from harness.measure.calibrate import Constants
from harness.predict import recorded_programs
from harness.predict.pool import Progress
from harness.spec.experiment import Cell, Experiment
from harness.spec.jobs import JobGroup
from harness.spec.scheduler import scheduler_of
from harness.store.database import Store
from harness.store.payloads import reading
from harness.store.rebuild import experiment_of
from harness.store.records import SIMULATED, Calibration, RunRecord
from workloads.bounds import fits
from workloads.program import Program
from workloads.validation import InputError
from workloads.work import Command

CANDIDATES: tuple[Mapping[str, Any], ...] = (
    {"policy": "none"},
    {"policy": "implicit", "waiting": "immediate"},
    {"policy": "implicit", "waiting": "fixed", "spin_switches": 2},
    {"policy": "implicit", "waiting": "global-adaptive"},
    {"policy": "gang", "quantum_ms": 20},
    {"policy": "gang", "quantum_ms": 100},
    {"policy": "partitioned"},
)
"""The schedulers to choose from. ``batch`` is not among them: its slowdown is 1, but jobs wait."""

GRID_US = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
"""Granularities to simulate besides the requested one."""

LEAST_S = 0.3
LEAST_PHASES = 40
"""Least dedicated time and number of phases of a simulated job."""

MOST_S = 5.0  # about the longest time of a recorded program that is simulated
AS_GOOD = 0.02  # schedulers whose slowdowns differ by a smaller share count as equally good

REPEATS = 3


@dataclass(frozen=True)
class Range:
    """A range of granularities in which one scheduler is the best, or as good as the best."""

    from_us: float
    to_us: float
    scheduler: Mapping[str, Any]
    slowdown: float


def experiment(program: Program, jobs: int, processors: int) -> Experiment:
    fits("--processes", program.processes, processors)
    grid = sorted({*map(float, GRID_US), float(program.granularity_us)})
    cells = tuple(
        Cell(index, {"program.granularity_us": g_us}, (JobGroup(_at(program, g_us), jobs),), {}, processors)
        for index, g_us in enumerate(grid)
    )
    return Experiment("advise", processors, REPEATS, 1, tuple(map(scheduler_of, CANDIDATES)), cells)


def of_recording(path: Path, jobs: int, processors: int) -> Experiment:
    """The experiment to simulate: jobs of a recorded program, which wait by the schedulers' rules."""
    held = recorded_programs.program_in(path)
    fits("--recording", held.processes, processors)
    command = Command(held.command or (path.name,), len(held.ranks), waits="two-phase", recording=str(path))
    cell = Cell(0, {}, (JobGroup(command, jobs),), {}, processors)
    divides = 2 * held.processes <= processors  # else one would run after the other, as under batch
    candidates = [table for table in CANDIDATES if divides or table["policy"] != "partitioned"]
    return Experiment("advise", processors, REPEATS, 1, tuple(map(scheduler_of, candidates)), (cell,))


def compared(store: Store) -> list[Row]:
    comparable: list[Row] = []
    for digest, _ in store.experiments():
        records = store.runs(digest)
        commands = [record for record in records if _has_command(record)]
        if any(record.kind == SIMULATED for record in commands):
            with reading(store.path):
                experiment = experiment_of(records)
            rows = summary.rows(experiment, records)
            comparable += [row for row in rows if row.error is not None and _has_command(row)]
    return comparable


def _has_command(result: Row | RunRecord) -> bool:
    return any(isinstance(job.work, Command) for job in result.jobs)


def _at(program: Program, granularity_us: float) -> Program:
    dedicated_s = max(LEAST_S, LEAST_PHASES * granularity_us / 1e6)
    return replace(program, granularity_us=granularity_us, dedicated_s=dedicated_s, phases=None)


def predict(experiment: Experiment, constants: Constants, progress: Progress) -> list[Row]:
    from harness.predict import process_level  # noqa: PLC0415 - numba is slow to load

    recorded = replace(recorded_programs.of(experiment, (), Path()), max_s=MOST_S)
    records = process_level.predict(experiment, constants, progress, recorded=recorded)
    return summary.rows(experiment, records, cells=experiment.cells)


def slowdown(row: Row) -> float:
    """The simulated workload slowdown of a row; infinite if the simulation did not finish."""
    median = row.median("simulated")
    return float("inf") if median is None else median


def ranges(rows: Sequence[Row]) -> list[Range]:
    """In ascending order, ranges of granularities in which one scheduler is within AS_GOOD of the best."""
    blocks: list[tuple[list[tuple[float, dict[int, Row]]], set[int]]] = []  # rows by candidate; good ones
    for g_us, group in itertools.groupby(rows, key=lambda row: row.program["granularity_us"]):
        at = dict(enumerate(group))
        least = min(map(slowdown, at.values()))
        good = {name for name, row in at.items() if slowdown(row) <= least * (1 + AS_GOOD)}
        points, before = blocks[-1] if blocks else ([], set())
        if both := good & before:
            blocks[-1] = [*points, (float(g_us), at)], both
        else:
            blocks.append(([(float(g_us), at)], good))
    lines = []
    for points, good in blocks:
        (from_us, first), (to_us, _) = points[0], points[-1]
        means = {name: statistics.fmean(slowdown(at[name]) for _, at in points) for name in good}
        best = min(means, key=lambda name: (means[name], name))
        lines.append(Range(from_us, to_us, first[best].scheduler, means[best]))
    return lines


def like(results: Path, jobs: Sequence[ParallelJob]) -> tuple[Program, int]:
    program = jobs[0].program
    if not isinstance(program, Program) or any(job.program != program for job in jobs):
        raise InputError(
            "--like",
            str(results),
            "its jobs do not all run the same synthetic program",
            "describe one program with --pattern, --granularity-us, ...",
        )
    return program, len(jobs)


@dataclass(frozen=True)
class Advice:
    """Simulated candidates for some jobs of a program, the best first."""

    program: Program | Command
    rows: list[Row]  # the candidates
    ranges: list[Range]  # of granularities in which one candidate is best; none for a recorded program
    processors: int  # how many the jobs share
    used: Constants  # the constants of the simulations
    # The calibration from which they are, empty for the 1996 machine; ``age`` in words.
    calibrated: Sequence[Calibration]
    age: str
    warnings: list[str]  # weaknesses of calibration and recording
    # What simulations of recorded programs have missed: of all schedulers, and of each.
    overall: Errors | None
    errors: dict[str, Errors]

    def document(self) -> dict[str, Any]:
        return {
            "schema": results_document.SCHEMA,
            "program": asdict(self.program),
            "jobs": len(self.rows[0].jobs),
            "processors": self.processors,
            "constants": self.used.of_run("signals").recorded(),
            "calibrated_at": max((one.recorded_at for one in self.calibrated), default=None),
            "warnings": self.warnings,
            "rows": [
                {"scheduler": row.scheduler, **results_document.summary_document(row.simulated)}
                | {"errors": asdict(errors) if (errors := self.errors.get(row.name)) else None}
                for row in self.rows
                if row.simulated
            ],
            "ranges": [asdict(one) for one in self.ranges],
            "errors": self.overall and asdict(self.overall),
        }
