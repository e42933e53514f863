"""Warnings: weaknesses of conditions, results and calibrations, in numbers, with remedies."""

import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, auto

from coordinator.host.processor_claims import tells_of_another_run
from harness.analyse.columns import ends
from harness.analyse.rows import Row
from harness.analyse.statistics import FEWEST, estimate
from harness.measure import plan, trust
from harness.measure.disturbance import lost, that_stand
from harness.measure.host_check import OTHERS, STEAL
from harness.measure.trust import Chosen
from harness.spec.scheduler import shortest_ms
from harness.store.conditions import Conditions, Moment, crowding, of_run
from harness.store.records import DEDICATED, Calibration, RunRecord, quantile
from workloads.work import Command, processes_name

THREADS = "OMP_NUM_THREADS"
WIDE = 0.20
UNSTEADY = 0.10
FEW_SLOTS = 10
LATE = 0.10
FREQUENCY = 0.05
THROTTLED = 0.01
"""Most share of the CPU time in which a CPU quota stops programs that are measured."""

WAITING = "{} threads of other programs waited for a processor: repeat on an idle host"

SPARE = "raise it (cpu.max), run fewer processes, or wait two-phase (lockstep exec)"


class Kind(IntEnum):
    """What a warning is about, the gravest first: wrong results come before uncertain ones."""

    LOST_WAKE_UPS = auto()
    """The program under test, or Lockstep, has a fault."""
    OTHER_LOCKSTEP = auto()
    """Another run had the same processors."""
    TIME_TAKEN = auto()
    """The hypervisor, other programs or a CPU quota took CPU time; the larger share comes first."""
    OF_RUNS = auto()
    """Runs noticed something themselves."""
    INTERRUPTED = auto()
    """A run was made in several parts."""
    WAITING_THREADS = auto()
    FREQUENCY = auto()
    TOO_MANY_THREADS = auto()
    """The programs ask for more threads than they have processors."""
    UNSTEADY = auto()
    """Dedicated times, or samples of a calibration, differ."""
    CALIBRATION = auto()
    """The constants are not this host's, or not of now."""
    INTERVALS = auto()
    SLOTS = auto()
    SET_ASIDE = auto()
    """Runs that do not count; what is shown is sound."""


@dataclass(frozen=True)
class Warned:
    """A warning: its kind, its sentence without the point, and what orders several of a kind."""

    kind: Kind
    sentence: str
    size: float = 0.0

    @property
    def rank(self) -> tuple[Kind, float]:
        return self.kind, -self.size


def by_gravity(warned: Iterable[Warned]) -> list[str]:
    """The sentences, each once, the gravest first: in this order every report, page and document has them."""
    return list(dict.fromkeys(one.sentence for one in sorted(warned, key=lambda one: one.rank)))


def warnings_of(rows: Sequence[Row], records: Sequence[RunRecord]) -> list[str]:
    """The warnings, one sentence for each reason, the gravest first; they are about the runs that stand."""
    left = that_stand(records)
    of_runs = *_wakeups(records), *_machine(left), *_threads(left), *_dedicated(left), *_calibrations(records)
    of_runs = *of_runs, *_interrupted(left), *_set_aside(records, left)
    return by_gravity([*of_runs, *_intervals(rows), *_slots(rows)])


BUSY = "Not measurable now{}: other programs took up to {:.0%} of the processors."


def notice(rows: Sequence[Row], records: Sequence[RunRecord]) -> str:
    """That measured rows are withheld, and why, in one line; empty if none is."""
    hidden = [row for row in rows if row.withheld]
    if not hidden:
        return ""
    shown = [row for row in rows if row.median("measured") is not None]
    some = f" ({len(hidden)} of {len(hidden) + len(shown)} rows)" if shown else ""
    taken = max(map(lost, records), default=0.0)
    if taken > OTHERS:
        return BUSY.format(some, taken)
    return f"Not measurable now{some}: the dedicated runs were disturbed, since no schedule can be as fast."


def conclusive(rows: Sequence[Row], records: Sequence[RunRecord]) -> list[Row]:
    """The rows whose measured slowdown stands for itself; ``records`` are the measured runs.

    Their intervals are at most WIDE, and neither other runs of Lockstep, the hypervisor, other programs nor
    a CPU quota of others took much.
    """
    records = that_stand(records)
    if _shared(records) or _mean(records, "steal") > STEAL or _mean(records, "others") > OTHERS:
        return []
    if _throttled(records):
        return []
    return [row for row in rows if row.measured and row.measured.workload_slowdown.width <= WIDE]


def of_waits(before: Moment, after: Moment, *, complete: bool) -> list[str]:
    """Disturbances between two moments; what others took is unknown unless all programs ran to their end."""
    during = of_run(Conditions(), before, after)
    others = (during.others or 0.0) if complete else 0.0
    took = f"other programs took {others:.0%} of the CPU time: stop them, and repeat"
    theirs = [Warned(Kind.TIME_TAKEN, took, others)] if others > OTHERS else []
    return by_gravity([*_of_host(during), *theirs])


def of_host(during: Conditions) -> list[str]:
    """Disturbances in the conditions of a measurement (``conditions.of_run``)."""
    return by_gravity(_of_host(during))


def _of_host(during: Conditions) -> Iterator[Warned]:
    steal = during.steal or 0.0
    waiting = crowding(during)
    if steal > STEAL:
        took = f"the hypervisor took {steal:.1%} of the CPU time: repeat on a quieter host"
        yield Warned(Kind.TIME_TAKEN, took, steal)
    if (lost := during.throttled or 0.0) > THROTTLED:
        took = f"a CPU quota stopped the processes for {lost:.0%} of the CPU time: {SPARE}"
        yield Warned(Kind.TIME_TAKEN, took, lost)
    if waiting:
        yield Warned(Kind.WAITING_THREADS, WAITING.format(waiting))
    first_mhz = during.frequency_before_mhz
    last_mhz = during.frequency_mhz
    if first_mhz and last_mhz and max(first_mhz, last_mhz) > (1 + FREQUENCY) * min(first_mhz, last_mhz):
        change = f"from {first_mhz:.0f} to {last_mhz:.0f} MHz"
        remedy = "fix it (cpupower frequency-set -g performance), and repeat"
        yield Warned(Kind.FREQUENCY, f"the processors' frequency changed {change}: {remedy}")


def _shared(records: Sequence[RunRecord]) -> int:
    return sum(any(map(tells_of_another_run, record.conditions.warnings)) for record in records)


def _mean(records: Sequence[RunRecord], share: str) -> float:
    return statistics.fmean([getattr(record.conditions, share) or 0.0 for record in records] or [0.0])


def _throttled(records: Sequence[RunRecord]) -> list[float]:
    """The shares of the CPU time in which a CPU quota stopped runs that ask for none."""
    free = [record.conditions for record in records if not record.scheduler.get("quota_processors")]
    return [share for during in free if (share := during.throttled or 0.0) > THROTTLED]


def _machine(records: Sequence[RunRecord]) -> Iterator[Warned]:
    if shared := _shared(records):
        text = f"another run of Lockstep used the same processors in {shared} of {len(records)} runs"
        yield Warned(Kind.OTHER_LOCKSTEP, f"{text}: repeat when it has ended, or use other processors")
    during = [record.conditions for record in records]
    stolen = [one.steal for one in during]
    others = [one.others for one in during]
    for what, shares, most, digits, remedy in (
        ("the hypervisor took more than", stolen, STEAL, 1, "repeat on a quieter host"),
        ("other programs took more than", others, OTHERS, 0, "stop them, and repeat"),
        ("a CPU quota stopped the processes for more than", _throttled(records), THROTTLED, 0, SPARE),
    ):
        if above := [share for share in shares if share and share > most]:
            of_runs = f"in {len(above)} of {len(records)} runs, up to {max(above):.{digits}%}"
            sentence = f"{what} {most:.0%} of the CPU time {of_runs}: {remedy}"
            yield Warned(Kind.TIME_TAKEN, sentence, max(above))
    own = ([one for one in r.conditions.warnings if not tells_of_another_run(one)] for r in records)
    if warned := [warnings[0] for warnings in own if warnings]:
        first = f"{len(warned)} of {len(records)} runs have warnings; the first: {warned[0]}"
        yield Warned(Kind.OF_RUNS, first)
    if waiting := max(map(crowding, during), default=0):
        yield Warned(Kind.WAITING_THREADS, WAITING.format(waiting))


def _interrupted(records: Sequence[RunRecord]) -> Iterator[Warned]:
    """Which runs of a log were made in several parts."""
    for record in records:
        if times_ns := record.conditions.interrupted_ns:
            first_s, last_s = times_ns[0] / 1e9, times_ns[-1] / 1e9
            when = f"at {first_s:.1f} s"
            if len(times_ns) > 1:
                when = f"{len(times_ns)} times, from {first_s:.1f} to {last_s:.1f} s"
            name = plan.label(record.kind, record.scheduler, record.settings)
            again = f"{record.conditions.ran_again} of {len(record.jobs)} jobs ran again"
            sentence = f"the run under {name} was interrupted {when} of its clock, and continued: {again}"
            yield Warned(Kind.INTERRUPTED, sentence, len(times_ns))


def _set_aside(records: Sequence[RunRecord], left: Sequence[RunRecord]) -> Iterator[Warned]:
    if aside := len(records) - len(left):
        yield Warned(
            Kind.SET_ASIDE,
            f"{aside} of {len(records)} runs are set aside, since other programs disturbed them",
        )


def _calibrations(records: Sequence[RunRecord]) -> Iterator[Warned]:
    """Why runs have other constants than the newest: of reasons that differ in figures only, the last."""
    reasons = (why for one in records if (why := one.conditions.calibration))
    last = {re.sub(r"[\d.]+", "", why): why for why in reasons}
    yield from (Warned(Kind.CALIBRATION, why) for why in last.values())


def _threads(records: Sequence[RunRecord]) -> Iterator[Warned]:
    jobs = ((run, job.work) for run in records for job in run.jobs if Command.sign in job.program)
    for record, work in jobs:
        values = {**record.conditions.environment, **dict(work.environment)}
        number = re.match(r"\s*(\d{1,6})", values.get(THREADS, ""))
        processors = len(record.processors)
        threads = int(number[1]) if number else 1
        way = ""
        if record.scheduler["bind"] is not False and work.width < processors:
            way = f", threads = {threads} or bind = false, since each process is bound to {work.threads}"
            processors = work.width
        if threads > 1 and work.processes * threads > processors:
            what = f"{work.short_name}: {processes_name(work.processes)} of {threads} threads"
            most = max(1, processors // work.processes)
            yield Warned(
                Kind.TOO_MANY_THREADS, f"{what} on {processors} of the processors: set {THREADS}={most}{way}"
            )


def _dedicated(records: Sequence[RunRecord]) -> Iterator[Warned]:
    """Dedicated runs of one program on the same processors should always take the same time."""
    times: dict[tuple[int, int, str], list[int]] = {}
    for record in records:
        if record.kind == DEDICATED and record.makespan_ns is not None:
            alike = record.cell, record.jobs[0].job, record.scheduler["waiting"]
            times.setdefault(alike, []).append(record.makespan_ns)
    spread = max((max(series) / min(series) - 1 for series in times.values()), default=0.0)
    if spread > UNSTEADY:
        text = f"dedicated times of one program differ by up to {spread:.0%} between repeats"
        yield Warned(Kind.UNSTEADY, f"{text}: repeat on an idle host")


def _intervals(rows: Sequence[Row]) -> Iterator[Warned]:
    wide: list[tuple[float, str, str]] = []
    few = {1: 0, 2: 0}
    for row in rows:
        slowdown = row.measured.workload_slowdown if row.measured else estimate([])
        if slowdown.n in few:
            few[slowdown.n] += 1
        if slowdown.ci95 and slowdown.width > WIDE:
            wide.append((slowdown.width, row.name, ends(slowdown)))
    for repeats, what in ((1, "one repeat"), (2, "two repeats")):
        if few[repeats]:
            text = f"{few[repeats]} of {len(rows)} rows have no interval, with {what} each"
            yield Warned(Kind.INTERVALS, f"{text}: set repeats = {FEWEST} or more")
    if wide:
        _, name, interval = max(wide)
        text = f"{len(wide)} of {len(rows)} rows have intervals wider than {WIDE:.0%} of the median"
        remedy = "add repeats (run --resume --set repeats=N, colocate and tune --rounds N)"
        yield Warned(Kind.INTERVALS, f"{text}, the widest {name} ({interval}): {remedy}")


def _slots(rows: Sequence[Row]) -> Iterator[Warned]:
    """That slots were few or late: one sentence for all rows, with the figures of the worst."""
    few: list[tuple[float, str, str]] = []
    behind: list[tuple[float, str, str]] = []
    for row in rows:
        if row.measured is None or row.measured.switches is None:
            continue
        switches = row.measured.switches
        per_run = switches.n / row.measured.workload_slowdown.n
        if per_run < FEW_SLOTS:
            text = f"only {per_run:.0f} slots in each run; use longer programs (dedicated_s)"
            few.append((-per_run, row.name, text))
        quantum_us = 1e3 * min(shortest_ms(row.scheduler).values(), default=0.0)
        late = switches.switch_delay_us
        if quantum_us and late.p99 > LATE * quantum_us:
            text = (
                f"one slot in a hundred began at least {late.p99 / 1e3:.2g} ms late, more than "
                f"{LATE:.0%} of its length, and half of them {late.p50 / 1e3:.2g} ms: "
                f"use longer slots or a quieter host"
            )
            behind.append((late.p99 / quantum_us, row.name, text))
    for alike in (behind, few):
        if alike:
            _, name, text = max(alike)
            which = f"{len(alike)} rows, the worst {name}" if len(alike) > 1 else name
            yield Warned(Kind.SLOTS, f"{which}: {text}")


def _wakeups(records: Sequence[RunRecord]) -> Iterator[Warned]:
    ranks = (rank for record in records for rank in record.ranks)
    # In the programs of others MPI moves some messages on without ringing: naps there find what is not lost.
    lost = sum(rank.rechecks or 0 for rank in ranks if rank.asleep_ns is None)
    if lost:
        yield Warned(
            Kind.LOST_WAKE_UPS,
            f"wake-ups were lost: {lost} sleeps ended by the safety time-out although a message was there",
        )


OS_NOISE = 0.02
SPREAD = 3

OLD_DAYS = 7
MESSAGES = ("latency_ns", "remote_wakeup_ns", "local_switch_ns", "idle_wakeup_ns", "send_ns", "receive_ns")
"""Quantities whose samples should be similar."""


def of_calibration(calibrations: Sequence[Calibration]) -> list[str]:
    """What weakens a calibration."""
    return by_gravity(_of_calibration(calibrations))


def _of_calibration(calibrations: Sequence[Calibration]) -> Iterator[Warned]:
    during = calibrations[-1].conditions if calibrations else Conditions()
    yield from _of_host(during)
    lost = max(trust.in_os_noise(calibrations), during.others or 0.0)
    if lost > OS_NOISE:
        agrees = ", and the constants are those of the calibration before it" if during.agrees else ""
        yield Warned(
            Kind.TIME_TAKEN,
            f"other programs took {lost:.1%} of the CPU time: stop them, and repeat{agrees}",
            lost,
        )
    samples = _samples(calibrations)
    unsteady = [
        f"{name.replace('_ns', '')} ({spread:.1f}x)"
        for name in MESSAGES
        if (spread := _spread(samples.get(name, []))) > SPREAD
    ]
    if unsteady:
        text = f"a tenth of the samples is at least {SPREAD} times the median: {', '.join(unsteady)}"
        yield Warned(
            Kind.UNSTEADY, f"{text}; the medians are valid, but on an idle host the tails are shorter"
        )


def of_use(taken: Chosen, here: Conditions, now: datetime | None = None) -> list[str]:
    """Warnings about what rests on a calibration, now and on a host with the conditions ``here``."""
    return by_gravity(Warned(Kind.CALIBRATION, text) for text in _of_use(taken, here, now))


def _of_use(taken: Chosen, here: Conditions, now: datetime | None) -> Iterator[str]:
    calibration = taken.calibration
    if taken.line:
        yield taken.line
    yield from (f"the calibration: {warning}" for warning in of_calibration(calibration))
    then = calibration[-1].conditions if calibration else here
    remedy = "repeat it (lockstep calibrate)"
    days = trust.age_s(calibration, now) / 86_400
    if days > OLD_DAYS:
        yield f"the calibration is {days:.0f} days old: {remedy}"
    if calibration and then.steal is None:
        yield f"the calibration does not say what else ran: {remedy}"
    if then.kernel != here.kernel:
        yield f"the calibration was made with kernel {then.kernel}, and now it is {here.kernel}: {remedy}"


def _samples(calibrations: Sequence[Calibration]) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {}
    for one in calibrations:
        samples.setdefault(one.quantity, []).extend(one.samples)
    return samples


def _spread(samples: Sequence[float]) -> float:
    ordered = sorted(samples)
    return quantile(ordered, 0.9) / max(quantile(ordered, 0.5), 1.0) if ordered else 1.0
