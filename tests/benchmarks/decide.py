"""How long one decision of each policy takes on a large machine with many jobs.

    python -P tests/benchmarks/decide.py [--processors 10000] [--jobs 1000] [--only NAME ...]

A session gets all jobs at once; then one job leaves and another comes, again and again. A row has the median
CPU time of these decisions, with all that the session does for them, and the longest one; the worst
policy is first. Sizes of jobs are spread evenly over the powers of two from 1 to a tenth of the machine, from
a fixed seed. Nothing runs: there are no processes, nodes or messages.
"""

import random
import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, tabled

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.topology import FLAT, Topology
from coordinator.view import ExecutionTime, Job, Machine
from workloads.machine import HYPERCUBE, MESH

ALSO = {
    "gang migrate": ("gang", {"migrate": True}),
    "gang unify": ("gang", {"unify": True}),
    "gang buddy": ("gang", {"packing": "buddy"}),
    "gang continuous": ("gang", {"packing": "continuous"}),
    "gang undivided": ("gang", {"packing": "undivided"}),
    "gang fill=jobs": ("gang", {"fill": "jobs"}),
    "gang share": ("gang", {"share": "sequential"}),
    "dhc share": ("dhc", {"share": "sequential"}),
}
"""Policies with other parameters, whose decisions take another way."""


def machine_for(name, processors):
    """A machine of that size with the topology that the policy needs."""
    if name == "hypercube":
        return Machine(1 << (processors - 1).bit_length(), Topology(HYPERCUBE))
    if name == "mesh":
        side = round(processors**0.5)
        return Machine(side * side, Topology(MESH, (side, side)))
    return Machine(processors, FLAT)


def workload(machine, jobs, slot_s):
    """Twice as many jobs as are there at a time, so that each that leaves has a successor."""
    draw = random.Random(1)
    sizes = [
        round(2 ** draw.uniform(0, (machine.processors // 10).bit_length() - 1)) for _ in range(2 * jobs)
    ]
    return [
        Job(n, size, n // jobs, estimate=ExecutionTime(size * slot_s), malleable=n % 4 == 3)
        for n, size in enumerate(sizes)
    ]


def measured_ms(policy, machine, jobs, decisions, limit_s):
    """CPU time of each decision; fewer than ``decisions`` if they take longer than ``limit_s``."""
    session = Session(policy, machine, workload(machine, jobs, 100.0))
    draw = random.Random(2)
    begin_s = time.thread_time()
    session.arrive(0, *range(1, jobs)).decide(0)
    first_ms = 1e3 * (time.thread_time() - begin_s)
    here, found = list(range(jobs)), []
    for turn in range(decisions):
        now_ns = 10**8 * (turn + 1) + 12345
        if turn % 2:
            event, number = session.arrive, jobs + turn // 2
            here.append(number)
        else:
            event, number = session.depart, here.pop(draw.randrange(len(here)))
        at_s = time.thread_time()
        event(number).decide(now_ns)
        found.append(1e3 * (time.thread_time() - at_s))
        if time.thread_time() - begin_s > limit_s:
            break
    return first_ms, found


def main():
    given = {"processors": 10_000, "jobs": 1000, "decisions": 21, "limit_s": 20.0}
    options = parsed(__doc__, **given, only={"nargs": "*", "default": ()})
    resource.setrlimit(resource.RLIMIT_CPU, (600, 600))
    cases = {name: (name, {}) for name in policies.known()} | ALSO
    rows = []
    for label, (name, parameters) in cases.items():
        if options.only and label not in options.only:
            continue
        machine = machine_for(name, options.processors)
        policy = policies.create(name, parameters)
        first_ms, found = measured_ms(policy, machine, options.jobs, options.decisions, options.limit_s)
        rows.append((statistics.median(found), max(found), first_ms, label))
    title = f"{options.processors} processors, {options.jobs} jobs"
    headed(title, "median, ms", "longest, ms", "all at once, ms")
    for *times_ms, label in sorted(rows, reverse=True):
        tabled(label, *(f"{time_ms:.1f}" for time_ms in times_ms))


if __name__ == "__main__":
    main()
