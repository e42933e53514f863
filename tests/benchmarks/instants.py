"""How often the simulators and the driver start or end a job at another time than an independent scheduler.

    python -P tests/benchmarks/instants.py [--logs 2000] [--first 0] [--workers 2]

Plays random logs with frequent ties under every space-sharing policy (``tests/support/schedules.py``): by the
job-level simulator with its kernels and event by event, by the process-level simulator on a machine on which
nothing costs time, and by the driver's conductor with a fake clock, which hears of ends in any order. The
logs are those of the seeds from ``--first`` on, so that a long series can be played in parts.
Exits with 1 if any differs.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import parsed
from schedules import POLICIES, differing, log, schedulers


def played(seed):
    """The jobs of a log without and with perfect speedup, and who differs under which policy."""
    wrong = [(name, options, who) for name, options in POLICIES for who in differing(seed, name, options)]
    return {perfect: len(log(seed, perfect)[1]) for perfect in (False, True)}, wrong


def main():
    options = parsed(__doc__, logs=2000, first=0, workers=2)
    jobs = starts = 0
    differ = []
    seeds = range(options.first, options.first + options.logs)
    with ProcessPoolExecutor(options.workers) as pool:
        for seed, (counts, wrong) in zip(seeds, pool.map(played, seeds, chunksize=5), strict=True):
            jobs += counts[False]
            for name, _ in POLICIES:
                starts += sum(counts[perfect] * len(ours) for perfect, ours in schedulers(name).items())
            differ += [(seed, *one) for one in wrong]
    for one in differ[:20]:
        print("log", *one)
    print(
        f"{options.logs} logs of {jobs} jobs under {len(POLICIES)} policies, {starts} starts: "
        f"{len(differ)} schedules differ"
    )
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
