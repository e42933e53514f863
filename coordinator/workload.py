"""One workload to run for real, and what came of it: plain values in, plain values out.

The harness asks for a run with a :class:`Workload` and gets a :class:`Result`; everything
between (launching, slots, clean-up) is the coordinator's own business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.policies import Policy
from workloads.program import Program


@dataclass(frozen=True)
class ParallelJob:
    """A job of the workload: its number, program and time of arrival."""

    number: int
    program: Program
    arrival_s: float = 0.0


@dataclass(frozen=True)
class Workload:
    """Jobs to run together under one policy.

    Attributes:
        jobs: numbered from 0 in file order.
        policy: who decides.
        processors: ids of the cores; processor p of the policy is ``processors[p]``.
        blocking: name of the waiting rule of all ranks (``workloads.blocking.RULES``).
        spin_switches: spin of the fixed rule, in context switches.
        switch_us: cost of a context switch that the waiting rules go by.
        latency_us: one-way message latency that the waiting rules go by.
        local: "other" or "rr", the local scheduler's class of the ranks.
        mechanism: "signals", "freezer", "realtime", or "auto".
        seed: seed of the experiment.
        repeat: number of the repetition; seed, repeat and job number fix the compute times.
        unit_ns: calibrated cost of a step through the working set, 0 without one.
        timeout_s: after this long the run is ended and failed.
        timeline: whether the ranks record what they do when (``workloads.timeline``).
    """

    jobs: tuple[ParallelJob, ...]
    policy: Policy
    processors: tuple[int, ...]
    blocking: str = "spin"
    spin_switches: float = 2.0
    switch_us: float = 10.0
    latency_us: float = 2.0
    local: str = "other"
    mechanism: str = "auto"
    seed: int = 0
    repeat: int = 0
    unit_ns: float = 0.0
    timeout_s: float = 600.0
    timeline: bool = False


@dataclass(frozen=True)
class JobResult:
    """What became of one job. Times are nanoseconds since the start of the run.

    ``placement`` names the processor of each rank as the policy numbers them, from 0.
    ``start_ns`` and ``finish_ns`` are the first rank's first instruction and the last
    rank's last; both are None where the job did not get that far. ``failure`` is empty for
    a job that finished.
    """

    number: int
    processes: int
    placement: tuple[int, ...]
    arrival_ns: int
    start_ns: int | None
    finish_ns: int | None
    failure: str = ""


@dataclass(frozen=True)
class Switch:
    """One change of slot on one node.

    ``due_ns`` is when it was to happen and ``lateness_ns`` how much later the last process
    had been switched; ``skew_ns`` is the time between the first and the last processor.
    """

    slot: int
    due_ns: int
    lateness_ns: int
    skew_ns: int


@dataclass(frozen=True)
class Result:
    """What one run gave, complete also when it failed.

    ``ranks`` holds one record per rank that finished (``workloads.recorder``), its start and
    finish being nanoseconds since the start of the run too; ``failure`` is empty when every
    job finished.
    """

    jobs: tuple[JobResult, ...]
    ranks: tuple[Mapping[str, Any], ...]
    switches: tuple[Switch, ...]
    mechanism: str
    mechanism_reason: str
    launcher: str
    failure: str = ""
