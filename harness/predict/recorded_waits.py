"""The queue as it was: the waits that a log records, and those simulated under the policy that it had."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from coordinator.migration import Migration
from coordinator.topology import FLAT, Topology
from harness.predict.trace import Trace, of_records
from harness.simulator.jobs.model import WHOLE_NS, Floats, Integers, JobLevelOutcome
from harness.spec import log_window
from harness.spec.experiment import Cell, Experiment
from harness.spec.job_source import ESTIMATES, log_place
from harness.spec.scheduler import Scheduler, check_tiers
from harness.store.records import BY_JOB, POLICY, SIMULATED, RunRecord, now
from workloads.validation import InputError

SOON_S = 1.0  # waits up to the resolution of logs are none
SHARE = 0.1  # the largest share of a log that counts as its beginning
TOGETHER = 64  # jobs that are compared with all that wait in one step

KINDS = {"qos": "queues", "partition": "partitions"}

Hits = NDArray[np.bool_]


@dataclass(frozen=True)
class Waits:
    """Waits of the compared jobs, in seconds, and the share of the jobs that wait longer than SOON_S."""

    mean_s: float
    median_s: float
    p90_s: float
    max_s: float
    waiting: float

    @classmethod
    def of(cls, wait_s: Floats) -> Self:
        median_s, p90_s = np.percentile(wait_s, (50, 90))
        share = float((wait_s > SOON_S).mean())
        return cls(float(wait_s.mean()), float(median_s), float(p90_s), float(wait_s.max()), share)


@dataclass(frozen=True)
class WaitComparison:
    """Recorded and simulated waits of the same jobs; both None if they cannot be compared."""

    scheduler: Mapping[str, Any]
    processors: int
    jobs: int  # that are compared
    left_out: Mapping[str, int]  # how many others are simulated, but not compared, by reason
    recorded: Waits | None
    simulated: Waits | None
    mean_error: float | None  # simulated over recorded mean wait, minus 1; None if the latter is 0
    p90_error: float | None  # the same of the 90th percentiles
    rank_correlation: float | None  # Spearman's, job by job; None if all waits of one side are equal
    differences: Sequence[str]  # what the log shows, or lacks, that the simulation does otherwise

    @classmethod
    def of(cls, recorded: Mapping[str, Any]) -> Self:
        """The comparison that a record has as plain values."""
        sides = {side: recorded[side] and Waits(**recorded[side]) for side in ("recorded", "simulated")}
        return cls(**{**recorded, **sides})


NO_WAIT = "without a recorded wait"


class _Queue(NamedTuple):
    """The jobs of a log by arrival, as recorded, in seconds after the first one."""

    arrival_s: Floats
    start_s: Floats
    end_s: Floats
    size: Integers


def compare(
    trace: Trace,
    processors: int,
    scheduler: Scheduler,
    warm_up: int = 0,
    *,
    topology: Topology = FLAT,
    lost: Collection[int] = (),
    migration: Migration | None = None,
) -> WaitComparison:
    """The comparison on a machine of ``processors``; the last three are as for ``simulate``.

    The simulated machine is empty at first, and what ran on the real one before the log begins is unknown.
    So the first ``warm_up`` jobs are not compared; if that is 0, those that arrive within the longest run
    time, or SHARE of the log if that is shorter.

    Raises:
        InputError: for a machine that is too small, or a policy that only processes can follow.
    """
    trace.check(processors, len(lost))
    check_tiers("scheduler", scheduler, {one.partition for one in trace.jobs.submitters})
    wait_s, first = trace.recorded.wait_s, warm_up or _beginning(trace)
    known = wait_s >= 0
    compared = known & (np.arange(len(wait_s)) >= first)
    left_out = {
        "at the beginning, since what ran before the log is unknown": min(first, len(wait_s)),
        NO_WAIT: int((~known[first:]).sum()),
    }
    recorded = simulated = correlation = mean_error = p90_error = None
    differences: list[str] = []
    if compared.any():
        from harness.simulator.jobs.simulate import simulate  # noqa: PLC0415 - numba is slow to load

        outcome = simulate(
            *(trace.jobs, processors, scheduler.policy), topology=topology, migration=migration, lost=lost
        )
        theirs_s, ours_s = wait_s[compared], outcome.wait_s[compared]
        recorded, simulated = Waits.of(theirs_s), Waits.of(ours_s)
        mean_error, p90_error = (
            _error(simulated.mean_s, recorded.mean_s),
            _error(simulated.p90_s, recorded.p90_s),
        )
        correlation = _correlation(theirs_s, ours_s)
        differences += _kinds(trace)
        if known.all():
            queue = _queue(trace)
            differences += [*_busy(queue, processors - len(lost)), *_order(trace, queue, outcome)]
    return WaitComparison(
        scheduler=scheduler.table,
        processors=processors,
        jobs=int(compared.sum()),
        left_out={reason: count for reason, count in left_out.items() if count},
        recorded=recorded,
        simulated=simulated,
        mean_error=mean_error,
        p90_error=p90_error,
        rank_correlation=correlation,
        differences=tuple(differences),
    )


def of_windows(experiment: Experiment) -> Experiment:
    """The experiment with the comparison for each part of a log, if the scheduler of its site is known.

    The jobs of the part are a log of their own, unscaled, on the machine of the log.

    Raises:
        InputError: as ``compare``.
    """
    return replace(experiment, cells=tuple(_of_window(cell, experiment) for cell in experiment.cells))


def lacking(experiment: Experiment, records: Sequence[RunRecord]) -> Iterator[RunRecord]:
    """For each part of a log whose comparison none of ``records`` has, one of them with it.

    It is the shortest one: a simulation by job, if there is any.
    """
    for cell in experiment.cells:
        ours = [one for one in records if one.cell == cell.index and one.schedule and one.succeeded]
        wanted = cell.log and json.loads(json.dumps(cell.log.recorded_waits))
        if not wanted or any(_window(one).get("recorded_waits") == wanted for one in ours):
            continue
        for record in sorted(ours, key=lambda one: (BY_JOB, SIMULATED, POLICY).index(one.kind))[:1]:
            assert record.schedule
            source = {**record.schedule.source, "window": {**_window(record), "recorded_waits": wanted}}
            yield replace(record, recorded_at=now(), schedule=replace(record.schedule, source=source))


def _window(record: RunRecord) -> Mapping[str, Any]:
    window: Mapping[str, Any] = record.schedule.source.get("window", {}) if record.schedule else {}
    return window


def _of_window(cell: Cell, experiment: Experiment) -> Cell:
    window, written = cell.window, experiment.written
    if not (window and written and cell.log and window.scheduler):
        return cell
    try:
        records = log_window.recorded(window, written.folder)
        trace = of_records(log_place(window.file, written.folder), records)
        trace = trace.estimated(window.estimates, experiment.seed)
        compared = compare(trace, cell.log.processors[0], window.scheduler)
    except InputError as error:
        raise experiment.located(_of_table(error, window.scheduler)) from None
    return replace(cell, log=replace(cell.log, recorded_waits=asdict(compared)))


def _of_table(error: InputError, scheduler: Scheduler) -> InputError:
    """The error with the key of the table ``[log]`` to which it is due."""
    match error.key:
        case "scheduler.tiers":
            return InputError("log.scheduler.tiers", error.value, error.rule, error.remedy)
        case "policy":
            return InputError("log.scheduler.policy", scheduler.name, error.rule, error.remedy)
        case "processors":
            remedy = "give the number of processors of the log's machine"
            return InputError("log.machine", error.value, error.rule, remedy)
        case "trace":
            return InputError("log.file", error.value, error.rule, error.remedy)
    return error


def busiest(trace: Trace) -> int | None:
    """The largest number of processors that recorded jobs have at once; None if some start is unknown."""
    return _most_busy(_queue(trace)) if (trace.recorded.wait_s >= 0).all() else None


def _beginning(trace: Trace) -> int:
    """How many jobs arrive while jobs that ran before the log began may still run."""
    if not trace.span_s:
        return 0
    since_s = trace.jobs.submit_ns / WHOLE_NS
    longest_s = float(trace.jobs.times_s(trace.jobs.max_processes).max())
    return int(np.searchsorted(since_s, min(longest_s, SHARE * trace.span_s), side="right"))


def _error(ours_s: float, theirs_s: float) -> float | None:
    return ours_s / theirs_s - 1 if theirs_s else None


def _correlation(one: Floats, other: Floats) -> float | None:
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: Floats) -> Floats:
    """The rank of each value; equal ones have the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(count) - (count - 1) / 2)[place]
    return ranks


def _kinds(trace: Trace) -> Iterator[str]:
    """Jobs that the site treats in another way than the simulation does."""
    recorded, following = trace.recorded, trace.jobs.following
    if not recorded.wait_s.any():
        yield "all recorded waits are 0: the times of submission may be those of the starts"
    for reason, count in trace.assumed.items():
        if reason.startswith(ESTIMATES):
            yield f"{count:,} of {len(trace.jobs):,} jobs have {reason}"
    submitters = {*trace.jobs.submitters}
    for kind in ("qos", "partition"):
        if (count := len({getattr(one, kind) for one in submitters} - {""})) > 1:
            kinds = f"{count} {KINDS[kind]}"
            yield f"{kinds} may have priorities, limits or processors of their own; simulated is one"
    if following is not None and (count := int((following.preceding >= 0).sum())):
        yield f"{count:,} jobs wait for another job, and arrive after its simulated end"
    if count := int((recorded.held_s > SOON_S).sum()):
        yield f"{count:,} jobs were held or waited for others; they arrive when they became eligible"
    if count := trace.skipped.get("never ran", 0):
        yield f"{count:,} jobs never ran: while they waited, others may have waited for them"
    if count := trace.skipped.get("still running", 0):
        yield f"{count:,} jobs still run, so that the simulation has their processors free"


def _queue(trace: Trace) -> _Queue:
    jobs = trace.jobs
    arrival_s, run_s = jobs.submit_ns / WHOLE_NS, jobs.times_s(jobs.max_processes)
    start_s = arrival_s + trace.recorded.wait_s
    return _Queue(arrival_s, start_s, start_s + run_s, jobs.max_processes)


def _busy(queue: _Queue, processors: int) -> Iterator[str]:
    """What the recorded starts and ends show of processors that the simulated machine has, and others."""
    waits = queue.start_s - queue.arrival_s > SOON_S
    peak = _most_busy(queue)
    if peak > processors:
        yield f"recorded jobs have up to {peak:,} processors at once, more than the {processors:,} simulated"
    elif peak < processors and waits.any():
        rest = "the others may be down, reserved, or of no use to the jobs"
        yield f"recorded jobs have at most {peak:,} of {processors:,} processors at once: {rest}"
    if (alone := waits & _finds_room(queue, processors)).any():
        many, wait_s = int(alone.sum()), (queue.start_s - queue.arrival_s)[alone]
        times = f"median {np.median(wait_s):,.0f} s, longest {wait_s.max():,.0f} s"
        yield f"{many:,} jobs waited ({times}) though none waited already and enough processors were free"
    if waits.any():
        ends_s, starts_s = np.sort(queue.end_s), queue.start_s[waits]
        before = np.searchsorted(ends_s, starts_s, side="right") - 1
        after_s = float(np.median(starts_s - np.where(before < 0, queue.arrival_s[0], ends_s[before])))
        if after_s >= SOON_S:
            yield f"jobs that waited started {after_s:,.0f} s (median) after the end of a job, not at once"


def _order(trace: Trace, queue: _Queue, outcome: JobLevelOutcome) -> Iterator[str]:
    """What the recorded starts show of an order other than that of arrivals."""
    asked_s = trace.recorded.asked_s
    if (asked_s >= 0).all() and (count := overtaken(queue.start_s, queue.size, asked_s)):
        order, ours_s = (
            np.argsort(outcome.jobs.submit_ns, kind="stable"),
            trace.jobs.estimates_ns() / WHOLE_NS,
        )
        simulated = overtaken(outcome.start_ns[order] / WHOLE_NS, queue.size[order], ours_s[order])
        what = "jobs started before an earlier one that asked for no more processors and no more time"
        yield f"{count:,} {what}, as under priorities, limits or holds (simulated: {simulated:,})"


def _most_busy(queue: _Queue) -> int:
    """The largest number of processors that recorded jobs have at once; times are known to a second only."""
    times = np.concatenate([queue.end_s - SOON_S, queue.start_s])
    changes = np.concatenate([-queue.size, queue.size])
    # Jobs of at most that second end before they start here; each had its processors all the same.
    return max(int(np.cumsum(changes[np.argsort(times, kind="stable")]).max()), int(queue.size.max()))


def _finds_room(queue: _Queue, processors: int) -> Hits:
    """Which jobs find none that waits, and enough processors free, when they arrive."""
    at_s = queue.arrival_s
    begun, ended = np.sort(queue.start_s), np.argsort(queue.end_s)
    by_start = np.concatenate([[0], np.cumsum(queue.size[np.argsort(queue.start_s)])])
    by_end = np.concatenate([[0], np.cumsum(queue.size[ended])])
    started = np.searchsorted(begun, at_s, side="right")
    busy = by_start[started] - by_end[np.searchsorted(queue.end_s[ended], at_s, side="right")]
    arrived = np.searchsorted(at_s, at_s, side="right")  # also those that arrive at the same time
    same = arrived - np.searchsorted(at_s, at_s, side="left") > 1
    others = arrived - started - 1  # a job that waits is among those that arrived, and has not started
    room: Hits = ~same & (others == 0) & (busy + queue.size <= processors)
    return room


def overtaken(start_s: Floats, size: Integers, asked_s: Floats) -> int:
    """How many jobs start before an earlier one that asks for no more processors and no more time.

    The jobs are in order of arrival. First-come first-served order with any backfilling has none: where
    the later job fits, the earlier one does.
    """
    count = 0
    order = np.argsort(start_s, kind="stable")
    waiting = order[:0]  # jobs that have arrived, and start later than those that are looked at
    arrived = 0
    for first in range(0, len(order), TOGETHER):
        jobs = order[first : first + TOGETHER, None]
        come = max(arrived, int(jobs.max()))
        waiting = np.concatenate([waiting, np.arange(arrived, come)])
        arrived = come
        waiting = waiting[start_s[waiting] > start_s[jobs[0]] + SOON_S]
        hit = (waiting < jobs) & (start_s[waiting] > start_s[jobs] + SOON_S)
        hit &= (size[waiting] <= size[jobs]) & (asked_s[waiting] <= asked_s[jobs])
        count += int(hit.any(axis=1).sum())
    return count
