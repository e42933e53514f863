"""A part of a job log as jobs with processes: the same queue on fewer processors, in minutes."""

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.view import UNKNOWN, After
from harness.spec import preceding_jobs
from harness.spec.job_source import (
    ESTIMATES,
    LOG_MINUTES,
    OF_WINDOWS,
    DrawnEstimates,
    LogTable,
    ScaledWindow,
    log_place,
)
from harness.spec.jobs import JobGroup, program_of
from harness.spec.recorded_jobs import records_of, submitters, usable
from harness.spec.swf_records import (
    NUMBER,
    REQUESTED_S,
    RUN,
    SUBMIT,
    THINK,
    USER,
    Records,
    sizes_of,
)
from harness.spec.table_checks import Table, as_table, tables
from workloads.bounds import ALONE_S, JOBS, SIMULATED_PROCESSORS
from workloads.parameters import Bounds, build
from workloads.validation import InputError, known_keys, under

HOUR_S, MINUTE_S = 3600.0, 60.0

SHORTEST_S = 0.05  # of programs; shorter ones would measure how processes begin and end

PROGRAMS: tuple[Table, ...] = (
    {"pattern": "BARRIER", "granularity_us": 2000.0, "imbalance": 0.5},
    {"pattern": "NEWS", "granularity_us": 1000.0, "imbalance": 0.25},
    {"pattern": "TRANSPOSE", "granularity_us": 5000.0, "imbalance": 1.0},
)
"""The programs of users if an experiment names none, all with the same share."""

OF_EACH_JOB = ("processes", "dedicated_s", "phases")
SHARE = Bounds(1e-9, 1e9)
"""Keys that programs of ``[log]`` cannot have, since its jobs have their own, and the bounds of a share."""

Numbers = NDArray[np.float64]
Sizes = NDArray[np.int64]
Hits = NDArray[np.bool_]


@dataclass(frozen=True)
class Window(LogTable):
    """The table ``[log]`` of an experiment whose jobs have processes."""

    # Where it begins, in hours after the first arrival of the log; ``from`` in the file.
    from_hours: Annotated[float, Bounds(0, 1e6)] = 0.0
    hours: Annotated[float, Bounds(1e-6, 1e6)] | None = None  # how long it is; ``jobs`` takes its place
    jobs: Annotated[int, Bounds(2, JOBS)] | None = None  # so many jobs from there on
    minutes: Annotated[float, Bounds(1e-3, 1e4)] = LOG_MINUTES  # from its begin to its end in a run
    # Of the machine on which the log was recorded; None for the number in the log.
    machine: Annotated[int, Bounds(1, SIMULATED_PROCESSORS)] | None = None
    programs: tuple[Any, ...] = PROGRAMS  # tables of programs, each with its ``share`` of the users

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.hours is None) == (self.jobs is None):
            rule = "cannot be combined with hours" if self.jobs else "either hours or jobs must be given"
            remedy = "leave one of the two out" if self.jobs else "write hours = 24, or jobs = 100"
            raise InputError("jobs", self.jobs, rule, remedy)


def parse(table: Table) -> Window:
    """The window that a table ``[log]`` describes; errors name its keys as the file has them."""
    names = {"from": "from_hours"}
    known_keys(table, ["file", *OF_WINDOWS, "programs", "scheduler"], "log")
    try:
        return build(Window, {names.get(key, key): value for key, value in table.items()}, "log")
    except InputError as error:
        key = error.key.replace("from_hours", "from")
        raise InputError(key, error.value, error.rule, error.remedy) from None


class _Part(NamedTuple):
    """The jobs in a window as the log has them, in order of arrival; arrays have an entry for each job."""

    records: Records  # with the rows of these jobs
    log: Numbers  # the rows of all jobs of the log that ran
    skipped: Mapping[str, int]  # how many jobs of the window were left out, by reason
    machine: int  # processors of the log's machine
    sizes: Numbers
    run_s: Numbers
    since_s: Numbers  # arrivals after the begin of the window
    span_s: float  # from there to its end
    preceding: Sequence[int]  # which of these jobs each follows, -1 for none

    @property
    def load(self) -> float:
        return float((self.sizes * self.run_s).sum()) / (self.machine * self.span_s)

    @property
    def without_estimate(self) -> Hits:
        return self.records.rows[:, REQUESTED_S] < 0


class _Scaled(NamedTuple):
    """The same jobs on the processors of an experiment."""

    sizes: Sizes  # processes
    run_factor: float  # run times over those in the log
    run_s: Numbers
    arrival_s: Numbers
    after: Sequence[After | None]
    estimate_s: Numbers


def queue(
    window: Window, folder: Path, processors: int, seed: int
) -> tuple[tuple[JobGroup, ...], ScaledWindow]:
    """The jobs of a window on this number of ``processors``, as groups of one, and what became of them.

    Sizes that all are whole shares of the machine's stay in proportion. Else sizes are those that give each
    number of processors its share of the log's *work*: counted by jobs, nearly all jobs of a large machine
    would have one process. The largest jobs of the log remain the largest; among equals ``seed`` decides.
    Arrivals are scaled to ``minutes``, and run times and estimates such that the load stays: by one factor
    for both if sizes are in proportion. Jobs of a user run one program, which ``seed`` draws by the shares,
    as it draws ``estimates``. Jobs follow others as in the log, after think times that are scaled as arrivals
    are; one whose preceding job is not in the window arrives as recorded.

    Raises:
        InputError: for a log that cannot be read, and a window that holds no queue.
    """
    with under("log"):
        part = _part(window, folder)
        scaled = _scaled(part, window, processors, seed)
    groups = tuple(_groups(part, scaled, _Programs(window.programs, seed)))
    return groups, _summary(window, part, scaled, groups, processors)


def recorded(window: Window, folder: Path) -> Records:
    """The jobs of a window as the log has them; InputError as for ``queue``."""
    with under("log"):
        return _part(window, folder).records


def _part(window: Window, folder: Path) -> _Part:
    path = log_place(window.file, folder)
    records, log = _recorded(path)
    machine = window.machine or records.processors or int(sizes_of(log).max())
    rows = _rows_in(window, log)
    _check_machine(machine, rows)
    _, skipped = usable(path, records.rows[_may_be_in(window, records.rows, log[0, SUBMIT], rows)])
    # Hours in decimals are no whole seconds: none of these jobs arrives before the window begins.
    since_s = np.maximum(0.0, rows[:, SUBMIT] - log[0, SUBMIT] - window.from_hours * HOUR_S)
    span_s = window.hours * HOUR_S if window.hours else float(since_s[-1])
    if span_s <= 0:
        raise InputError(
            "jobs", window.jobs, "must hold jobs that arrive at different times", "give more jobs"
        )
    run_s = np.maximum(rows[:, RUN], 1.0)
    preceding = preceding_jobs.places(rows)
    preceding_jobs.chains_end_s(rows, preceding, since_s + run_s, lambda reason: _circular(window, reason))
    records = replace(records, rows=rows)
    return _Part(records, log, skipped, machine, sizes_of(rows), run_s, since_s, span_s, preceding)


def _circular(window: Window, reason: str) -> InputError:
    return InputError("file", window.file, f"cannot be run: {reason}", "correct these jobs, or write -1")


def _scaled(part: _Part, window: Window, processors: int, seed: int) -> _Scaled:
    sizes = _scaled_sizes(part, processors, np.random.default_rng(seed))
    work_s = float((sizes * part.run_s).sum())
    run_factor = part.load * processors * window.minutes * MINUTE_S / work_s
    if (longest_s := float(part.run_s.max()) * run_factor) > ALONE_S:
        raise InputError(
            "minutes",
            window.minutes,
            f"gives a job that runs for {longest_s:.3g} s, and at most {ALONE_S:g} s are allowed",
            "give fewer minutes, or a longer part",
        )
    run_s = np.maximum(part.run_s * run_factor, SHORTEST_S)
    asked_s = np.where(part.without_estimate, part.run_s, part.records.rows[:, REQUESTED_S])
    estimate_s = np.maximum(np.maximum(asked_s, part.run_s) * run_factor, run_s)
    if window.estimates:
        estimate_s = run_s * DrawnEstimates.draw(window.estimates, len(run_s), seed)
    arrival_factor = window.minutes * MINUTE_S / part.span_s
    think_s = part.records.rows[:, THINK] * arrival_factor
    after = [
        After(other, -1 if pause_s < 0 else round(pause_s * 1e9)) if other >= 0 else None
        for other, pause_s in zip(part.preceding, think_s.tolist(), strict=True)
    ]
    return _Scaled(sizes, run_factor, run_s, part.since_s * arrival_factor, after, estimate_s)


def _groups(part: _Part, scaled: _Scaled, programs: "_Programs") -> Iterator[JobGroup]:
    numbers = part.records.rows[:, NUMBER].astype(int).tolist()
    submitted_by = submitters(part.records, part.records.rows) or (UNKNOWN,) * len(numbers)
    columns = (scaled.sizes, scaled.run_s, scaled.arrival_s, scaled.estimate_s)
    values = zip(*(column.tolist() for column in columns), strict=True)
    for number, submitter, after, (size, run_s, arrival_s, estimate_s) in zip(
        numbers, submitted_by, scaled.after, values, strict=True
    ):
        program = programs.of(submitter.user or f"job {number}", size, run_s)
        times = {"arrival_s": arrival_s, "estimate_s": estimate_s, "after": after}
        yield JobGroup(program, submitter=submitter, **times)


def _summary(
    window: Window, part: _Part, scaled: _Scaled, groups: Sequence[JobGroup], processors: int
) -> ScaledWindow:
    rows, span_s = part.records.rows, window.minutes * MINUTE_S
    run_s = np.array([group.program.alone_s for group in groups])  # whole phases, at least one
    drawn = {DrawnEstimates.reason(window.estimates or ""): np.ones(len(rows), dtype=bool)}
    missing = {f"{ESTIMATES} missing, taken for the run times": part.without_estimate}
    columns = [rows, *([scaled.estimate_s] if window.estimates else [])]
    assumed = (drawn if window.estimates else missing) | {
        f"run times below {SHORTEST_S:g} s or a phase of the program, taken for that": (
            run_s > 1.1 * part.run_s * scaled.run_factor
        ),
        "users missing, so that each job has a program of its own": rows[:, USER] < 0,
        preceding_jobs.ASSUMED: preceding_jobs.elsewhere(rows, part.preceding),
    }
    return ScaledWindow(
        file=window.file,
        content=hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest(),
        numbers=tuple(rows[:, NUMBER].astype(int).tolist()),
        skipped=part.skipped,
        assumed={reason: int(hit.sum()) for reason, hit in assumed.items() if hit.any()},
        run_factor=scaled.run_factor,
        processors=(part.machine, processors),
        span_s=(part.span_s, span_s),
        load=(part.load, float((scaled.sizes * run_s).sum()) / (processors * window.minutes * MINUTE_S)),
        run_s=(float(np.median(part.run_s)), float(np.median(run_s))),
        sizes=(_work_shares(part.sizes, part.run_s), _work_shares(scaled.sizes, run_s)),
        following=tuple(
            (job, after.job, after.think_ns, scaled.arrival_s[job])
            for job, after in enumerate(scaled.after)
            if after
        ),
    )


def _recorded(path: Path) -> tuple[Records, Numbers]:
    """The log, and the rows of its jobs that ran, in order of arrival."""
    try:
        changed_ns = path.stat().st_mtime_ns
    except (OSError, ValueError):
        changed_ns = 0  # the reader says what is wrong
    try:
        return _read(path, changed_ns)
    except InputError as error:  # of a line or the whole file
        raise InputError("file", error.value, error.rule, error.remedy) from None


@lru_cache(maxsize=4)
def _read(path: Path, changed_ns: int) -> tuple[Records, Numbers]:
    records = records_of(path)
    rows, _ = usable(path, records.rows)
    return records, rows[np.lexsort((rows[:, NUMBER], rows[:, SUBMIT]))]


def _rows_in(window: Window, rows: Numbers) -> Numbers:
    """The rows in the window; it has at least two jobs, and no more than an experiment may have."""
    part: Numbers = rows[_within(window, rows, rows[0, SUBMIT])][: window.jobs]
    if len(part) < 2:
        ends_h = (rows[-1, SUBMIT] - rows[0, SUBMIT]) / HOUR_S
        raise InputError(
            "from",
            window.from_hours,
            f"leaves {len(part)} jobs of the log, which ends {ends_h:.4g} hours after its first job",
            "begin earlier, or give a longer window",
        )
    if len(part) < (window.jobs or 0):
        raise InputError(
            "jobs",
            window.jobs,
            f"must be at most {len(part)}: the log has no more from hour {window.from_hours:g} on",
            f"write {len(part)} or less, or begin earlier",
        )
    if len(part) > JOBS:
        raise InputError(
            "hours",
            window.hours,
            f"holds {len(part)} jobs there, and an experiment at most {JOBS}",
            "give fewer hours, or jobs = 100",
        )
    return part


def _within(window: Window, rows: Numbers, first_s: float) -> Hits:
    """Which rows arrive in the window of a log whose first job arrives at ``first_s``."""
    since_h = (rows[:, SUBMIT] - first_s) / HOUR_S
    ends_h = window.from_hours + window.hours if window.hours else np.inf
    there: Hits = (since_h >= window.from_hours) & (since_h < ends_h)
    return there


def _may_be_in(window: Window, rows: Numbers, first_s: float, part: Numbers) -> Hits:
    """Which rows arrive in the window, which holds ``part``, or at an unknown time."""
    submit_s = rows[:, SUBMIT]
    before_end: Hits = submit_s <= (np.inf if window.hours else part[-1, SUBMIT])
    return (_within(window, rows, first_s) & before_end) | (submit_s < 0)


def _check_machine(machine: int, rows: Numbers) -> None:
    """Refuse a machine on which the jobs of a window could not have run."""
    largest = rows[sizes_of(rows).argmax()]
    size = int(sizes_of(rows).max())
    if size > machine:
        raise InputError(
            "machine",
            machine,
            f"must be enough for all jobs, and job {largest[NUMBER]:.0f} has {size} processors",
            f"write machine = {size} or more",
        )


def _scaled_sizes(part: _Part, processors: int, random: np.random.Generator) -> Sizes:
    """The processes of each job, at least 1; see ``queue``."""
    sizes, run_s = part.sizes, part.run_s
    exact = sizes * processors / part.machine
    if (exact == np.rint(exact)).all() and (exact >= 1).all():
        return np.minimum(exact, processors).astype(np.int64)
    every_size, every_run_s = sizes_of(part.log), np.maximum(part.log[:, RUN], 1.0)
    class_of = np.clip(np.ceil(every_size * processors / part.machine), 1, processors).astype(int)
    work = np.bincount(class_of, weights=every_size * every_run_s, minlength=processors + 1)
    # A class has its share of the work if its share of the run time is in proportion to work / processes.
    of_time = work[1:] / np.arange(1, processors + 1)
    above = np.cumsum((of_time / of_time.sum())[::-1])[::-1]  # share of the run time of jobs of at least k
    order = np.lexsort((random.random(len(sizes)), -sizes))  # the largest first
    middle = (np.cumsum(run_s[order]) - run_s[order] / 2) / run_s.sum()
    scaled = np.ones(len(sizes), dtype=np.int64)
    scaled[order] = np.maximum(1, (middle[:, None] < above[None, :]).sum(axis=1))
    return scaled


def _work_shares(sizes: Numbers | Sizes, run_s: Numbers) -> dict[str, float]:
    work = sizes * run_s
    return {f"{size:.0f}": float(work[sizes == size].sum() / work.sum()) for size in np.unique(sizes)}


class _Programs:
    """The programs of users, drawn by their shares."""

    def __init__(self, programs: Sequence[Any], seed: int) -> None:
        self._seed = seed
        self._tables: list[Table] = []
        self._shares: list[float] = []
        given = [*programs] if isinstance(programs, tuple) else programs
        for index, table in enumerate(tables(given, "log.programs", '{ pattern = "NEWS", share = 2 }')):
            key = f"log.programs[{index}]"
            values = dict(as_table(table, key))
            share = values.pop("share", 1.0)
            SHARE.check(f"{key}.share", share)
            self._shares.append(share)
            for taken in OF_EACH_JOB:
                if taken in values:
                    raise InputError(f"{key}.{taken}", values[taken], "is that of each job", "leave it out")
            program_of({**values, "processes": 1, "dedicated_s": 1.0}, key)
            self._tables.append(values)

    def of(self, user: object, processes: int, run_s: float) -> Any:
        """The program of a user's job that takes ``run_s`` alone on ``processes`` processors."""
        (table,) = random.Random(f"{self._seed}/{user}").choices(self._tables, self._shares)
        return program_of({**table, "processes": processes, "dedicated_s": run_s}, "log.programs")
