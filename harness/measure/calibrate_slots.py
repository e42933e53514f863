"""Costs of a slot switch, measured with jobs that only compute, so that none waits for another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coordinator.policies import create
from coordinator.workload import ParallelJob, Result, Workload
from workloads.options import Options
from workloads.program import Program

RunWorkload = Callable[[Workload, Callable[[str], None]], Result]
"""Runs a workload for real and reports its progress (``coordinator.drive.driver``)."""

QUANTUM_MS = 10.0
COMPUTE_US = 300_000.0
"""Two jobs take turns, so that slots change some sixty times."""


def measure(
    run_workload: RunWorkload, processors: Sequence[int], mechanism: str
) -> Mapping[str, list[float]]:
    """Samples in nanoseconds of ``slot_cost_ns``, ``lateness_ns`` and ``skew_ns``; empty if the run fails.

    ``slot_cost_ns`` has one sample per processor: the time from the first start to the last
    finish that no process used, divided by the number of slot switches. It includes the agent's
    time. ``lateness_ns`` and ``skew_ns`` have one sample per slot switch.
    """
    program = Program(processes=len(processors), granularity_us=COMPUTE_US, imbalance=0, phases=1)
    workload = Workload(
        jobs=(ParallelJob(0, program), ParallelJob(1, program)),
        policy=create("gang", {"quantum_ms": QUANTUM_MS}),
        processors=tuple(processors),
        options=Options(mechanism=mechanism),
    )
    result = run_workload(workload, lambda _: None)
    if result.failure or not result.switches:
        return {}
    ranks: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for rank in result.ranks:
        ranks[rank["processor"]].append(rank)
    unused_ns = [
        max(rank["finish_ns"] for rank in alike)
        - min(rank["start_ns"] for rank in alike)
        - sum(rank["cpu_ns"] for rank in alike)
        for alike in ranks.values()
    ]
    return {
        "slot_cost_ns": [max(0.0, time_ns / len(result.switches)) for time_ns in unused_ns],
        "lateness_ns": [float(switch.lateness_ns) for switch in result.switches],
        "skew_ns": [float(switch.skew_ns) for switch in result.switches],
    }
