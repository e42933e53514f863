"""How much slower or faster the simulators have become since another commit.

    python -P tests/benchmarks/speed_since.py COMMIT [--rounds 5] [--quick] [--level jobs]

Takes the files of COMMIT and the present ones in turn, each in a process of its own, and prints the ratio of
CPU times an event, or a job, present over COMMIT's: the median of all rounds, and the least and the largest.
Whole times would compare different simulations, since models have changed. The process-level simulator runs
three jobs of BARRIER, NEWS and TRANSPOSE, on the papers' machine under implicit scheduling and on two
processors under Linux's scheduler with and without gangs. Three jobs of TRANSPOSE also block at once in every
wait, on the papers' machine. The job-level one runs 200 000 jobs under five policies. What the machine has
learned since (costs of rests, overruns and the like) is not asked for.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import RENAMED, ROOT, parsed, shown, version

SCHEDULERS = {
    "implicit, svr4": ("implicit", {}, "global-adaptive"),
    "immediate, svr4": ("implicit", {}, "immediate"),
    "none, eevdf": ("none", {}, "spin"),
    "gang, eevdf": ("gang", {"quantum_ms": 20}, "spin"),
}
LIKE_LINUX = {
    **{"processors": 2, "local": "eevdf", "messages_to_self": False, "handles_when_waiting": True},
    **{"context_switch_us": 10, "latency_us": 2, "send_us": 1, "receive_us": 1},
    **{"os_noise_interval_us": 50_000, "os_noise_length_us": 100},
}
TIMES = 3


def min_s(work):
    """The least CPU time of some runs over the number that each returns, after one that compiles."""
    count = work()
    found = []
    for _ in range(TIMES):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found) / count


def process_level(share):
    from coordinator import policies  # noqa: PLC0415 - of the commit that PYTHONPATH names
    from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine  # noqa: PLC0415
    from harness.simulator.processes.simulate import simulate  # noqa: PLC0415
    from workloads.program import Program  # noqa: PLC0415

    former = {RENAMED[key]: key for key in RENAMED if hasattr(SimulatedMachine, key)}
    like_linux = {former.get(key, key): value for key, value in LIKE_LINUX.items()}
    for name, (policy, parameters, waiting) in SCHEDULERS.items():
        try:
            from workloads.options import Options  # noqa: PLC0415

            waits = {"options": Options(waiting)}
        except ImportError:  # an older commit
            waits = {"blocking": waiting}
        paper = name.endswith("svr4")
        machine = SimulatedMachine(processors=32) if paper else SimulatedMachine(**like_linux)
        for pattern in ("TRANSPOSE",) if waiting == "immediate" else ("BARRIER", "NEWS", "TRANSPOSE"):
            seconds = share * (20 if pattern == "BARRIER" else 2 if paper else 10)
            shape = {"granularity_us": 100, "imbalance": 0.25, "dedicated_s": seconds}
            program = Program(pattern=pattern, processes=machine.processors, **shape)
            jobs = [SimulatedJob(number, program) for number in range(3)]

            def work(jobs=jobs, machine=machine):
                chosen = policies.create(policy, parameters)  # noqa: B023
                return simulate(jobs, machine, chosen, **waits).events  # noqa: B023

            yield f"{name}: {pattern}", min_s(work)


PROCESSORS = 1024
"""Of the simulation of jobs."""


SHARES, MEANS_S = (0.125, 0.875), (101.0, 1.3)
"""Large and small jobs of Anastasiadis and Sevcik 1997. Here, since the paper has moved between commits."""


def streams(count, load=0.7):
    """Rigid and moldable jobs from the distributions of the Toronto paper, scaled to the machine."""
    from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, in_ns, moldable  # noqa: PLC0415
    from harness.simulator.jobs.model import rigid  # noqa: PLC0415

    random = np.random.default_rng(1)
    sizes = 2 ** random.integers(0, 10, count)
    work_s = hyperexponential(count, SHARES, MEANS_S, random)
    gap_s = float((work_s * sizes).mean()) / (PROCESSORS * load)
    arrivals_s = np.cumsum(gaps_s("exponential", count, gap_s, random))
    estimates = 1 + random.exponential(2.0, count)
    fixed = rigid(in_ns(arrivals_s), sizes, np.maximum(in_ns(work_s), 1), estimates)
    gap_s = float(work_s.mean()) / (PROCESSORS * load)
    arrivals_s = np.cumsum(gaps_s("exponential", count, gap_s, random))
    flexible = moldable(arrivals_s, sizes, work_s, np.full(count, np.inf))
    return {"fcfs": fixed, "easy": fixed, "fcfs-bb": fixed, "aep": flexible, "dyn-equi": flexible}


def job_level(share):
    from coordinator import policies  # noqa: PLC0415 - of the commit that PYTHONPATH names
    from harness.simulator.jobs.simulate import simulate  # noqa: PLC0415

    for name, jobs in streams(round(200_000 * share)).items():
        policy = policies.create(name, {})

        def work(jobs=jobs, policy=policy):
            simulate(jobs, PROCESSORS, policy)
            return len(jobs)

        yield f"jobs: {name}", min_s(work)


LEVELS = {"processes": process_level, "jobs": job_level}


def times_of(files, share, levels):
    """The times of the simulators in a directory, in a process of its own."""
    command = [sys.executable, "-P", __file__, "--child", str(share), "--level", *levels]
    environment = os.environ | {"PYTHONPATH": str(files)}
    done = subprocess.run(command, env=environment, cwd=files, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main():
    quick = {"default": False, "help": "a tenth of the work, and one round"}
    child = {"type": float, "help": "for the processes that measure: the share of the work"}
    commit = {"nargs": "?", "default": "HEAD"}
    level = {"nargs": "+", "choices": LEVELS, "default": [*LEVELS], "help": "the simulators to measure"}
    options = parsed(__doc__, _commit=commit, rounds=5, quick=quick, child=child, level=level)
    if options.child:
        print(json.dumps({name: s for level in options.level for name, s in LEVELS[level](options.child)}))
        return
    share, rounds = (0.1, 1) if options.quick else (1.0, options.rounds)
    with version(options.commit) as before:
        pairs = [[times_of(files, share, options.level) for files in (before, ROOT)] for _ in range(rounds)]
    print(f"time an event or a job, present over {options.commit}: median of {rounds} (least to largest)")
    for name in pairs[0][0]:
        ratios = [present[name] / former[name] for former, present in pairs]
        print(f"{name:28} {shown(ratios, '.3f')}")


if __name__ == "__main__":
    main()
