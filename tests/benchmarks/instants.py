"""How often the simulators and the driver start or end a job at another time than an independent scheduler.

    python -P tests/benchmarks/instants.py [--logs 2000] [--first 0] [--workers 2] [--policy NAME] [--kernels]
    python -P tests/benchmarks/instants.py --trace FILE.swf.gz [--arrivals 0.6]

Plays random logs with frequent ties under every space-sharing policy (``tests/support/schedules.py``): by the
job-level simulator with its kernels and event by event, by the process-level simulator on a machine on which
nothing costs time, and by the driver's conductor with a fake clock, which hears of ends in any order. The
logs are those of the seeds from ``--first`` on, so that a long series can be played in parts. ``--policy``
plays one policy with all its options, and ``--kernels`` compares compiled kernels alone. With a job log,
plays it under fcfs and easy by the job-level simulator, with its times of arrival multiplied by a factor.
Exits with 1 if any differs.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import numpy as np
from benchmark import parsed
from independent_scheduler.loop import Job
from schedules import POLICIES, by_kernel, differing, expected, log, schedulers

from coordinator import policies
from harness.predict import trace
from harness.simulator.jobs.simulate import simulate


def played(seed, compared, ours):
    """The jobs of a log without and with perfect speedup, and who differs under which policy."""
    wrong = [
        (name, options, who) for name, options in compared for who in differing(seed, name, options, ours)
    ]
    return {perfect: len(log(seed, perfect)[1]) for perfect in (False, True)}, wrong


def played_trace(path, factor):
    """Prints mean waits; returns how many jobs start at other times."""
    found = trace.read(path)
    jobs = replace(found.jobs, submit_ns=np.rint(found.jobs.submit_ns * factor).astype(np.int64))
    columns = (
        jobs.submit_ns,
        jobs.max_processes,
        jobs.max_processes,
        jobs.work_s,
        jobs.alpha_s,
        jobs.beta_s,
        jobs.factor,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    given = [Job(number, *row) for number, row in enumerate(rows)]
    differ = 0
    for name in ("fcfs", "easy"):
        ours = simulate(jobs, found.processors, policies.create(name, {}))
        right = expected(name, (), found.processors, given)
        starts_ns = np.array([begin_ns for begin_ns, _ in right.values()])
        count = np.count_nonzero(starts_ns != ours.start_ns)
        waits_s = (starts_ns - jobs.submit_ns) / 1e9
        print(
            f"{name}: mean wait {ours.wait_s.mean():.0f} s, independent {waits_s.mean():.0f} s; "
            f"{count} of {len(jobs)} starts differ"
        )
        differ += count
    return differ


def main():
    options = parsed(
        __doc__, logs=2000, first=0, workers=2, policy="", kernels=False, trace={"type": Path}, arrivals=1.0
    )
    if options.trace:
        sys.exit(bool(played_trace(options.trace, options.arrivals)))
    jobs = starts = 0
    differ = []
    seeds = range(options.first, options.first + options.logs)
    compared = [one for one in POLICIES if options.policy in ("", one[0])]
    ours = {False: [by_kernel], True: []} if options.kernels else None
    play = partial(played, compared=compared, ours=ours)
    with ProcessPoolExecutor(options.workers) as pool:
        for seed, (counts, wrong) in zip(seeds, pool.map(play, seeds, chunksize=5), strict=True):
            jobs += counts[False]
            for name, _ in compared:
                starts += sum(
                    counts[perfect] * len(who) for perfect, who in (ours or schedulers(name)).items()
                )
            differ += [(seed, *one) for one in wrong]
    for one in differ[:20]:
        print("log", *one)
    print(
        f"{options.logs} logs of {jobs} jobs under {len(compared)} policies, {starts} starts: "
        f"{len(differ)} schedules differ"
    )
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
