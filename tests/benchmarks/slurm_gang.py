"""Slurm's gang scheduling beside Lockstep's: the same jobs on the same emulated cluster, one table.

``python tests/benchmarks/slurm_gang.py [--repeats N] [--set KEY=VALUE]...``

Submits the built-in experiment slurm-gang to a Slurm on two nodes of one core, and one of its short
jobs alone, which tells what Slurm takes to start a job. Whether a rank goes on or is stopped is seen
from outside, under both in the same way. A repeat takes some five minutes. Prints Markdown.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import parsed
from proc_spans import Watch, overlaps_s, skews_s, slots_s, told_ms
from slurm_cluster import SlurmCluster, slurm_cluster, unavailable

from harness.store.database import Store
from harness.store.records import DEDICATED, POLICY, RunRecord

SLOT_S = 5
PATIENCE_S = 3600
ALONE = (
    "repeats=3",
    "jobs=[{program={pattern='BARRIER', processes=2, granularity_us=1000, imbalance=0.25, dedicated_s=1.0}}]",
    f"schedulers=[{{policy='slurm-gang', quantum_ms={1000 * SLOT_S}}}]",
)


def submit(cluster: SlurmCluster, results: Path, settings: Sequence[str]) -> list[RunRecord]:
    """Submit the experiment from the head and wait for it; returns its records."""
    words = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "harness.cli", "submit", "slurm-gang", *words]
    run = cluster.hosts.start([*command, "--wait", "--no-simulate", "--json", "--results", str(results)])
    out, err = run.communicate(timeout=PATIENCE_S)
    if run.returncode:
        sys.exit(f"{err}\n{cluster.logs()}")
    with Store(results, existing=True) as store:
        return store.runs(json.loads(out)["digest"])


def dedicated_s(records: Sequence[RunRecord], policy: RunRecord) -> list[float]:
    """The dedicated time of each job of a run, of the same repeat."""
    alone = {
        json.dumps(record.jobs[0].program, sort_keys=True): (record.makespan_ns or 0) / 1e9
        for record in records
        if record.kind == DEDICATED and record.repeat == policy.repeat
    }
    return [alone[json.dumps(job.program, sort_keys=True)] for job in policy.jobs]


def responses_s(record: RunRecord) -> list[float]:
    return [(job.response_ns or 0) / 1e9 for job in record.jobs]


def start_up_s(records: Sequence[RunRecord]) -> float:
    """What Slurm takes to start a job that is alone."""
    alone = [record for record in records if record.kind == POLICY]
    return statistics.median(responses_s(r)[0] - dedicated_s(records, r)[0] for r in alone)


def label(table: Any) -> str:
    if table["policy"] == "gang":
        return f"Lockstep gang, {table['quantum_ms']:g} ms"
    return f"Slurm gang, {table['quantum_ms'] / 1000:g} s" + ("" if table["retry"] else ", start-up by srun")


def row(
    name: str, ours: Sequence[RunRecord], records: Sequence[RunRecord], watch: Watch, free_s: float
) -> str:
    """A line of the table; ``free_s`` of each job's time are not counted."""
    slowdowns, means = [], []
    slots: list[float] = []
    overlaps: list[float] = []
    skews: list[float] = []
    for record in ours:
        responses = responses_s(record)
        slowdowns.append(((record.makespan_ns or 0) / 1e9 - free_s) / sum(dedicated_s(records, record)))
        means.append(statistics.fmean(response - free_s for response in responses[1:]))
        end_s = datetime.fromisoformat(record.recorded_at).timestamp()
        spells = watch.between(end_s - record.wall_s, end_s)
        slots += slots_s(spells)
        overlaps += overlaps_s(spells)
        skews += skews_s(spells)
    cells = [f"{statistics.median(slowdowns):.2f}", f"{statistics.median(means):.1f}"]
    return f"| {' | '.join([name, *cells, *map(told_ms, (slots, overlaps, skews))])} |"


def table(records: Sequence[RunRecord], watch: Watch, free_s: float) -> str:
    """The schedulers in the order of the experiment, Slurm's with and without its start-up."""
    found: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.kind == POLICY:
            found.setdefault(json.dumps(record.scheduler, sort_keys=True), []).append(record)
    lines = [
        "| | workload slowdown | mean response of the short jobs, s | slot, ms | "
        "two jobs at once at a switch, ms | between the nodes at a stop, ms |",
        "|---|---|---|---|---|---|",
    ]
    for text, ours in sorted(found.items()):
        name = label(json.loads(text))
        lines.append(row(name, ours, records, watch, 0.0))
        if name.startswith("Slurm"):
            lines.append(row(f"{name}; without the start-up of a job alone", ours, records, watch, free_s))
    return "\n".join(lines)


def main() -> int:
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
    sys.stdout.write(
        f"{table(records, watch, free_s)}\n\n"
        f"Of slots and switches: median, most (number). {options.repeats} repeats, medians. Slurm starts a "
        f"job alone in {free_s:.1f} s. {os.cpu_count()} cores, Linux {platform.release()}, "
        f"load average before {load:.1f}, after {os.getloadavg()[0]:.1f}.\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
