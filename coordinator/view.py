"""What a policy sees and what it answers: plain frozen values, no clock and no process.

Jobs have their numbers from the experiment; processors are numbered from 0. Times are
nanoseconds since the start of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Annotated, Any

from coordinator.topology import FLAT, Topology
from workloads.parameters import Bounds, Checked, Name

Placement = tuple[int, ...]
"""The processor of each process of a job, in rank order."""

Assignment = tuple[tuple[int, ...], ...]
"""The jobs of each processor that may run there."""


MOST_NICE = 2_147_483_645  # as in Slurm


class Reason(Enum):
    """Why a policy is asked: the gravest of all that has happened at one time. The gravest comes first."""

    NODE_LOST = "node lost"
    DEPARTURE = "departure"
    ARRIVAL = "arrival"
    OWNER = "owner"
    PHASE = "phase"
    OBSERVATION = "observation"
    TIMER = "timer"
    SLOT_END = "slot end"


@dataclass(frozen=True)
class Machine:
    """The processors that an experiment may use, and how they are connected."""

    processors: int
    topology: Topology = FLAT

    def hops(self, a: int, b: int) -> int:
        """The length of the shortest way from processor ``a`` to processor ``b``."""
        return self.topology.hops(a, b)


def execution_time_s(processors: Any, work_s: Any, alpha_s: Any, beta_s: Any) -> Any:
    """Seconds on ``processors`` processors: T(p) = work / p + alpha + beta p; numbers or arrays.

    A leaf function, which the job-level simulator compiles. ``work_s`` is phi W.
    Source: Sevcik 1994; Anastasiadis and Sevcik 1997, equation (5), with phi constant.
    """
    return work_s / processors + alpha_s + beta_s * processors


def useful_processors(min_processes: int, max_processes: int, work_s: float, beta_s: float) -> int:
    """The fewest processors, from ``min_processes`` to ``max_processes``, on which T(p) is smallest.

    A leaf function, as ``execution_time_s``. T falls from p to p + 1 while W / (p (p + 1)) is more than beta,
    so this is p_max of Anastasiadis and Sevcik 1997, equation (6), in whole processors.
    """
    low = min_processes
    high = max_processes
    while low < high:
        middle = (low + high) // 2
        if work_s > beta_s * middle * (middle + 1):
            low = middle + 1
        else:
            high = middle
    return low


def average_parallelism(max_processes: int, work_s: float, alpha_s: float, beta_s: float) -> float:
    """The best speedup T(1) / T(m) of a job that m = ``max_processes`` processors make fastest; 1 to m.

    A leaf function, as ``execution_time_s``. A job that can have any number of processors keeps as
    many busy on average: Eager, Zahorjan and Lazowska 1989.
    """
    work_s = max(work_s, 1e-9)  # so that a job of no length does not divide by zero
    return min(
        float(max_processes),
        (work_s + alpha_s + beta_s) / (work_s / max_processes + alpha_s + beta_s * max_processes),
    )


@dataclass(frozen=True)
class ExecutionTime:
    """How long a job takes alone, by ``execution_time_s`` with the parameters of the job.

    Attributes:
        work_s: essential work W, in seconds on one processor.
        phi: uneven share of the work, 1 for none.
        alpha_s: work that every processor does again.
        beta_s: communication and congestion, per processor.
    """

    work_s: float
    phi: float = 1.0
    alpha_s: float = 0.0
    beta_s: float = 0.0

    def on(self, processors: int) -> float:
        """Seconds on ``processors`` processors."""
        return float(execution_time_s(processors, self.phi * self.work_s, self.alpha_s, self.beta_s))


@dataclass(frozen=True)
class Submitter(Checked):
    """Who submits a job, and to what: names of a site, empty where nothing is known.

    Attributes:
        user: who submits it.
        account: who pays for it.
        partition: where it waits.
        qos: the quality of service that it asks for.
        nice: by how much its user lowers its priority.
    """

    user: Annotated[str, Name()] = ""
    account: Annotated[str, Name()] = ""
    partition: Annotated[str, Name()] = ""
    qos: Annotated[str, Name()] = ""
    nice: Annotated[int, Bounds(-MOST_NICE, MOST_NICE)] = 0


UNKNOWN = Submitter()
"""That of a job of which nothing is known."""


ANY_JOB = -1


@dataclass(frozen=True)
class After:
    """That a job arrives after the end of another one (fields 17 and 18 of the Standard Workload Format).

    Attributes:
        job: the number of that job. ANY_JOB: whichever ends next, and lets only one such job arrive.
        think_ns: the time from that end to the arrival; -1 if it is unknown.
    """

    job: int
    think_ns: int = -1


def arrival_after_ns(end_ns: int, own_ns: int, think_ns: int) -> int:
    """When a job arrives whose preceding job has ended: after ``think_ns``.

    If that time is unknown, -1, it arrives at once, but not before its ``own_ns``.
    """
    return max(end_ns, own_ns) if think_ns < 0 else end_ns + think_ns


@dataclass(frozen=True)
class Job:
    """A job that has arrived and not yet finished.

    Attributes:
        number: of the job in the experiment.
        processes: what it asks for; the most it can be started with if it is moldable or malleable.
        arrival_ns: when it arrives.
        moldable: whether it can be started with fewer.
        malleable: whether their number can change while it runs.
        estimate: of its execution time; None if nothing is known.
        execution_time: the true one, for policies that are told; None if unknown.
        partners: for each of ``processes`` those from which it reads, once for every read of a phase; empty
            if nothing is known.
        usable: how many processes it can use in its present phase, as it says; None if it has said nothing.
        working_sets: the ranks that get messages from each other often, directly or through others of their
            set, as observed so far; each set ascending, no rank in two.
        memory_bytes: what each process computes in, its working set; 0 if nothing is known.
        submitter: who submits it, and to what.
        after: the job that it follows; then ``arrival_ns`` is its own time of arrival until that one ends.
    """

    number: int
    processes: int
    arrival_ns: int = 0
    moldable: bool = False
    malleable: bool = False
    estimate: ExecutionTime | None = None
    execution_time: ExecutionTime | None = None
    partners: tuple[tuple[int, ...], ...] = ()
    usable: int | None = None
    working_sets: tuple[tuple[int, ...], ...] = ()
    memory_bytes: int = 0
    submitter: Submitter = UNKNOWN
    after: After | None = None

    @property
    def min_processes(self) -> int:
        """The fewest processes it can be started with."""
        return 1 if self.moldable or self.malleable else self.processes

    @property
    def max_processes(self) -> int:
        """The largest number of processes it can use: with more it would not be faster, by its estimate."""
        if self.estimate is None:
            return self.processes
        time = self.estimate
        return useful_processors(self.min_processes, self.processes, time.phi * time.work_s, time.beta_s)

    @property
    def average(self) -> float:
        """The processes that it keeps busy on average if it can have ``max_processes``, by its estimate."""
        if self.estimate is None:
            return float(self.max_processes)
        time = self.estimate
        return average_parallelism(self.max_processes, time.phi * time.work_s, time.alpha_s, time.beta_s)


@dataclass(frozen=True)
class View:
    """All that a policy may know when it decides.

    Attributes:
        machine: the processors.
        now_ns: the time of the event that asks.
        jobs: arrived, unfinished jobs in order of arrival, the arriving one included.
        workload_jobs: how many jobs the whole workload has, arrived or not.
        previous: the last decision, None at the first call.
        slot: index of the slot of ``previous`` that is in force.
        elapsed_ns: for how long that slot has been in force.
        lost: processors that are no longer there.
        owner_load: the load that the owner of a workstation makes on each of its processors at this
            moment; a processor that is missing has no load of an owner.
        attained_ns: CPU time that decisions have given each of ``jobs`` so far
            (``coordinator.decide.session``); for policies with ``uses_attained_service``, else an error.
    """

    machine: Machine
    now_ns: int
    jobs: tuple[Job, ...]
    workload_jobs: int
    previous: Decision | None = None
    slot: int = 0
    elapsed_ns: int = 0
    lost: frozenset[int] = frozenset()
    owner_load: Mapping[int, float] = field(default_factory=dict)
    attained_ns: Mapping[int, int] = field(default_factory=dict)

    @property
    def state(self) -> Any:
        """The state that the policy has kept in its last decision; None before the first one."""
        return self.previous.state if self.previous else None

    def slots_over(self, reason: Reason) -> int:
        """How many slots of the last table are over, if the policy is asked for this reason."""
        if self.previous is None:
            return 0
        length_ns = self.previous.slots[self.slot].length_ns
        used_up = length_ns is not None and self.elapsed_ns >= length_ns
        return len(self.previous.slots) if used_up or reason is Reason.SLOT_END else self.slot


@dataclass(frozen=True)
class Slot:
    """An interval in which each processor may run the processes of the given jobs.

    ``runs[p]`` holds the jobs whose process may run on processor p: one under gang scheduling, any number
    where the local scheduler shares the processor, none for an idle processor. ``length_ns`` None means until
    the next decision. ``allowed_ranks`` has (job, rank): of the jobs that it names, no other process may run.
    """

    runs: Assignment
    length_ns: int | None = None
    allowed_ranks: tuple[tuple[int, int], ...] = ()

    def allows(self, job: int, rank: int, processor: int) -> bool:
        """Whether the process, which is placed on ``processor``, may run."""
        if job not in self.runs[processor]:
            return False
        return (job, rank) in self.allowed_ranks or all(job != other for other, _ in self.allowed_ranks)


@dataclass(frozen=True)
class Decision:
    """Where jobs are, and a table of slots that says who may run.

    Attributes:
        placements: for every admitted job the processor of each of its processes, in rank
            order; its length is the number of processes. A job without one waits.
        slots: the table, never empty; its first slot is in force from the decision on.
        elapsed_ns: how much of the first slot counts as used already, so that an event in
            the middle of a slot need not lengthen it. Counts in the first cycle only.
        cyclic: whether the table starts over at its end; otherwise the policy is asked
            again, with Reason.SLOT_END.
        state: anything that the policy wants to find in ``View.previous`` next time.
        timer_ns: how long after the decision the policy wants to be asked again, with
            Reason.TIMER, if nothing else happens before; also in addition to a cyclic table.
        vacates: jobs that lose their processors now, with all that they have done since their last
            checkpoint. They wait, or start again on their new placement.
    """

    placements: Mapping[int, Placement]
    slots: tuple[Slot, ...]
    cyclic: bool = True
    elapsed_ns: int = 0
    state: Any = field(default=None, compare=False)
    timer_ns: int | None = None
    vacates: tuple[int, ...] = ()

    def running(self, slot: int) -> frozenset[int]:
        """Numbers of the jobs that may run somewhere in slot ``slot``."""
        return frozenset(chain.from_iterable(self.slots[slot].runs))
