"""What recording a timeline costs: the same program with and without, run in turn.

    mpiexec -n 2 -bind-to none python -m mpi4py tests/benchmarks/timeline.py [GRANULARITY_US]

Prints the CPU time of rank 0, which blocks at once in every wait, so that other load
on the host hardly changes it: the least of many rounds that alternate between the two, and
the overhead, which is to stay under 3 % at a granularity of 1 ms.
"""

import os
import sys

from workloads.execute import LaunchedProgram
from workloads.messaging import world
from workloads.program import Program
from workloads.rank import prepare
from workloads.timeline import Timeline
from workloads.waiting_rules import waiting_rule

ROUNDS, PHASES = 60, 40
PATTERNS = ("BARRIER", "NEWS", "TRANSPOSE")


def run_ns(comm, program, number, timeline):
    """CPU time that the program takes on this rank."""
    rule = waiting_rule(
        "immediate", context_switch_us=10.0, latency_us=2.0, spin_switches=2, imbalance_us=0.0
    )
    execution = prepare(LaunchedProgram(comm, program, lambda program: rule, (1, number, 0), 0.0), timeline)
    record = execution.run()
    execution.close()
    return record.cpu_ns


def overhead(comm, pattern, granularity_us):
    """Least CPU times in ms, without and with a timeline, and the second over the first - 1."""
    program = Program(
        pattern=pattern, processes=comm.size, granularity_us=granularity_us, imbalance=0.25, phases=PHASES
    )
    least = {False: float("inf"), True: float("inf")}
    for number in range(ROUNDS):
        for traced in (number % 2 == 0, number % 2 == 1):
            took_ns = run_ns(comm, program, 0, Timeline() if traced else None)
            least[traced] = min(least[traced], took_ns)
    off, on = least[False] / 1e6, least[True] / 1e6
    return off, on, on / off - 1


def main():
    comm = world()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[comm.rank % len(cores)]})
    granularity_us = float(sys.argv[1]) if len(sys.argv) > 1 else 1000.0
    for pattern in PATTERNS:
        off, on, share = overhead(comm, pattern, granularity_us)
        if comm.rank == 0:
            times = f"{off:8.2f} ms without, {on:8.2f} ms with"
            print(f"{pattern:10} g = {granularity_us:g} us: {times}, {share:+.2%}")


if __name__ == "__main__":
    main()
