"""The coordinator's interface: a :class:`Workload` to run, and its :class:`Result`, both plain values.

A :class:`History` hears of the run meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.owners import Owner
from coordinator.policies import Policy
from coordinator.topology import FLAT, Topology
from coordinator.view import UNKNOWN, After, ExecutionTime, Job, Placement, Submitter
from workloads.locks.lock_program import LockProgram
from workloads.options import DEFAULTS, Options
from workloads.program import Program
from workloads.record import RankResult
from workloads.work import Command, CommandLine, InteractiveWork, SequentialWork, Work

FOR_EVER_S = 1e9
"""A time limit for a run without one, in which changes of slot are not kept."""

LEASE_S = 2.0
"""Default time for which agents continue without a driver."""

KINDS: tuple[type[Work], ...] = (Command, CommandLine, SequentialWork, InteractiveWork, LockProgram, Program)
"""The kinds of work. The signs of those before Program tell their tables from its tables."""


@dataclass(frozen=True)
class SubmittedJob:
    """A submitted job: number, work, arrival, and an estimate of its execution time, if any.

    A job with ``after`` arrives when another one has ended, and not at a fixed time.
    """

    number: int
    program: Work
    arrival_s: float = 0.0
    estimate: ExecutionTime | None = None
    submitter: Submitter = UNKNOWN
    after: After | None = None

    def seen(self, execution_time: ExecutionTime | None = None) -> Job:
        """The job as policies see it: each thread of a command's rank counts as a process."""
        work = self.program
        return Job(
            number=self.number,
            processes=work.width,
            arrival_ns=round(self.arrival_s * 1e9),
            moldable=work.moldable,
            malleable=work.adapts,
            estimate=self.estimate,
            partners=work.partners,
            memory_bytes=work.working_set_bytes,
            submitter=self.submitter,
            execution_time=execution_time,
            after=self.after,
        )


@dataclass(frozen=True)
class ParallelJob(SubmittedJob):
    """A job of the workload.

    ``recording`` is the directory of this host in which ranks of a command leave a recording; empty for none.
    ``root`` is the name (``coordinator.host.identity``) of the first process, if others have started the job.
    ``outputs`` are the files of this host for what its launcher writes, and for its errors. Without them,
    both go to files of the run, which keep their beginning and their end.
    """

    recording: str = ""
    root: str = ""
    outputs: tuple[Path, Path] | None = None


@dataclass(frozen=True)
class Node:
    """A host, and the number of its processors to use: the first ones that it allows."""

    host: str
    processors: int = 1


@dataclass(frozen=True)
class Workload:
    """Jobs to run together under one policy.

    Attributes:
        jobs: numbered from 0 in file order.
        policy: the scheduling policy.
        processors: ids of the cores of this host; processor p of the policy is ``processors[p]``. Empty where
            there are nodes.
        options: how processes wait, stay on processors and are helped, as the scheduler wants it.
        context_switch_us: cost of a context switch for the waiting rules.
        latency_us: one-way message latency for the waiting rules.
        seed: seed of the experiment.
        repeat: number of the repetition; seed, repeat and job number fix the compute times.
        memory_step_ns: calibrated cost of a step through the working set, 0 without one.
        timeout_s: a run that takes longer fails.
        timeline: whether ranks record a timeline (``workloads.timeline``).
        nodes: the hosts, whose processors are numbered node by node; empty for this host alone.
        lease_s: how long agents continue without an answer of the driver.
        topology: how the processors are connected, for policies that look at it.
        owners: of the workstations; seed and repeat fix the random times at which they come and go.
    """

    jobs: tuple[ParallelJob, ...]
    policy: Policy
    processors: tuple[int, ...]
    options: Options = DEFAULTS
    context_switch_us: float = 10.0
    latency_us: float = 2.0
    seed: int = 0
    repeat: int = 0
    memory_step_ns: float = 0.0
    timeout_s: float = 600.0
    timeline: bool = False
    nodes: tuple[Node, ...] = ()
    lease_s: float = LEASE_S
    topology: Topology = FLAT
    owners: tuple[Owner, ...] = ()

    @property
    def processor_count(self) -> int:
        return sum(node.processors for node in self.nodes) or len(self.processors)


@dataclass(frozen=True)
class JobResult:
    """The result of one job. Times are nanoseconds since the start of the run.

    ``placement`` is the processor of each rank, or of each of its threads, as the policy numbers them, from
    0. ``start_ns`` is the first instruction of the first rank, ``finish_ns`` the last instruction of the
    last rank; both are None if the job did not get that far. ``failure`` is empty for
    a job that finished. ``output`` is the output of a command without ``outputs``. ``status`` is how its
    launcher has ended, as in ``subprocess``; None if it did not run. ``admitted_ns`` is when the policy first
    gave the job processors and a slot; the time from then to its start is the start-up.
    ``requeued`` is how often it has lost its processors and gone back into the queue; start and finish are
    those of its last run.
    """

    number: int
    processes: int
    placement: Placement
    arrival_ns: int
    start_ns: int | None
    finish_ns: int | None
    failure: str = ""
    output: str = ""
    admitted_ns: int | None = None
    requeued: int = 0
    status: int | None = None


@dataclass(frozen=True)
class Switch:
    """A slot switch on one node.

    ``due_ns`` is the planned time, ``switch_delay_ns`` the delay of the last process,
    ``skew_ns`` the time between the first and the last processor.
    The same boundary has the same ``due_ns`` on all nodes.
    """

    slot: int
    due_ns: int
    switch_delay_ns: int
    skew_ns: int
    node: int = 0


@dataclass(frozen=True)
class NodeResult:
    """One node at the end of a run.

    Attributes:
        host: the name that it reports.
        cores: ids of the cores used; processors are numbered node by node.
        priority: scheduling priority of its agent, in words.
        offset_ns: the run's clock minus the node's CLOCK_MONOTONIC.
        uncertainty_ns: largest error that the offset may have had.
        drift: relative speed of the run's clock, minus 1.
        steps: number of jumps of either clock.
        dropped: number of invalid messages to or from it.
        lost: why the driver gave it up; empty if it did not.
    """

    host: str
    cores: tuple[int, ...]
    priority: str = ""
    offset_ns: int = 0
    uncertainty_ns: int = 0
    drift: float = 0.0
    steps: int = 0
    dropped: int = 0
    lost: str = ""


@dataclass(frozen=True)
class Result:
    """The result of one run, complete even if the run failed.

    ``ranks`` has a result for each rank that finished, with start and finish in nanoseconds since the start
    of the run. ``failure`` is empty if every job finished, ``broken`` if the run went on to its end, whatever
    became of its jobs. ``warnings`` are faults that did not stop the run.
    ``origin_ns`` is when it began, by the clock of the driver's host (time.monotonic_ns()); None if that is
    not known. ``throttled``: in how many periods the CPU quota of the workload's options has stopped
    processes, and the CPU time that this has cost, in seconds; None without one.
    """

    jobs: tuple[JobResult, ...]
    ranks: tuple[RankResult, ...]
    switches: tuple[Switch, ...]
    mechanism: str
    mechanism_reason: str
    launcher: str
    failure: str = ""
    broken: str = ""
    nodes: tuple[NodeResult, ...] = ()
    warnings: tuple[str, ...] = ()
    origin_ns: int | None = None
    throttled: tuple[int, float] | None = None


class History:
    """Hears what happens in a run; times are nanoseconds since its start. This one keeps nothing.

    ``begin_ns`` is where the run's clock begins: 0, or later if this is the rest of a run.
    """

    @property
    def begin_ns(self) -> int:
        return 0

    def begins(self, job: int, at_ns: int) -> None:
        """A job begins; again if it has lost its processors."""

    def ends(self, job: JobResult, ranks: Sequence[RankResult], at_ns: int) -> None:
        """A job has finished or failed, with what its ranks have reported."""


NO_HISTORY = History()
