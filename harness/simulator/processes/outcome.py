"""The outcome of a simulation: by job, by processor, by kind of wait."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from coordinator.view import Placement
from harness.simulator.processes import model as m
from harness.simulator.processes.machine import SimulatedJob
from harness.simulator.processes.model import Integers, State
from workloads.record import WaitCounts


@dataclass(frozen=True)
class ProcessOutcome:
    """One process that was dispatched. Times are nanoseconds since the start of the run."""

    # Time while it had its processor, by category: computing, communicating, synchronizing, switching.
    spent_ns: tuple[int, ...]
    dispatches: int  # how often it got the processor
    start_ns: int  # when it got the processor for the first time
    finish_ns: int  # when it lost the processor for the last time
    phases: int  # how many it has passed, or tasks it has taken


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of one job. Times are nanoseconds since the start of the run.

    ``finish_ns`` is None for a job that did not finish, ``placement`` empty for one that
    was never placed. ``barriers`` counts opening and closing ones, and waits for locks. ``cpu_ns`` is the
    CPU time of each process; ``processes`` has the processes that were dispatched.
    ``bursts_ns`` are the response times of the bursts of an interactive job, each from the end of
    the think time before it; empty for other jobs.
    """

    number: int
    placement: Placement
    arrival_ns: int
    finish_ns: int | None
    cpu_ns: tuple[int, ...]
    processes: tuple[ProcessOutcome, ...]
    reads: WaitCounts
    barriers: WaitCounts
    opening_barriers: WaitCounts
    bursts_ns: tuple[int, ...]
    requeued: int = 0  # how often it has lost its processors; all else is of its last run

    @property
    def response_ns(self) -> int | None:
        """Finish minus arrival."""
        return None if self.finish_ns is None else self.finish_ns - self.arrival_ns

    @property
    def start_ns(self) -> int | None:
        """When the first of its processes was dispatched; None if none was."""
        return min((process.start_ns for process in self.processes), default=None)


@dataclass(frozen=True)
class Outcome:
    """One finished simulation."""

    jobs: tuple[JobOutcome, ...]  # in order of their numbers
    end_ns: int  # when it ended
    spent_ns: Integers  # (P, 5) time of each processor by category; each row sums to ``end_ns``
    switches: Integers  # dispatches of each processor
    messages: int  # messages handled
    timers: int  # expired timers: ends of phases, gaps, switches and spins, and ticks
    throttled_ns: int  # time in which processors stood still by a quota, although processes were ready
    failure: str  # empty when every job finished
    # Rows of (time, processor, process, category, other), each valid until the next row of its processor.
    # ``other`` is the process that is read from; in a row of a switch or of no process the one that blocked
    # there and then. Process numbers run through the jobs in order of arrival, then through their second
    # launches, and so on; -1 is none. Empty unless asked for.
    timeline: Integers = field(repr=False)

    @property
    def makespan_ns(self) -> int | None:
        """Last finish minus first arrival; None unless every job finished."""
        finishes = [job.finish_ns for job in self.jobs if job.finish_ns is not None]
        if len(finishes) < len(self.jobs):
            return None
        return max(finishes) - min(job.arrival_ns for job in self.jobs)

    @property
    def throttled(self) -> float:
        """Share of all CPU time in which a quota kept ready processes from running."""
        total = self.spent_ns.sum()
        return float(self.throttled_ns / total) if total else 0.0

    @property
    def events(self) -> int:
        """Messages handled and timers expired."""
        return self.messages + self.timers

    @property
    def breakdown(self) -> dict[str, float]:
        """Share of all CPU time by category."""
        total = self.spent_ns.sum()
        return {
            name: float(part / total) if total else 0.0
            for name, part in zip(m.CATEGORIES, self.spent_ns.sum(axis=0), strict=True)
        }


def summarize(
    jobs: Mapping[int, SimulatedJob],
    placements: Mapping[int, Placement],
    state: State,
    timeline: Integers,
    failure: str,
) -> Outcome:
    """The outcome that ``state`` holds; ``jobs`` by the indices of the records of their last launches."""
    clock = state.clock
    for processor in state.processors[state.processors.current != m.NOBODY]:
        state.accounts[processor.account, processor.category] += clock.now_ns - processor.since_ns
        state.accounts[processor.current, m.LEFT] = clock.now_ns
    accounts = state.moved.copy()  # of the processors
    np.add.at(accounts, state.processes.processor, state.accounts)
    spent_ns = accounts[:, : len(m.CATEGORIES)]
    spent_ns[:, m.IDLE] = clock.now_ns - spent_ns.sum(axis=1)
    outcomes = [
        _job_outcome(state, index, job, placements.get(job.number, ()), index // len(jobs))
        for index, job in jobs.items()
    ]
    return Outcome(
        jobs=tuple(sorted(outcomes, key=lambda job: job.number)),
        end_ns=int(clock.now_ns),
        spent_ns=spent_ns,
        switches=accounts[:, m.DISPATCHES],
        messages=int(clock.messages),
        timers=int(clock.timers),
        throttled_ns=int(clock.throttled_ns),
        failure=failure,
        timeline=timeline,
    )


def _job_outcome(
    state: State, index: int, job: SimulatedJob, placement: Placement, requeued: int
) -> JobOutcome:
    record = state.jobs[index]
    count = record.processes if placement else 0
    processes = state.processes[record.first : record.first + count]
    finished = placement and record.unfinished == 0
    bursts = job.program.phase_count() if job.think_ns else 0
    bursts_ns = state.bursts_ns[record.bursts_at : record.bursts_at + bursts]
    return JobOutcome(
        number=job.number,
        placement=placement,
        arrival_ns=job.arrival_ns,
        finish_ns=int(record.finish_ns) if finished else None,
        cpu_ns=tuple(int(cpu_ns) for cpu_ns in processes.cpu_ns),
        processes=tuple(
            ProcessOutcome(
                tuple(account[: m.IDLE]), account[m.DISPATCHES], account[m.BEGAN], account[m.LEFT], phases
            )
            for account, phases in zip(
                state.accounts[record.first : record.first + count].tolist(),
                processes.phase.tolist(),
                strict=True,
            )
            if account[m.DISPATCHES]
        ),
        reads=_waits(state.waits[index, m.READS]),
        barriers=_waits(state.waits[index, m.OPENING_BARRIERS :].sum(axis=0)),
        opening_barriers=_waits(state.waits[index, m.OPENING_BARRIERS]),
        bursts_ns=tuple(bursts_ns[bursts_ns > 0].tolist()),
        requeued=requeued,
    )


def _waits(counts: Integers) -> WaitCounts:
    (spun, spun_ns), (blocked, blocked_ns) = counts.tolist()
    return WaitCounts(spun, blocked, spun_ns, blocked_ns, blocks=blocked)
