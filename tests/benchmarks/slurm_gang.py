"""Slurm's gang scheduling beside Lockstep's: the same jobs on the same emulated cluster, one table.

``python tests/benchmarks/slurm_gang.py [--repeats N]``

Submits a workload to a Slurm on two nodes of one core, to be run under Lockstep's gang scheduling. Then it
submits each of its jobs by itself, to a partition with Slurm's gang scheduling, and a short job alone, which
tells what Slurm takes to start one. Whether a rank goes on or is stopped is seen from outside, in /proc,
under both in the same way. A repeat takes some five minutes. Prints Markdown.
"""

import itertools
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, tabled
from places import ROOT
from slurm_cluster import slurm_cluster, unavailable

from coordinator.host.launcher_choice import find_launcher
from coordinator.host.processes import JOB, environment_of
from harness.store.database import Store
from harness.store.records import DEDICATED, POLICY

SLOT_S = 5
PATIENCE_S = 3600
LONG_S, SHORT_S = 20.0, 1.0
ARRIVALS_S = (0.0, 4.0, 8.0, 12.0, 16.0)
"""The long job, and short ones that arrive while it runs."""
PROGRAM = "pattern = 'BARRIER', processes = 2, granularity_us = 1000, imbalance = 0.25"
HEAD = """name = "beside-slurm"
processors = 2
slurm = {{ nodes = 2 }}
repeats = {repeats}
schedulers = [{{ policy = "gang", quantum_ms = 100 }}]
"""
PAUSE_S = 0.2  # before a job's script asks again for ranks that Slurm has refused, since the job is suspended
SCRIPT = """#!/bin/bash
#SBATCH --partition=gang --nodes=2 --ntasks=2 --ntasks-per-node=1
#SBATCH --job-name=job-{number} --output={folder}/{number}.log
run() {{ {srun} {python} -P -m mpi4py -m workloads barrier --imbalance 0.25 --dedicated-s {length_s}; }}
export PYTHONPATH={root}
{start}
date +%s.%N > {folder}/{number}.new && mv {folder}/{number}.new {folder}/{number}.ended
"""
RETRY = """rm -f {folder}/{number}.begun
until run; do [ -e {folder}/{number}.begun ] && break; sleep {pause_s}; done"""
SAMPLE_S = 0.002
ROUNDS_PER_SEARCH = 50
SEARCHES = 20
"""After so many a process that is no rank will not become one by exec."""


class Spell(NamedTuple):
    """A rank has gone on from one time of the wall clock to another; was it ``stopped`` then?"""

    begin_s: float
    end_s: float
    job: str
    node: str
    stopped: bool


class Watch:
    """Looks every SAMPLE_S at all ranks of benchmark programs under one Slurm, from entering to leaving."""

    def __init__(self, configuration):
        self._configuration = str(configuration)
        self.spells, self._begun, self._ranks, self._seen = [], {}, {}, Counter()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._thread.join()

    def _look(self):
        rounds = itertools.count()
        while not self._over.wait(SAMPLE_S):
            if next(rounds) % ROUNDS_PER_SEARCH == 0:
                self._search()
            for pid, (rank, stat) in list(self._ranks.items()):
                self._note(pid, rank, stat)

    def _search(self):
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and self._seen[process.name] < SEARCHES:
                self._seen[process.name] += 1
                with suppress(OSError):
                    if rank := self._rank(process):
                        self._seen[process.name] = SEARCHES
                        self._ranks[int(process.name)] = rank, os.open(process / "stat", os.O_RDONLY)

    def _rank(self, process):
        """Job, by Lockstep's number or Slurm's, and node of a rank under this Slurm; None if it is none."""
        words = (process / "cmdline").read_bytes().split(b"\0")
        if not {b"workloads", b"workloads.rank"} & set(words) or not Path(
            os.fsdecode(words[0])
        ).name.startswith("python"):
            return None
        known = environment_of(int(process.name))
        if known.get("SLURM_CONF") != self._configuration:
            return None
        return known.get(JOB) or known.get("SLURM_JOB_ID", ""), known.get("SLURMD_NODENAME", "")

    def _note(self, pid, rank, stat):
        """A rank that computes or waits spinning is ready to run; asleep it has not begun, or has ended."""
        now_s, letter = time.time(), ""
        with suppress(OSError):  # it is gone
            letter = os.pread(stat, 256, 0).rpartition(b")")[2].split()[0].decode()
        if letter in ("R", "D"):
            self._begun.setdefault(pid, now_s)
        elif pid in self._begun:
            self.spells.append(Spell(self._begun.pop(pid), now_s, *rank, letter in ("T", "t")))
        if letter in ("", "Z", "X"):
            os.close(stat)
            del self._ranks[pid]


def overlaps_s(spells):
    """For each stop how long a job had been going on by then that went on after it on the same node."""
    for last in (spell for spell in spells if spell.stopped):
        others = (one for one in spells if one.node == last.node and one.job != last.job)
        begun_s = [one.begin_s for one in others if last.begin_s < one.begin_s and one.end_s > last.end_s]
        if begun_s:
            yield max(0.0, last.end_s - min(begun_s))


def skews_s(spells):
    """For each stop on the first node how much earlier or later the same job was stopped on another."""
    stops = [spell for spell in spells if spell.stopped]
    first = min((spell.node for spell in stops), default="")
    for one in (spell for spell in stops if spell.node == first):
        apart_s = [abs(s.end_s - one.end_s) for s in stops if s.job == one.job and s.node != first]
        if apart_s:
            yield min(apart_s)


def told_ms(values_s):
    if not values_s:
        return "none seen"
    return f"{1e3 * statistics.median(values_s):.0f}, {1e3 * max(values_s):.0f} ({len(values_s)})"


class Run(NamedTuple):
    """One workload under one scheduler: what its jobs took alone and together, and when it was."""

    alone_s: list[float]
    responses_s: list[float]
    makespan_s: float
    begin_s: float
    end_s: float


def under_lockstep(cluster, folder, repeats):
    """Submit the workload to be run under Lockstep's gang scheduling; its runs, and the dedicated times."""
    jobs = zip(ARRIVALS_S, [LONG_S, *[SHORT_S] * (len(ARRIVALS_S) - 1)], strict=True)
    text = HEAD.format(repeats=repeats)
    for arrival_s, length_s in jobs:
        text += f"[[jobs]]\narrival_s = {arrival_s}\nprogram = {{ {PROGRAM}, dedicated_s = {length_s} }}\n"
    file, results = folder / "beside-slurm.toml", folder / "results"
    file.write_text(text)
    command = [sys.executable, "-m", "harness.cli", "submit", str(file), "--wait", "--no-simulate", "--json"]
    run = cluster.hosts.start([*command, "--results", str(results)])
    out, err = run.communicate(timeout=PATIENCE_S)
    if run.returncode:
        sys.exit(f"{err}\n{cluster.logs()}")
    with Store(results, existing=True) as store:
        records = store.runs(json.loads(out)["digest"])
    return [of_record(records, record) for record in records if record.kind == POLICY]


def of_record(records, policy):
    alone_s = {
        json.dumps(record.jobs[0].program, sort_keys=True): (record.makespan_ns or 0) / 1e9
        for record in records
        if record.kind == DEDICATED and record.repeat == policy.repeat
    }
    end_s = datetime.fromisoformat(policy.recorded_at).timestamp()
    return Run(
        [alone_s[json.dumps(job.program, sort_keys=True)] for job in policy.jobs],
        [(job.response_ns or 0) / 1e9 for job in policy.jobs],
        (policy.makespan_ns or 0) / 1e9,
        end_s - policy.wall_s,
        end_s,
    )


def under_slurm(cluster, folder, alone_s, arrivals_s=ARRIVALS_S, *, retry=True):
    """Submit each job when it arrives, and wait for the end of all."""
    folder.mkdir()
    begin_s = time.time()
    for number, arrival_s in enumerate(arrivals_s):
        script = folder / f"{number}.sbatch"
        length_s = LONG_S if number == 0 and len(arrivals_s) > 1 else SHORT_S
        script.write_text(job_script(folder, number, length_s, retry))
        time.sleep(max(0.0, begin_s + arrival_s - time.time()))
        cluster.call("sbatch", str(script))
    ends = [folder / f"{number}.ended" for number in range(len(arrivals_s))]
    while not all(end.exists() for end in ends):
        if time.time() > begin_s + PATIENCE_S:
            sys.exit(f"jobs have not ended\n{cluster.logs()}")
        time.sleep(0.2)
    ends_s = [float(end.read_text()) for end in ends]
    responses_s = [end_s - begin_s - arrival_s for end_s, arrival_s in zip(ends_s, arrivals_s, strict=True)]
    return Run(alone_s, responses_s, max(ends_s) - begin_s, begin_s, max(ends_s))


def job_script(folder, number, length_s, retry):
    """A job that starts its ranks by srun, which asks again ever less often while the job is suspended.

    With ``retry`` the script asks again itself, until a file shows that a rank has begun.
    """
    place = {"folder": folder, "number": number, "pause_s": PAUSE_S}
    srun = f"srun --mpi={find_launcher().srun_plugin} --ntasks=2 --kill-on-bad-exit=1 --quiet"
    if retry:
        srun += f""" --immediate=1 sh -c ': > {folder}/{number}.begun; exec "$@"' sh"""
    start = RETRY.format(**place) if retry else "run"
    return SCRIPT.format(srun=srun, python=sys.executable, root=ROOT, length_s=length_s, start=start, **place)


def show(name, runs, watch, free_s):
    """Print a line of the table; ``free_s`` of each job's time are not counted."""
    slots, overlaps, skews = [], [], []
    for run in runs:
        spells = sorted(spell for spell in watch.spells if run.begin_s <= spell.begin_s <= run.end_s)
        slots += [spell.end_s - spell.begin_s for spell in spells if spell.stopped]
        overlaps += overlaps_s(spells)
        skews += skews_s(spells)
    slowdown = statistics.median((run.makespan_s - free_s) / sum(run.alone_s) for run in runs)
    mean_s = statistics.median(statistics.fmean(run.responses_s[1:]) - free_s for run in runs)
    tabled(name, f"{slowdown:.2f}", f"{mean_s:.1f}", *map(told_ms, (slots, overlaps, skews)))


def main():
    options = parsed(__doc__, repeats=3)
    if reason := unavailable():
        sys.exit(reason)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster goes, too
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="ls-slurm-") as name,
        slurm_cluster(2, SLOT_S) as cluster,
        Watch(cluster.configuration) as watch,
    ):
        folder = Path(name)
        ours = under_lockstep(cluster, folder, options.repeats)
        alone_s = ours[0].alone_s
        starts = [under_slurm(cluster, folder / f"start-{n}", alone_s[1:2], [0.0]) for n in range(3)]
        free_s = statistics.median(run.responses_s[0] for run in starts) - alone_s[1]
        known = {"Lockstep gang, 100 ms": ours}
        for retry, how in ((True, ""), (False, ", start-up by srun")):
            known[f"Slurm gang, {SLOT_S} s{how}"] = [
                under_slurm(cluster, folder / f"mix-{repeat}-{retry}", alone_s, retry=retry)
                for repeat in range(options.repeats)
            ]
    seen = "slot, ms", "two jobs at once at a switch, ms", "between the nodes at a stop, ms"
    headed("", "workload slowdown", "mean response of the short jobs, s", *seen)
    for name, runs in known.items():
        show(name, runs, watch, 0.0)
        if name.startswith("Slurm"):
            show(f"{name}; without the start-up of a job alone", runs, watch, free_s)
    print(
        f"\nOf slots and switches: median, most (number). {options.repeats} repeats, medians. Slurm starts a "
        f"job alone in {free_s:.1f} s. {os.cpu_count()} cores, Linux {platform.release()}, "
        f"load average before {load:.1f}, after {os.getloadavg()[0]:.1f}."
    )


if __name__ == "__main__":
    main()
