"""Schedules of the same jobs under several policies: their rows, by size, and policy against policy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from coordinator.topology import Runs
from harness.analyse import comparison
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import ScheduleRow
from harness.analyse.statistics import estimate
from harness.simulator.jobs.metrics import bounded_slowdowns, measure
from harness.simulator.jobs.model import NEVER_NS, WHOLE_NS, Floats, Integers, JobLevelOutcome, rigid
from harness.simulator.jobs.swf import COLUMNS
from harness.store.records import RunRecord
from workloads.validation import InputError

BATCHES, LEAST_BATCHES, LEAST_IN_A_BATCH = 20, 5, 10
"""Jobs in a row are averaged in batches, whose means count as independent."""

SOONER_S = 0.5  # waits that differ by less count as the same: traces have whole seconds
SAME_S = 1e-3  # mean waits that differ by less are the same: tables have ten digits


def stem(row: ScheduleRow) -> str:
    """How the names of the files begin that hold a schedule of a trace."""
    return f"{row.schedule.source['place']:02d}-{row.scheduler['policy']}"


def results(records: Sequence[RunRecord], folder: Path) -> ResultsDocument:
    """The results of one simulation of jobs; tables in ``folder`` say when which job of a trace ran."""
    rows = sorted(map(ScheduleRow.of, records), key=lambda row: int(row.schedule.source.get("place", 0)))
    found, doubts = zip(*(_with_outcome(row, folder) for row in rows), strict=True)
    total = rows[0].schedule.source.get("schedulers", len(rows))
    if len(rows) < total:
        rule = f"only {len(rows)} of {total} schedulers are there: the simulation was interrupted"
        doubts = rule, *doubts
    first = records[0]
    known = [doubt for doubt in doubts if doubt]
    return ResultsDocument(first.experiment, first.digest, first.session, {}, found, None, (), known)


def _with_outcome(row: ScheduleRow, folder: Path) -> tuple[ScheduleRow, str]:
    """The row with its jobs by the table in ``folder``, and why they are unknown; empty if none are expected.

    A table counts only if its jobs have the recorded mean wait: a later simulation may have replaced it.
    """
    schedule = row.schedule
    source = schedule.source
    if "trace" not in source or schedule.saturated or "place" not in source:
        return row, ""
    path = folder / f"{stem(row)}.csv"
    try:
        outcome = read_jobs(path, schedule.processors)
        wait_s = measure(outcome, warm_up=source["warm_up"], tau_s=source["tau_s"]).wait_s
    except FileNotFoundError:
        return row, f"the jobs under {row.name} are unknown: {path} is not there"
    except (OSError, ValueError, OverflowError, InputError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        return row, f"the jobs under {row.name} are unknown: {path}: {why}"
    recorded_s = schedule.metrics.get("wait_s")
    if recorded_s is None or not math.isclose(wait_s, recorded_s, rel_tol=1e-6, abs_tol=SAME_S):
        return row, f"{path} is of another simulation than the one that is shown"
    return replace(row, schedule=replace(schedule, outcome=outcome)), ""


@dataclass(frozen=True)
class SizeClass:
    """The jobs that ask for ``least`` to ``most`` processors: how many, mean wait and bounded slowdown."""

    least: int
    most: int
    jobs: int
    wait_s: float
    bounded_slowdown: float

    @property
    def name(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}-{self.most}"


@dataclass(frozen=True)
class PolicyComparison:
    """A policy against another one on the same jobs."""

    before: str  # the one that it is compared with, in words
    after: str  # the policy, in words
    sooner: float  # share of the jobs that start at least SOONER_S sooner
    later: float  # share that start at least so much later
    wait_s: float  # mean wait of the jobs, minus that before
    ratio: float  # geometric mean of the ratios of the jobs' bounded slowdowns
    # Its 95 % interval by the method of batch means; None for too few jobs.
    interval: tuple[float, float] | None
    verdict: str  # as in ``harness.analyse.comparison``


def timed(rows: Sequence[ScheduleRow]) -> list[tuple[str, JobLevelOutcome]]:
    """The schedulers under which it is known when which job ran."""
    return [(row.name, row.schedule.outcome) for row in rows if row.schedule.outcome is not None]


def by_size(outcome: JobLevelOutcome, warm_up: int, tau_s: float) -> list[SizeClass]:
    """The classes 1, 2, 3-4, 5-8, ... that have jobs which ended; the first ``warm_up`` do not count."""
    counted = outcome.finished & (np.arange(len(outcome.jobs)) >= warm_up)
    asked: Integers = outcome.jobs.most
    class_of = np.ceil(np.log2(np.maximum(asked, 1))).astype(int)
    slowdowns = bounded_slowdowns(outcome, tau_s)
    found = []
    for number in sorted(set(class_of[counted].tolist())):
        here = counted & (class_of == number)
        least, most = (2 ** (number - 1) + 1 if number else 1), 2**number
        wait_s, slowdown = float(outcome.wait_s[here].mean()), float(slowdowns[here].mean())
        found.append(SizeClass(least, most, int(here.sum()), wait_s, slowdown))
    return found


def against_first(rows: Sequence[ScheduleRow], warm_up: int, tau_s: float) -> list[PolicyComparison]:
    """Every schedule of a trace against the first one; empty for random jobs."""
    known = timed(rows)
    return [_compared(*known[0], *other, warm_up, tau_s) for other in known[1:]]


def _compared(
    before: str, first: JobLevelOutcome, after: str, second: JobLevelOutcome, warm_up: int, tau_s: float
) -> PolicyComparison:
    counted = first.finished & second.finished & (np.arange(len(first.jobs)) >= warm_up)
    wait_s = (second.wait_s - first.wait_s)[counted] if counted.any() else np.zeros(1)
    slowdowns = [bounded_slowdowns(outcome, tau_s)[counted] for outcome in (first, second)]
    logarithms: Floats = np.log(slowdowns[1]) - np.log(slowdowns[0]) if counted.any() else np.zeros(1)
    interval = _batch_means(logarithms)
    return PolicyComparison(
        before=before,
        after=after,
        sooner=float((wait_s <= -SOONER_S).mean()),
        later=float((wait_s >= SOONER_S).mean()),
        wait_s=float(wait_s.mean()),
        ratio=float(np.exp(logarithms.mean())),
        interval=interval,
        verdict=comparison.verdict(interval),
    )


def _batch_means(logarithms: Floats) -> tuple[float, float] | None:
    """The interval of the geometric mean by batch means; None for too few jobs.

    Waits of jobs that follow each other depend on each other, means of long batches hardly.
    Source: Law and Kelton 2000, "Simulation Modeling and Analysis", section 9.5.3.
    """
    batches = min(BATCHES, len(logarithms) // LEAST_IN_A_BATCH)
    if batches < LEAST_BATCHES:
        return None
    means = [float(np.exp(part.mean())) for part in np.array_split(logarithms, batches)]
    return estimate(means).ci95


def read_jobs(path: Path, processors: int) -> JobLevelOutcome:
    """The schedule that ``swf.write_jobs`` wrote; a job that did not end has its estimated time.

    OSError for a file that cannot be read, ValueError for no such table.
    """
    import pandas  # noqa: PLC0415 - takes longer to import than all the rest together

    texts = {"allocated_resources": str, "workload_name": str}
    found = pandas.read_csv(path, dtype=texts, keep_default_na=False, index_col=False)
    if tuple(found.columns) != COLUMNS or not len(found):
        raise ValueError("it has other columns, or no jobs")

    def numbers(name: str) -> Floats:
        column: Floats = found[name].to_numpy(dtype=float)
        return column

    size = numbers("requested_number_of_resources")
    if not (size >= 1).all() or not (size <= processors).all():
        raise ValueError("its jobs ask for processors that there are not")
    submit_ns, start_ns, finish_ns = (
        _nanoseconds(numbers(f"{name}_time")) for name in ("submission", "starting", "finish")
    )
    texts_of_places = enumerate(found["allocated_resources"])
    places = {job: _places(str(text), processors) for job, text in texts_of_places if text}
    stretch = numbers("stretch")
    known = stretch > 0
    spent_s = numbers("turnaround_time")
    alone_s = np.where(known, spent_s / np.where(known, stretch, 1.0), numbers("requested_time"))
    jobs = rigid(submit_ns, size.astype(np.int64), _nanoseconds(alone_s))
    return JobLevelOutcome(
        jobs, processors, start_ns, finish_ns, size, np.full(len(found), -1), places=places
    )


def _nanoseconds(times_s: Floats) -> Integers:
    """Times in nanoseconds; NEVER_NS for those that are unknown."""
    known = (times_s >= 0) & (times_s < NEVER_NS / WHOLE_NS)
    return np.where(known, np.rint(np.where(known, times_s, 0.0) * WHOLE_NS), NEVER_NS).astype(np.int64)


def _places(text: str, processors: int) -> Runs:
    """The processors in ranges such as ``0-3 8``; ValueError for anything else, and for others."""
    parts = []
    for part in text.split():
        first, _, last = part.partition("-")
        parts.append((int(first), int(last or first)))
        if not 0 <= parts[-1][0] <= parts[-1][1] < processors:
            raise ValueError(f"there are no processors {part[:20]}")
    return parts
