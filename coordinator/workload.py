"""One workload to run for real, and its result: plain values in, plain values out.

The harness asks for a run with a :class:`Workload` and gets a :class:`Result`; everything
between (launching, slots, clean-up) is the coordinator's own business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.policies import Policy
from coordinator.view import ExecutionTime
from workloads.other import Command, InteractiveWork, SequentialWork
from workloads.program import Program

LEASE_S = 2.0
"""How long the agents go on without a driver, unless another time is asked for."""

Work = Program | Command | SequentialWork | InteractiveWork
"""What a job can run; all say with how many ``processes``."""


@dataclass(frozen=True)
class ParallelJob:
    """A job of the workload: its number, what it runs, and its time of arrival.

    ``estimate`` is an estimate of its execution time, for policies that use one.
    """

    number: int
    program: Work
    arrival_s: float = 0.0
    estimate: ExecutionTime | None = None


@dataclass(frozen=True)
class Node:
    """A host to run on, and how many of its processors to use: the first that it allows."""

    host: str
    processors: int = 1


@dataclass(frozen=True)
class Workload:
    """Jobs to run together under one policy.

    Attributes:
        jobs: numbered from 0 in file order.
        policy: who decides.
        processors: ids of the cores of this host; processor p of the policy is
            ``processors[p]``. Empty where there are nodes.
        blocking: name of the waiting rule of all ranks (``workloads.blocking.RULES``).
        spin_switches: spin of the fixed rule, in context switches.
        imbalance_estimate: from what the global-adaptive rule estimates the load imbalance
            (``workloads.blocking.ESTIMATES``).
        switch_us: cost of a context switch that the waiting rules go by.
        latency_us: one-way message latency that the waiting rules go by.
        local: "other" or "rr", the local scheduler's class of the ranks.
        mechanism: "signals", "freezer", "realtime", or "auto".
        bind: whether each rank is kept on the processor that the policy gives it; else it may be on all of
            its node's.
        seed: seed of the experiment.
        repeat: number of the repetition; seed, repeat and job number fix the compute times.
        unit_ns: calibrated cost of a step through the working set, 0 without one.
        timeout_s: after this long the run is ended and failed.
        timeline: whether the ranks record what they do when (``workloads.timeline``).
        nodes: the hosts to run on, whose processors are numbered node by node; empty for this
            host alone.
        lease_s: how long the agents go on without the driver, so that another one can take the run over.
        purpose: text of the caller, who finds it again with a run that is taken over
            (``coordinator.drive.takeover``).
    """

    jobs: tuple[ParallelJob, ...]
    policy: Policy
    processors: tuple[int, ...]
    blocking: str = "spin"
    spin_switches: float = 2.0
    imbalance_estimate: str = "longest-wait"
    switch_us: float = 10.0
    latency_us: float = 2.0
    local: str = "other"
    mechanism: str = "auto"
    bind: bool = True
    seed: int = 0
    repeat: int = 0
    unit_ns: float = 0.0
    timeout_s: float = 600.0
    timeline: bool = False
    nodes: tuple[Node, ...] = ()
    lease_s: float = LEASE_S
    purpose: str = ""

    @property
    def processor_count(self) -> int:
        """How many processors the policy has."""
        return sum(node.processors for node in self.nodes) or len(self.processors)


@dataclass(frozen=True)
class JobResult:
    """How one job ended. Times are nanoseconds since the start of the run.

    ``placement`` names the processor of each rank as the policy numbers them, from 0.
    ``start_ns`` and ``finish_ns`` are the first rank's first instruction and the last
    rank's last; both are None where the job did not get that far. ``failure`` is empty for
    a job that finished. ``output`` is what a job with a command has printed.
    """

    number: int
    processes: int
    placement: tuple[int, ...]
    arrival_ns: int
    start_ns: int | None
    finish_ns: int | None
    failure: str = ""
    output: str = ""


@dataclass(frozen=True)
class Switch:
    """One change of slot on one node.

    ``due_ns`` is when it was to happen and ``lateness_ns`` how much later the last process
    had been switched; ``skew_ns`` is the time between the first and the last processor.
    All nodes mean the same boundary by the same ``due_ns``.
    """

    slot: int
    due_ns: int
    lateness_ns: int
    skew_ns: int
    node: int = 0


@dataclass(frozen=True)
class NodeResult:
    """What is known of one node at the end of a run.

    Attributes:
        host: its own name.
        cores: ids of the cores used; the processors of the nodes are numbered one after another.
        priority: how promptly its agent was scheduled, in words.
        offset_ns: by how much the run's clock was ahead of the node's CLOCK_MONOTONIC.
        uncertainty_ns: by how much that may have been wrong, at worst.
        drift: how much faster the run's clock went, as a fraction.
        steps: how often one of the clocks jumped.
        dropped: lines to or from it that were no message.
        lost: why it was given up; empty if it was not.
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
    """The result of one run, complete also when it failed.

    ``ranks`` holds one record per rank that finished (``workloads.recorder``), its start and
    finish being nanoseconds since the start of the run too; ``failure`` is empty when every
    job finished. ``warnings`` name troubles that did not end the run.
    """

    jobs: tuple[JobResult, ...]
    ranks: tuple[Mapping[str, Any], ...]
    switches: tuple[Switch, ...]
    mechanism: str
    mechanism_reason: str
    launcher: str
    failure: str = ""
    nodes: tuple[NodeResult, ...] = ()
    warnings: tuple[str, ...] = ()
