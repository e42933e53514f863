"""How the cost of decisions and of simulated events grows, for every policy.

    python -P tests/benchmarks/scaling.py [--jobs N ...] [--processes N ...] [--only NAME ...]

Doubles the jobs present on 1,000 processors (or so many ``--processors``), and takes the CPU time of a
decision, as decide.py does. Doubles the processes of three BARRIER jobs with a processor for each process of
a job, and takes the time of a simulated event; doubles the phases of the smallest of these, and takes the
time of the simulation. A row has the values for the largest numbers, and exponents: with 1 the cost doubles
with the number. They are found by least squares over all numbers. Policies that are not simulated process by
process have no events. The last rows are of patterns under ``none``.
"""

import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import numpy as np
from benchmark import headed, parsed, tabled
from decide import ALSO, machine_for, measured_ms

from coordinator import policies
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.options import Options
from workloads.program import Program
from workloads.validation import InputError

EVENTS = 60_000
"""About so many events has a simulation with the fewest phases."""

DECISIONS, TRIES, JOBS_BESIDE = 21, 3, 3


def exponent(numbers, values):
    """Of the power of the number by which the values grow."""
    return float(np.polyfit(np.log(numbers), np.log(values), 1)[0])


def decision_ms(name, parameters, processors, jobs, limit_s):
    """The median CPU time of a decision, None if they do not end in time."""
    policy, machine = policies.create(name, parameters), machine_for(name, processors)
    _, found = measured_ms(policy, machine, jobs, DECISIONS, limit_s)
    return statistics.median(found) if len(found) > DECISIONS // 2 else None


def simulated(name, parameters, pattern, processes, phases):
    """The shortest CPU time in seconds of some simulations, and their events."""
    quantum = {"quantum_ms": 10} if policies.parameters(name).get("quantum_ms") else {}
    program = Program(pattern, processes=processes, granularity_us=1000, imbalance=0.25, phases=phases)
    machine = SimulatedMachine(processes, context_switch_us=5, latency_us=10, local="rr")
    times_s = []
    for _ in range(TRIES):
        policy = policies.create(name, quantum | parameters)
        begin_s = time.thread_time()
        jobs = [SimulatedJob(number, program) for number in range(JOBS_BESIDE)]
        outcome = simulate(jobs, machine, policy, Options("fixed"))
        times_s.append(time.thread_time() - begin_s)
    return min(times_s), outcome.events


def growth(name, parameters, pattern, processes):
    """The microseconds of an event with most processes, and the exponents of processes and of phases."""
    fewest = max(4, EVENTS // (4 * JOBS_BESIDE * processes[0]))
    phases = [fewest << doubling for doubling in range(3)]
    times_s = [simulated(name, parameters, pattern, processes[0], count)[0] for count in phases]
    found = [
        simulated(name, parameters, pattern, count, max(4, fewest * processes[0] // count))
        for count in processes
    ]
    events_us = [1e6 * time_s / events for time_s, events in found]
    return events_us[-1], exponent(processes, events_us), exponent(phases, times_s)


def main():
    numbers = {"nargs": "*", "type": int}
    options = parsed(
        __doc__,
        jobs=numbers | {"default": [125, 250, 500, 1000]},
        processes=numbers | {"default": [32, 64, 128, 256]},
        processors=1000,
        limit_s=20.0,
        only={"nargs": "*", "default": ()},
    )
    resource.setrlimit(resource.RLIMIT_CPU, (1200, 1200))
    simulated("none", {}, "BARRIER", 2, 4)  # compiles
    titles = f"decision with {options.jobs[-1]} jobs, ms", "exponent of jobs"
    events = (
        f"event with {options.processes[-1]} processes, us",
        "exponent of processes",
        "exponent of phases",
    )
    headed("policy", *titles, *events)
    cases = {name: (name, {}) for name in policies.known()} | ALSO
    for label, (name, parameters) in cases.items():
        if options.only and label not in options.only:
            continue
        made_ms = [
            decision_ms(name, parameters, options.processors, jobs, options.limit_s) for jobs in options.jobs
        ]
        known = [(jobs, ms) for jobs, ms in zip(options.jobs, made_ms, strict=True) if ms is not None]
        decided = ("-", "-")
        if len(known) > 1:
            decided = f"{known[-1][1]:.2f}", f"{exponent(*zip(*known, strict=True)):.2f}"
        try:
            found = [f"{value:.2f}" for value in growth(name, parameters, "BARRIER", options.processes)]
        except InputError:
            found = ["-"] * 3
        tabled(label, *decided, *found)
    for pattern in ("BARRIER", "NEWS", "TRANSPOSE") if not options.only else ():
        found = growth("none", {}, pattern, options.processes)
        tabled(f"none, {pattern}", "-", "-", *(f"{value:.2f}" for value in found))


if __name__ == "__main__":
    main()
