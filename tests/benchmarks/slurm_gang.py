"""Slurm's gang scheduling beside Lockstep's: the same jobs on the same emulated cluster, one table.

``python tests/benchmarks/slurm_gang.py [--repeats N] [--set KEY=VALUE]...``

Submits the built-in experiment slurm-gang to a Slurm on two nodes of one core, and one of its short
jobs alone, which tells what Slurm takes to start a job. Whether a rank goes on or is stopped is seen
from outside, in /proc, under both in the same way. A repeat takes some five minutes. Prints Markdown.
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
from slurm_cluster import slurm_cluster, unavailable

from coordinator.host.processes import JOB, environment_of
from harness.store.database import Store
from harness.store.records import DEDICATED, POLICY

SLOT_S = 5
PATIENCE_S = 3600
ALONE = (
    "repeats=3",
    "jobs=[{program={pattern='BARRIER', processes=2, granularity_us=1000, imbalance=0.25, dedicated_s=1.0}}]",
    f"schedulers=[{{policy='slurm-gang', quantum_ms={1000 * SLOT_S}}}]",
)
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
        if b"workloads.rank" not in words or not Path(os.fsdecode(words[0])).name.startswith("python"):
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


def submit(cluster, results, settings):
    """Submit the experiment from the head and wait for it; returns its records."""
    words = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "harness.cli", "submit", "slurm-gang", *words]
    run = cluster.hosts.start([*command, "--wait", "--no-simulate", "--json", "--results", str(results)])
    out, err = run.communicate(timeout=PATIENCE_S)
    if run.returncode:
        sys.exit(f"{err}\n{cluster.logs()}")
    with Store(results, existing=True) as store:
        return store.runs(json.loads(out)["digest"])


def dedicated_s(records, policy):
    """The dedicated time of each job of a run, of the same repeat."""
    alone_s = {
        json.dumps(record.jobs[0].program, sort_keys=True): (record.makespan_ns or 0) / 1e9
        for record in records
        if record.kind == DEDICATED and record.repeat == policy.repeat
    }
    return [alone_s[json.dumps(job.program, sort_keys=True)] for job in policy.jobs]


def responses_s(record):
    return [(job.response_ns or 0) / 1e9 for job in record.jobs]


def start_up_s(records):
    """What Slurm takes to start a job that is alone."""
    alone = [record for record in records if record.kind == POLICY]
    return statistics.median(responses_s(one)[0] - dedicated_s(records, one)[0] for one in alone)


def label(table):
    if table["policy"] == "gang":
        return f"Lockstep gang, {table['quantum_ms']:g} ms"
    return f"Slurm gang, {table['quantum_ms'] / 1000:g} s" + ("" if table["retry"] else ", start-up by srun")


def show(name, ours, records, watch, free_s):
    """Print a line of the table; ``free_s`` of each job's time are not counted."""
    slowdowns, means, slots, overlaps, skews = [], [], [], [], []
    for record in ours:
        slowdowns.append(((record.makespan_ns or 0) / 1e9 - free_s) / sum(dedicated_s(records, record)))
        means.append(statistics.fmean(response_s - free_s for response_s in responses_s(record)[1:]))
        end_s = datetime.fromisoformat(record.recorded_at).timestamp()
        spells = sorted(spell for spell in watch.spells if end_s - record.wall_s <= spell.begin_s <= end_s)
        slots += [spell.end_s - spell.begin_s for spell in spells if spell.stopped]
        overlaps += overlaps_s(spells)
        skews += skews_s(spells)
    cells = f"{statistics.median(slowdowns):.2f}", f"{statistics.median(means):.1f}"
    tabled(name, *cells, *map(told_ms, (slots, overlaps, skews)))


def show_all(records, watch, free_s):
    """The schedulers in the order of the experiment, Slurm's with and without its start-up."""
    found = {}
    for record in records:
        if record.kind == POLICY:
            found.setdefault(json.dumps(record.scheduler, sort_keys=True), []).append(record)
    seen = "slot, ms", "two jobs at once at a switch, ms", "between the nodes at a stop, ms"
    headed("", "workload slowdown", "mean response of the short jobs, s", *seen)
    for text, ours in sorted(found.items()):
        name = label(json.loads(text))
        show(name, ours, records, watch, 0.0)
        if name.startswith("Slurm"):
            show(f"{name}; without the start-up of a job alone", ours, records, watch, free_s)


def main():
    settings = {"dest": "settings", "action": "append", "default": [], "metavar": "KEY=VALUE"}
    options = parsed(__doc__, repeats=3, set=settings)
    if why := unavailable():
        sys.exit(why)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster goes, too
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="ls-slurm-") as name,
        slurm_cluster(2, SLOT_S) as cluster,
        Watch(cluster.configuration) as watch,
    ):
        free_s = start_up_s(submit(cluster, Path(name) / "alone", ALONE))
        settings = [f"repeats={options.repeats}", *options.settings]
        records = submit(cluster, Path(name) / "mix", settings)
    show_all(records, watch, free_s)
    print(
        f"\nOf slots and switches: median, most (number). {options.repeats} repeats, medians. Slurm starts a "
        f"job alone in {free_s:.1f} s. {os.cpu_count()} cores, Linux {platform.release()}, "
        f"load average before {load:.1f}, after {os.getloadavg()[0]:.1f}."
    )


if __name__ == "__main__":
    main()
