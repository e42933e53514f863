"""The bounds of numbers in an experiment file or an option that are no field of a class (``parameters``).

Within the bounds the arithmetic holds: times fit into 64-bit nanoseconds, with room for their sum over
a run, and counts fit into memory. No experiment of practical length is outside.
"""

from collections.abc import Mapping
from typing import Any

from workloads.constants import CONSTANTS
from workloads.parameters import Bounds
from workloads.validation import InputError


def _count(minimum: int, maximum: int) -> Bounds:
    return Bounds(minimum, maximum, whole=True)


PROCESSORS = 4096
PROCESSES = Bounds(1, PROCESSORS, whole=True)
SIMULATED_PROCESSORS = 1_000_000
TRACE_S = 5e8
COST_US = Bounds(0, 1e7)
WORK_S = Bounds(1e-6, 1e6)
LOAD = Bounds(0, 1000)
RANDOM = _count(0, 2**63 - 1)

MACHINE_COSTS = ("context_switch_us", "hop_latency_us", *(one.name for one in CONSTANTS if one.given))

BOUNDS: Mapping[str, Bounds] = {
    "processors": _count(0, PROCESSORS),
    "hosts": _count(1, PROCESSORS),
    "repeats": _count(1, 10_000),
    "precision": Bounds(1e-4, 10),
    "seed": RANDOM,
    "lease_s": Bounds(2, 86_400),
    **{f"machine.{cost}": COST_US for cost in MACHINE_COSTS},
    "machine.quantum_ms": Bounds(10, 1e8),
    "machine.sides": _count(1, PROCESSORS),
    "machine.lost": _count(0, PROCESSORS - 1),
    "slurm.ntasks-per-node": _count(1, PROCESSORS),
    "simulated.processors": _count(0, SIMULATED_PROCESSORS),
    "trace.number": _count(0, 2**53),
    "trace.submit_s": Bounds(0, 1e10),
    "trace.time_s": Bounds(0, TRACE_S),
    "trace.status": _count(0, 5),
    "trace.other": Bounds(-1e18, 1e18),
    "owners.processors": _count(0, PROCESSORS - 1),
    "owners.present_s": Bounds(1e-3, 1e7),
    "owners.away_s": Bounds(1e-3, 1e7),
    "owners.load": LOAD,
    "owners.at_s": Bounds(0, 1e9),
    "--slowdown-bound": Bounds(1e-9, 1e9),
    "--tolerance": Bounds(0.0001, 0.99),
    "--jobs": _count(1, 1000),
    "--rounds": _count(1, 10_000),
    "--timeout-factor": Bounds(1, 1e6),
    "--working-set-bytes": _count(0, 1 << 40),
    "--run": RANDOM,
}
"""Bounds by table and key of the file, or by option."""

JOBS, RANKS, CELLS, RUNS, ALONE_S = 1000, 16_384, 10_000, 100_000, 1e7
"""Upper bounds of a whole experiment: jobs and processes of a workload, points of a sweep, runs, and
seconds that one job takes alone."""


def fits(
    key: str, processes: int, processors: int, *, lost: int = 0, under: str = "", more: str = ""
) -> None:
    """Accept a job not larger than the machine without ``lost`` processors; the message includes ``more``."""
    if processes > processors - lost:
        where = f" under {under}" if under else ""
        left = f", since machine.lost leaves {processors - lost} of {processors}" if lost else ""
        rule = f"must be at most {processors - lost}{where}, one process per processor{left}{more}"
        fewer = ", or make lost shorter" if lost else ""
        raise InputError(key, processes, rule, f"give the job fewer processes, or more processors{fewer}")


def within(field: str, value: Any, key: str = "") -> None:
    """Accept a number that ``BOUNDS[field]`` allows; ``key`` replaces its name in messages."""
    BOUNDS[field].check(key or field.rpartition(".")[2], value)
