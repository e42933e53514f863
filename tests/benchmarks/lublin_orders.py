"""Orders of the queue on the model of Lublin and Feitelson, beside published figures: prints tables.

    python -P tests/benchmarks/lublin_orders.py [--load 1.06] [--draws 10] [--log FILE]

Mean bounded slowdowns of each draw of 1,024 jobs on 256 processors, their mean, and that over the published
one (Zhang et al. 2020, RLScheduler, Table V, Lublin-1 with backfilling). Three times the same jobs:

    ours             EASY backfilling, as `lockstep simulate lublin-orders` has it
    published rules  a plain scheduler that backfills as that paper's program does: jobs in order of arrival
                     that end before the earliest start of the first job, which is computed once; it
                     stays the first until it starts
    published waits  the same, with that program's waits: the start of a job that waits is -1, and its wait
                     -1 minus its arrival

With --log the draws are 1,024 jobs in a row of a job log; the paper's is lublin_256.swf of the repository
deep-batch-scheduler of DIR-LAB. About two minutes.
"""

import math
import sys
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import numpy as np
from benchmark import parsed

from coordinator import policies
from harness.predict.drawn_jobs import draw
from harness.predict.trace import read
from harness.simulator.jobs.metrics import measure
from harness.simulator.jobs.model import rigid
from harness.simulator.jobs.simulate import simulate
from harness.spec import experiment

PUBLISHED = {"fcfs": 235.82, "wfp3": 133.87, "unicep": 307.23, "sjf": 73.31, "f1": 75.07}
JOBS, PROCESSORS, TAU_S = 1024, 256, 10.0


def main():
    options = parsed(__doc__, load=1.06, draws=10, log="")
    sets = [*(windows(options.log, options.draws) if options.log else draws(options.load, options.draws))]
    loads = [float(run_s @ sizes) / PROCESSORS / (at_s[-1] - at_s[0]) for at_s, sizes, run_s in sets]
    print(f"load from the first arrival to the last: {min(loads):.2f} to {max(loads):.2f}")
    rules = {
        "ours": easy,
        "published rules": Plain,
        "published waits": lambda *jobs: Plain(*jobs, start_s=-1),
    }
    for name, rule in rules.items():
        print(f"\n{name:<16}" + "".join(f"{order:>9}" for order in PUBLISHED))
        means = []
        for number, jobs in enumerate(sets):
            of_order = rule(*jobs)
            means.append([of_order(order) for order in PUBLISHED])
            line(number + 1, means[-1], ".1f")
        mean = np.mean(means, axis=0)
        line("mean", mean, ".1f")
        line("over published", mean / [*PUBLISHED.values()], ".2f")


def line(name, values, form):
    print(f"{name:>16}" + "".join(f"{value:9{form}}" for value in values), flush=True)


def draws(load, number):
    """The replications of the built-in experiment at this load: times of arrival, sizes, run times."""
    wanted = experiment.load("lublin-orders", settings=[f"model.load={load}"])
    model = wanted.cells[0].source.model
    for key in range(number):
        random = np.random.default_rng(np.random.SeedSequence(wanted.seed, spawn_key=(key,)))
        yield columns(draw(model, PROCESSORS, random))


def windows(file, number):
    """So many jobs in a row of a log, from places that are drawn."""
    at_s, sizes, run_s = columns(read(Path(file)).jobs)
    for first in np.random.default_rng(1).integers(JOBS, len(at_s) - JOBS - 1, number):
        part = slice(first, first + JOBS)
        yield at_s[part], sizes[part], run_s[part]


def columns(jobs):
    return jobs.submit_ns / 1e9, jobs.max_processes, jobs.times_s(jobs.max_processes)


def easy(at_s, sizes, run_s):
    """Our mean bounded slowdown, by the order."""
    jobs = rigid(np.rint(at_s * 1e9).astype(np.int64), sizes, np.rint(run_s * 1e9).astype(np.int64))

    def of_order(order):
        policy = policies.create("ordered", {"order": order, "backfill": "easy"})
        return measure(simulate(jobs, PROCESSORS, policy), tau_s=TAU_S).bounded_slowdown

    return of_order


class Plain:
    """The published program's rules, event by event; with ``start_s``, waits are counted up to that time."""

    def __init__(self, at_s, sizes, run_s, start_s=None):
        self.jobs = list(zip(at_s.tolist(), sizes.tolist(), run_s.tolist(), count()))
        self.start_s = start_s

    def __call__(self, order):
        """The mean bounded slowdown."""
        self.coming, self.queue, self.running, self.slowdowns = self.jobs[::-1], [], [], []
        self.free, self.now_s = PROCESSORS, self.jobs[0][0]
        while self.coming or self.queue:
            if not self.queue:
                self.advance()
                continue
            first = min(self.queue, key=lambda job: self.score(order, *job))
            earliest_s = self.earliest(first[1])
            while first[1] > self.free:
                for job in sorted(self.queue):
                    if job is not first and job[1] <= self.free and self.now_s + job[2] < earliest_s:
                        self.start(job)
                self.advance()
            self.start(first)
        return sum(self.slowdowns) / len(self.slowdowns)

    def earliest(self, size):
        """When so many processors will be free."""
        free, ends = self.free, sorted(self.running)
        while free < size:
            end_s, job = ends.pop(0)
            free += job[1]
        return end_s if free > self.free else self.now_s

    def advance(self):
        """On to the next arrival or end."""
        self.running.sort(reverse=True)
        end_s = self.running[-1][0] if self.running else math.inf
        if self.coming and self.coming[-1][0] <= end_s:
            job = self.coming.pop()
            self.now_s = max(self.now_s, job[0])
            self.queue.append(job)
        else:
            self.now_s = max(self.now_s, end_s)
            self.free += self.running.pop()[1][1]

    def start(self, job):
        at_s, size, run_s, _ = job
        self.queue.remove(job)
        self.free -= size
        self.running.append((self.now_s + run_s, job))
        self.slowdowns.append(max(1.0, (self.now_s + run_s - at_s) / max(run_s, TAU_S)))

    def score(self, order, at_s, size, run_s, number):
        wait_s = (self.now_s if self.start_s is None else self.start_s) - at_s
        value = {
            "fcfs": lambda: at_s,
            "sjf": lambda: run_s,
            "f1": lambda: math.log10(run_s) * size + 870 * math.log10(at_s),
            "wfp3": lambda: -((wait_s / run_s) ** 3) * size,
            "unicep": lambda: -(wait_s + 1e-15) / (math.log2(size + 1e-15) * run_s),
        }[order]()
        return value, number


if __name__ == "__main__":
    main()
