"""How fast the simulator is: prints a table; wants a quiet machine and about two minutes.

    PYTHONPATH=. python tests/benchmarks/simulator.py [--without-simpy]

Events are handled messages and timers that ran out (ends of phases, gaps, spins and context
switches, and clock ticks), skipped ones too. For comparison: a plain C program of the same model
ran the TRANSPOSE workload at 18 to 20 million events per second, and skipped none. Events per second
are of whole simulations, set-up included; "ns/event" is what one more event costs, from the
difference to jobs an eighth as long.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from coordinator import policies
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.options import Options
from workloads.program import Program

ROOT = Path(__file__).resolve().parent.parent.parent
JOBS = 3


def workload(pattern, processes, dedicated_s):
    program = Program(
        pattern=pattern, processes=processes, granularity_us=100, imbalance=0.25, dedicated_s=dedicated_s
    )
    return [SimulatedJob(number, program) for number in range(JOBS)]


def timed(pattern, processes, dedicated_s, runs=3, blocking="global-adaptive"):
    """The outcome and the best processor time of several runs; one thread does all the work."""
    machine = SimulatedMachine(processors=processes)
    jobs = workload(pattern, processes, dedicated_s)
    times = []
    for _ in range(runs):
        begin = time.process_time()
        outcome = simulate(jobs, machine, policies.create("implicit", {}), options=Options(blocking=blocking))
        times.append(time.process_time() - begin)
    return outcome, min(times)


def rates():
    print("three jobs, g = 100 us, v = 0.25 g, global-adaptive, svr4, one core")
    print(
        f"{'pattern':10} {'P':>5} {'simulated s':>12} {'events':>12} {'s':>7} "
        f"{'M events/s':>11} {'ns/event':>9}"
    )
    for pattern in ("TRANSPOSE", "BARRIER"):
        first = None
        for processes in (32, 128, 512, 1024):
            # As many events at every P; at P = 32 these are the 10 s jobs of the paper.
            dedicated_s = 10.0 if pattern == "TRANSPOSE" else 320.0 * 2 / processes
            if pattern == "TRANSPOSE" and processes > 32:
                dedicated_s = 320.0 / processes
            outcome, seconds = timed(pattern, processes, dedicated_s)
            short, short_s = timed(pattern, processes, dedicated_s / 8)
            each_ns = (seconds - short_s) / (outcome.events - short.events) * 1e9
            first = first or each_ns
            print(
                f"{pattern:10} {processes:5} {outcome.end_ns / 1e9:12.2f} {outcome.events:12} {seconds:7.2f} "
                f"{outcome.events / seconds / 1e6:11.1f} {each_ns:9.1f}  x {each_ns / first:.2f}"
            )


def context_switches():
    """With immediate blocking every message costs a context switch, and most events are of these."""
    for pattern in ("TRANSPOSE", "NEWS"):
        outcome, seconds = timed(pattern, 32, 2.0, blocking="immediate")
        print(
            f"{pattern}, immediate blocking, P = 32: {outcome.switches.sum()} context switches, "
            f"{outcome.events / seconds / 1e6:.1f} M events/s"
        )


def memory():
    """Comes before anything larger: what is known is the peak of the whole process."""

    def grown_by(dedicated_s):
        """MiB that the peak rises."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        timed("BARRIER", 32, dedicated_s, runs=1)
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024

    print(f"memory: 10 s jobs {grown_by(10):.1f} MiB more, 60 s jobs {grown_by(60):.1f} MiB more")


def start_up():
    command = [sys.executable, "-m", "harness.cli", "simulate", "three-jobs", "--quick", "--json"]
    command += ["--set", "repeats=1", "--set", "jobs.0.program.dedicated_s=0.001", "--set", "processors=2"]
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    print(
        f"lockstep simulate, next to nothing simulated: first {times[0]:.2f} s, then {min(times[1:]):.2f} s"
    )


def against_simpy(dedicated_s=1.0):
    """The same BARRIER workload as a SimPy program."""
    import simpy_barrier  # noqa: PLC0415 - the rest needs no SimPy

    jobs = workload("BARRIER", 32, dedicated_s)
    begin = time.process_time()
    end_ns, messages = simpy_barrier.simulate(
        [job.program for job in jobs], 32, (0, 0), np.random.default_rng(0)
    )
    seconds = time.process_time() - begin
    outcome, ours = timed("BARRIER", 32, dedicated_s)
    print(
        f"SimPy, BARRIER, P = 32, {dedicated_s} s jobs: {messages} messages, {seconds:.2f} s, "
        f"makespan {end_ns / 1e9:.4f} s"
    )
    print(
        f"compiled, the same: {outcome.messages} messages, {ours:.3f} s, "
        f"makespan {outcome.end_ns / 1e9:.4f} s ({outcome.end_ns / end_ns - 1:+.1%}); "
        f"{seconds / ours:.0f} times as fast"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--without-simpy", action="store_true")
    options = parser.parse_args()
    timed("BARRIER", 4, 0.01, runs=1)  # compiles
    memory()
    rates()
    context_switches()
    start_up()
    if not options.without_simpy:
        against_simpy()


if __name__ == "__main__":
    main()
