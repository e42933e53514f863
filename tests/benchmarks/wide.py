"""Wide machines, simulated process by process: slowdown over nodes, and over the skew of slot switches.

    python -P tests/benchmarks/wide.py {nodes,skew} [--nodes N ...] [--dedicated-s S]

Three BARRIER jobs (v = 0.25 g) have a process on each node, of one processor each, with constants as of a
calibrated host. ``nodes`` prints a row for each number of nodes, ``skew`` a row for each skew: how late a
node changes slots is drawn once for each node, evenly from 0 to the skew, as where clocks differ. A simulated
processor is idle until its change, where a real one would go on with the process before: the costs are upper
bounds.
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, tabled

from coordinator import policies
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.options import Options
from workloads.program import Program

JOBS = 3


def slowdowns(schedulers, nodes, granularity_us, dedicated_s, skew_us=0):
    """The workload slowdown under each scheduler: (policy, its parameters)."""
    draw = random.Random(1)
    phases = round(dedicated_s * 1e6 / granularity_us)
    program = Program(
        pattern="BARRIER", processes=nodes, granularity_us=granularity_us, imbalance=0.25, phases=phases
    )
    machine = SimulatedMachine(
        nodes,
        context_switch_us=5,
        latency_us=10,
        local="eevdf",
        messages_to_self=False,
        handles_when_waiting=True,
        timers="synchronised",
        spin_clock="wall",
        slot_cost_us=[draw.uniform(0, skew_us) for _ in range(nodes)],
    )

    def taken_ns(name, parameters, jobs):
        waiting = "global-adaptive" if name == "implicit" else "spin"
        outcome = simulate(
            [SimulatedJob(number, program) for number in range(jobs)],
            machine,
            policies.create(name, parameters),
            Options(waiting=waiting),
        )
        assert not outcome.failure, outcome.failure
        return outcome.makespan_ns

    alone_ns = taken_ns("none", {}, 1)
    return [f"{taken_ns(*scheduler, JOBS) / (JOBS * alone_ns):.2f}" for scheduler in schedulers]


def main():
    nodes = {"type": int, "nargs": "*"}
    options = parsed(__doc__, _what={"choices": ["nodes", "skew"]}, nodes=nodes, dedicated_s={"type": float})
    if options.what == "nodes":
        schedulers = [("gang", {"quantum_ms": slot_ms}) for slot_ms in (10, 100, 500)] + [("implicit", {})]
        headed("nodes", "gang 10 ms", "gang 100 ms", "gang 500 ms", "implicit")
        for count in options.nodes or [2, 16, 128, 1024]:
            tabled(count, *slowdowns(schedulers, count, 1000, options.dedicated_s or 2))
        return
    scheduler = "gang", {"quantum_ms": 10}
    for count in options.nodes or [1024]:
        headed(f"skew, us ({count} nodes, gang 10 ms)", "g = 100 us", "1 ms", "10 ms")
        for skew_us in (0, 100, 500, 1000, 5000):
            found = []
            for granularity_us in (100, 1000, 10_000):
                found += slowdowns([scheduler], count, granularity_us, options.dedicated_s or 0.2, skew_us)
            tabled(skew_us, *found)


if __name__ == "__main__":
    main()
