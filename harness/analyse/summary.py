"""From records to rows: summaries over all repeats."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Self, TypeVar

from coordinator.workload import ParallelJob
from harness.analyse import bounds, breakdown
from harness.analyse.breakdown import Breakdown
from harness.analyse.rows import (
    AgainstSpinning,
    JobRow,
    Percentiles,
    Responses,
    Row,
    SectionRate,
    Slowdowns,
    StartUp,
    Summary,
    Switches,
    WaitMeans,
    Withheld,
)
from harness.analyse.statistics import Estimate, bounded_slowdown, estimate
from harness.measure.disturbance import least_disturbed, lost, overloaded, standing, too_much
from harness.spec.experiment import Cell, Experiment
from harness.spec.jobs import described
from harness.spec.table_checks import Table
from harness.store.records import (
    BY_JOB,
    DEDICATED,
    FURTHER,
    POLICY,
    SIMULATED,
    SIMULATIONS,
    WITH_SCHEDULES,
    WITH_SETTING,
    JobRecord,
    RunRecord,
    Schedule,
    alone_two_phase,
    between_nodes_ns,
    quantile,
)
from workloads.locks.lock_program import LockProgram
from workloads.machine import TAU_OF_PROGRAMS_S
from workloads.record import WaitCounts

Known = TypeVar("Known")

TAU_S = TAU_OF_PROGRAMS_S

RUNS = (DEDICATED, POLICY)
"""Kinds of runs of a job alone, and under a scheduler, as SIMULATIONS are."""


@dataclass(frozen=True)
class _Repeat:
    """A successful run under a policy, with the dedicated times of the same repeat."""

    run: RunRecord
    makespan_ns: int
    responses_ns: tuple[int, ...]
    dedicated_ns: tuple[int, ...]
    spinning_ns: tuple[int, ...] = ()  # of spinning jobs, if those are of two-phase waits and all are known
    min_ns: float | None = None  # no schedule takes less time, by the dedicated runs; None if unknown

    @property
    def workload_slowdown(self) -> float:
        return self.makespan_ns / sum(self.dedicated_ns)

    @property
    def slowdowns(self) -> list[float]:
        pairs = zip(self.responses_ns, self.dedicated_ns, strict=True)
        return [response / alone for response, alone in pairs]

    def bounded(self, tau_s: float) -> list[float]:
        pairs = zip(self.responses_ns, self.dedicated_ns, strict=True)
        return [bounded_slowdown(response / 1e9, alone / 1e9, tau_s) for response, alone in pairs]


def rows(
    experiment: Experiment, records: Sequence[RunRecord], tau_s: float = TAU_S, cells: Sequence[Cell] = ()
) -> list[Row]:
    """A row for each cell (by default the measured ones) and scheduler, in order (docs/reference).

    Of several records of the same run, the last successful one counts that other programs did not disturb.
    Measured values that cannot be right are withheld. Jobs without processes have the rows with a record.
    """
    if any(record.schedule for record in records):
        return of_schedules(records)
    of_cell: dict[int, list[RunRecord]] = defaultdict(list)
    for record in records:
        of_cell[record.cell].append(record)
    reason = _overloaded(records)
    only_simulated = {*SIMULATIONS}.issuperset(record.kind for record in records)
    nothing = None if only_simulated else Summary(estimate([]))  # the measured side of a row without runs
    return [
        _row(cell, scheduler.table, of_cell[cell.index], tau_s, reason, nothing)
        for cell in cells or experiment.measured_cells
        for scheduler in experiment.schedulers
    ]


def of_schedules(records: Sequence[RunRecord]) -> list[Row]:
    """A row for each cell and scheduler of a log or a model, in the order of the experiment.

    Jobs without processes have a simulated side only. Of jobs with processes each side has the repeats of
    one kind of run: measured, simulated process by process, and simulated job by job.
    """
    groups: dict[tuple[int, str], dict[str, list[RunRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.kind in WITH_SCHEDULES:
            groups[record.cell, json.dumps(record.scheduler, sort_keys=True)][record.kind].append(record)
    overload, by_process = _overloaded(records), any(record.jobs for record in records)
    rows = []
    for kinds in groups.values():
        runs = {kind: standing(_scheduled(ours)) for kind, ours in kinds.items()}
        schedules = (one.schedule for ours in runs.values() for one in ours if one.schedule)
        schedule = next(schedules, None)  # none if all have failed
        first = next(iter(kinds.values()))[0]
        sides = {kind: _of_repeats(ours, kinds[kind]) for kind, ours in runs.items()}
        reason = overload or (TAKEN if too_much(kinds[POLICY]) else "")
        measured, by_job = sides.get(POLICY), sides.get(BY_JOB)
        row = Row(
            jobs=(),
            settings=dict(first.settings),
            scheduler=first.scheduler,
            measured=Summary(estimate([]), failures=measured.failures) if measured and reason else measured,
            simulated=sides.get(SIMULATED) if by_process else by_job,
            by_job=by_job if by_process else None,
            withheld=Withheld(reason, measured) if measured and reason else None,
        )
        rows.append((schedule.source.get("place", 0) if schedule else math.inf, row))
    return [row for _, row in sorted(rows, key=itemgetter(0))]


def _scheduled(records: Iterable[RunRecord]) -> list[RunRecord]:
    """The run of each repeat that has a schedule: of several the last undisturbed one, or the best."""
    return list(least_disturbed(one for one in records if one.schedule and one.succeeded).values())


def _of_repeats(runs: Sequence[RunRecord], made: Sequence[RunRecord]) -> Summary:
    """The repeats of a log; the schedule is the median one's. Of ``made``, all runs, some may have failed."""
    schedules = {one.repeat: one.schedule for one in runs if one.schedule}
    if not schedules:
        return Summary(estimate([]), failures=sum(not one.succeeded for one in made))
    ascending = sorted(schedules.values(), key=lambda one: one.metrics.get("bounded_slowdown") or 0.0)
    summary, failures = of_schedule(ascending[len(ascending) // 2]), sum(not one.succeeded for one in made)
    if len(schedules) == 1:
        return replace(summary, failures=failures)
    means = {repeat: one.metrics.get("bounded_slowdown") for repeat, one in schedules.items()}
    by_repeat = {repeat: mean for repeat, mean in means.items() if mean is not None}
    estimated = estimate([*by_repeat.values()])
    return replace(summary, workload_slowdown=estimated, by_repeat=by_repeat, failures=failures)


def of_schedule(schedule: Schedule) -> Summary:
    """The means over jobs, of which the slowdown is the bounded one."""
    mean, half = (of.get("bounded_slowdown") for of in (schedule.metrics, schedule.half_width))
    interval = None if mean is None or half is None else (mean - half, mean + half)
    slowdown = Estimate(mean, interval, schedule.replications)
    return Summary(slowdown, by_repeat=dict(enumerate(schedule.slowdowns)), schedule=schedule)


def slowdown(cell: Cell, table: Table, records: Sequence[RunRecord], *, simulated: bool = False) -> Estimate:
    """The workload slowdown of a scheduler; ``records`` may be of other cells and kinds, too.

    Of a log, it is the mean of the bounded slowdowns.
    """
    if cell.log:
        kind = SIMULATED if simulated else POLICY
        made = [one for one in records if (one.cell, one.kind, one.scheduler) == (cell.index, kind, table)]
        runs = standing(_scheduled(made))
        hidden = not simulated and (_overloaded(records) or too_much(made))
        return _of_repeats(runs, made).workload_slowdown if runs and not hidden else estimate([])
    side = _Side.of(cell, table, records, SIMULATIONS if simulated else RUNS)
    hidden = not simulated and (_overloaded(records) or side.withheld)
    return estimate([] if hidden else [one.workload_slowdown for one in side.repeats])


def withheld(cell: Cell, table: Table, records: Sequence[RunRecord]) -> str:
    """Why the measured slowdowns of a scheduler cannot be right; empty if they can."""
    return _overloaded(records) or _Side.of(cell, table, records, RUNS).withheld


@dataclass(frozen=True)
class _Side:
    """The counted runs of one kind under a scheduler, those of jobs alone, and the repeats made of both."""

    ours: Sequence[RunRecord]
    alone: Sequence[RunRecord]
    repeats: Sequence[_Repeat]

    @classmethod
    def of(cls, cell: Cell, table: Table, records: Iterable[RunRecord], kinds: Sequence[str]) -> Self:
        """Those among ``records``, which may be of other cells and kinds, too.

        The runs of one unmodified job, alone, are also those under that setting. A further simulation counts
        if it has the constants of one that imitates a run.
        """
        jobs = cell.jobs()
        here = [one for one in records if one.cell == cell.index]
        wanted = kinds if "setting" in table and len(jobs) == 1 else kinds[1:]
        ours = [one for one in here if one.kind in wanted and one.scheduler == table]
        constants = {one.repeat: one.constants for one in ours if one.repeat < FURTHER}.values()
        counted = [one for one in ours if one.repeat < FURTHER or one.constants in constants]
        alone = [one for one in here if one.kind == kinds[0]]
        return cls(counted, alone, _repeats(jobs, alone, counted))

    @property
    def withheld(self) -> str:
        """Why the measured slowdowns cannot be right; empty if they can."""
        if too_much(self.ours) or too_much(self.alone):
            return TAKEN
        ratios = [one.makespan_ns / one.min_ns for one in self.repeats if one.min_ns]
        if ratios and statistics.median(ratios) < 1 - BELOW:
            return "its dedicated runs were disturbed: no schedule can be as fast as it seems"
        return ""

    def summary(self, tau_s: float) -> Summary | None:
        """The summary of the runs under the scheduler; None without any."""
        if not self.ours:
            return None
        failed = [one for one in self.ours if one.makespan_ns is None and one.exceeded is None]
        return _summary(self.repeats, tau_s, len(failed))


def _row(
    cell: Cell,
    table: dict[str, Any],
    records: Sequence[RunRecord],
    tau_s: float,
    why: str,
    nothing: Summary | None,
) -> Row:
    """A row, whose measured values are withheld if there is a reason ``why``, or one of its own."""
    jobs = cell.jobs()
    runs = _Side.of(cell, table, records, RUNS)
    measured = runs.summary(tau_s)
    if measured and "setting" in table:
        measured = replace(
            measured, dedicated=_dedicated(jobs, table, records), exceeded=_exceeded(runs.ours)
        )
    simulated = _Side.of(cell, table, records, SIMULATIONS).summary(tau_s)
    why = why or runs.withheld
    row = Row(
        jobs=tuple(JobRow(job.arrival_s, described(job.program)) for job in jobs),
        settings=dict(cell.settings),
        scheduler=table,
        measured=measured or (None if simulated else nothing),
        simulated=simulated,
        bound=_bound(runs.repeats),
    )
    if measured and why:
        return replace(
            row,
            measured=Summary(estimate([]), failures=measured.failures),
            withheld=Withheld(why, measured),
        )
    return row


def _bound(repeats: Sequence[_Repeat]) -> float | None:
    bounds_of_repeats = [one.min_ns / sum(one.dedicated_ns) for one in repeats if one.min_ns is not None]
    return statistics.median(bounds_of_repeats) if bounds_of_repeats else None


def _overloaded(records: Iterable[RunRecord]) -> str:
    """Why nothing at all can be known from measured runs; empty if something can be."""
    measured = [record for record in records if record.kind in RUNS]
    return TAKEN if overloaded(measured) else ""


TAKEN = "other programs took too much of the processors"

BELOW = 0.05
"""A row that is faster by more than this than any schedule can be is not shown."""


def _repeats(
    jobs: Sequence[ParallelJob], dedicated: Sequence[RunRecord], ours: Sequence[RunRecord]
) -> list[_Repeat]:
    """Successful runs with a dedicated run of each job: the two-phase one, if it has one.

    There are none if one was stopped since it took too long: the others would flatter its scheduler.
    Disturbed runs are set aside if others stand. The dedicated run is of the same repeat; if that one is set
    aside, it is the median one of those that stand.
    """
    if _exceeded(ours):
        return []
    names = [_name(described(job.program)) for job in jobs]
    two_phase = [record for record in dedicated if alone_two_phase(record)]
    spinning = _Alone(record for record in dedicated if not alone_two_phase(record))
    honest = _Alone(two_phase)
    concerned = {_name(record.jobs[0].program) for record in two_phase}
    results = []
    for record in standing(_successful(ours)):
        spun = [spinning.at(record.repeat, name) for name in names]
        dedicated_runs = _all_known(
            honest.at(record.repeat, name) if name in concerned else one
            for name, one in zip(names, spun, strict=True)
        )
        responses = _all_known(job.response_ns for job in record.jobs)
        if dedicated_runs and responses and record.makespan_ns is not None:
            other = _makespans(_all_known(spun)) if concerned else ()
            min_ns = bounds.min_ns(record, dedicated_runs)
            results.append(
                _Repeat(record, record.makespan_ns, responses, _makespans(dedicated_runs), other, min_ns)
            )
    return results


def _exceeded(ours: Sequence[RunRecord]) -> float | None:
    """After how many times the sum of the times alone a run was stopped that did not succeed later."""
    done = {record.repeat for record in ours if record.makespan_ns is not None}
    stopped = [record.exceeded for record in ours if record.exceeded and record.repeat not in done]
    return max(stopped, default=None)


def _dedicated(
    jobs: Sequence[ParallelJob], table: Mapping[str, Any], records: Sequence[RunRecord]
) -> Estimate | None:
    """The times of all programs alone with a setting over those without one, of the same repeats."""
    names = [_name(described(job.program)) for job in jobs]
    changed = [one for one in records if one.kind in (DEDICATED, WITH_SETTING) and one.scheduler == table]
    sides = _Alone(changed), _Alone(one for one in records if one.kind == DEDICATED)
    sums = [
        [sum(_makespans(_all_known(side.at(repeat, name) for name in names))) for side in sides]
        for repeat in sorted({one.repeat for one in changed})
    ]
    ratios = [] if _exceeded(changed) else [ours / theirs for ours, theirs in sums if ours and theirs]
    return estimate(ratios) if changed else None


class _Alone:
    """Dedicated runs by repeat and program."""

    def __init__(self, records: Iterable[RunRecord]) -> None:
        named: dict[tuple[Any, ...], list[RunRecord]] = defaultdict(list)
        for record in records:
            named[_name(record.jobs[0].program)].append(record)
        successful = {name: _successful(runs) for name, runs in named.items()}
        self._standing = {name: standing(runs) for name, runs in successful.items()}
        self._repeats = {name: {one.repeat for one in runs} for name, runs in successful.items()}

    def at(self, repeat: int, name: tuple[Any, ...]) -> RunRecord | None:
        """The run in a repeat; if it was made but set aside, the median one; None if there is none."""
        runs = self._standing.get(name, [])
        same = [one for one in runs if one.repeat == repeat]
        if same or not runs or repeat not in self._repeats[name]:
            return same[0] if same else None
        return sorted(runs, key=lambda one: one.makespan_ns or 0)[len(runs) // 2]


def _successful(records: Iterable[RunRecord]) -> list[RunRecord]:
    """The successful run of each repeat: of several the last undisturbed one, or the best."""
    return list(least_disturbed(one for one in records if one.makespan_ns is not None).values())


def _makespans(records: Iterable[RunRecord]) -> tuple[int, ...]:
    return tuple(record.makespan_ns for record in records if record.makespan_ns is not None)


def _all_known(values: Iterable[Known | None]) -> tuple[Known, ...]:
    every = tuple(values)
    present = tuple(one for one in every if one is not None)
    return present if len(present) == len(every) else ()


def _name(program: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((key, _hashable(value)) for key, value in program.items()))


def _hashable(value: Any) -> Any:
    """The value with tuples for lists and tables, also in lists: stored tuples come back as lists."""
    value = sorted(value.items()) if isinstance(value, Mapping) else value
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def _summary(repeats: Sequence[_Repeat], tau_s: float, failures: int) -> Summary:
    if not repeats:
        return Summary(estimate([]), failures=failures)
    runs = [one.run for one in repeats]
    waits = [rank.waits for run in runs for rank in run.ranks if rank.waits]
    of_jobs = [estimate(slowdowns) for slowdowns in zip(*(one.slowdowns for one in repeats), strict=True)]
    return Summary(
        workload_slowdown=estimate([one.workload_slowdown for one in repeats]),
        slowdown=Slowdowns(
            mean=statistics.median(statistics.fmean(one.slowdowns) for one in repeats),
            max=statistics.median(max(one.slowdowns) for one in repeats),
            bounded_mean=statistics.median(statistics.fmean(one.bounded(tau_s)) for one in repeats),
            bounded_max=statistics.median(max(one.bounded(tau_s)) for one in repeats),
            tau_s=tau_s,
            per_job=tuple(one.median or math.nan for one in of_jobs),
            per_job_ci95=tuple(one.ci95 for one in of_jobs),
        ),
        breakdown=_breakdown(repeats),
        states=breakdown.states(rank for run in runs for rank in run.ranks),
        makespan_s=statistics.median(one.makespan_ns for one in repeats) / 1e9,
        dedicated_s=statistics.median(sum(one.dedicated_ns) for one in repeats) / 1e9,
        switches=_switches(runs),
        waits={
            "barrier": _wait_means([one.barrier for one in waits]),
            "read": _wait_means([one.read for one in waits]),
        },
        responses=_responses(runs),
        start_up=_start_up(runs),
        failures=failures,
        against_spinning=_against_spinning(repeats),
        sections=_sections(repeats),
        throttled=_throttled(runs),
        cpu_s=_cpu_s(runs),
        by_repeat={one.run.repeat: one.workload_slowdown for one in repeats},
    )


def _cpu_s(runs: Sequence[RunRecord]) -> tuple[float, ...] | None:
    of_runs = [[_cpu_ns(run, job) for job in run.jobs] for run in runs]
    times_s = [[time_ns / 1e9 for time_ns in times if time_ns is not None] for times in of_runs]
    if any(len(ours) < len(run.jobs) for ours, run in zip(times_s, runs, strict=True)):
        return None
    return tuple(map(statistics.median, zip(*times_s, strict=True)))


def _cpu_ns(run: RunRecord, job: JobRecord) -> int | None:
    """The CPU time of a job of a command; None if it is not known of all its ranks."""
    if job.cpu_ns is not None:
        return job.cpu_ns
    return breakdown.total(rank.running_ns for rank in run.ranks if rank.job == job.job)


def _throttled(runs: Sequence[RunRecord]) -> float | None:
    shares = [run.conditions.throttled for run in runs]
    throttled = [share for share in shares if share is not None]
    return statistics.fmean(throttled) if throttled else None


def _sections(repeats: Sequence[_Repeat]) -> SectionRate | None:
    if not all(job.work.kind == LockProgram.kind for one in repeats for job in one.run.jobs):
        return None
    counts = [sum(rank.phases or 0 for rank in one.run.ranks) for one in repeats]
    return SectionRate(
        per_s=statistics.median(
            count / one.makespan_ns * 1e9 for count, one in zip(counts, repeats, strict=True)
        ),
        relative=statistics.median(1 / one.workload_slowdown for one in repeats),
    )


def _against_spinning(repeats: Sequence[_Repeat]) -> AgainstSpinning | None:
    """How the same runs compare with the jobs alone and spinning, in the repeats in which that is known."""
    sums = [(one.makespan_ns, sum(one.spinning_ns)) for one in repeats if one.spinning_ns]
    if not sums:
        return None
    return AgainstSpinning(
        dedicated_s=statistics.median(alone_ns for _, alone_ns in sums) / 1e9,
        workload_slowdown=estimate([makespan_ns / alone_ns for makespan_ns, alone_ns in sums]),
    )


def _breakdown(repeats: Sequence[_Repeat]) -> Breakdown | None:
    """The mean over the repeats; None if a program has recorded no activities."""
    if not all(one.run.ranks for one in repeats):
        return None
    switches_ns = [one.run.constants.local_switch_us * 1e3 for one in repeats]
    parts = [
        breakdown.of_run(one.run.ranks, one.run.processors, one.makespan_ns, switch_ns)
        for one, switch_ns in zip(repeats, switches_ns, strict=True)
    ]
    breakdowns = [
        part.beside(lost(one.run)) for part, one in zip(parts, repeats, strict=True) if part is not None
    ]
    return breakdown.mean(breakdowns) if len(breakdowns) == len(parts) else None


def _responses(runs: Sequence[RunRecord]) -> Responses | None:
    ranks = [rank for run in runs for rank in run.ranks]
    times_ns = sorted(time_ns for rank in ranks for time_ns in rank.responses_ns or ())
    if not times_ns:
        return None
    return Responses(len(times_ns), statistics.fmean(times_ns) / 1e6, quantile(times_ns, 0.99) / 1e6)


def _start_up(runs: Sequence[RunRecord]) -> StartUp | None:
    times_ns = [job.start_up_ns for run in runs for job in run.jobs if job.start_up_ns is not None]
    return StartUp(statistics.median(times_ns) / 1e6, max(times_ns) / 1e6) if times_ns else None


def _switches(runs: Sequence[RunRecord]) -> Switches | None:
    switches = [switch for run in runs for switch in run.switches]
    if not switches:
        return None
    apart = [time_ns for run in runs for time_ns in between_nodes_ns(run.switches)]
    uncertainties = [node.get("uncertainty_ns", 0) for run in runs for node in run.conditions.nodes_after]
    return Switches(
        n=len(switches),
        mechanism=runs[-1].mechanism,
        switch_delay_us=_percentiles([switch.switch_delay_ns for switch in switches]),
        skew_us=_percentiles([switch.skew_ns for switch in switches]),
        between_nodes_us=_percentiles(apart) if apart else None,
        clock_uncertainty_us=max(uncertainties, default=0) / 1e3 if apart else None,
    )


def _percentiles(times_ns: Sequence[int]) -> Percentiles:
    ascending = sorted(times_ns)
    return Percentiles(quantile(ascending, 0.5) / 1e3, quantile(ascending, 0.99) / 1e3)


def _wait_means(waits: Sequence[WaitCounts]) -> WaitMeans:
    spun = sum(wait.spun for wait in waits)
    blocked = sum(wait.blocked for wait in waits)
    return WaitMeans(
        spun=spun,
        blocked=blocked,
        spun_mean_us=sum(wait.spun_ns for wait in waits) / spun / 1e3 if spun else None,
        blocked_mean_us=sum(wait.blocked_ns for wait in waits) / blocked / 1e3 if blocked else None,
    )
