"""Three jobs on two emulated hosts, as a user runs them; wants a quiet machine and five minutes.

``python tests/benchmarks/hosts.py [--granularity-us G] [--repeats N] [--dedicated-s S]``

Each host has one of this machine's cores; the jobs' messages go through TCP. Prints Markdown:
workload slowdowns, and how far apart the hosts were at the changes of slot.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from netns_cluster import Cluster, cluster, unavailable

EXPERIMENT = """
name = "two-hosts"
repeats = {repeats}

[[jobs]]
count = 3
program = {{ pattern = "BARRIER", processes = 2, granularity_us = {granularity_us}, \
imbalance = 0.25, dedicated_s = {dedicated_s} }}

[[schedulers]]
policy = "gang"
quantum_ms = 100

[[schedulers]]
policy = "gang"
quantum_ms = 10

[[schedulers]]
policy = "implicit"

[[schedulers]]
policy = "partitioned"
"""

HEAD = """\
| scheduler | workload slowdown | 95 % | lateness p50/p99, us | between hosts p50/p99, us | clocks, us |
|---|---|---|---|---|---|"""


def run(hosts: Cluster, text: str) -> str:
    """The table's rows."""
    file = hosts.root / "two-hosts.toml"
    file.write_text(text)
    argv = [sys.executable, "-m", "harness.cli", "run", str(file), "--json", "--no-simulate"]
    argv += [
        "--hosts",
        ",".join(f"{host}:1" for host in hosts.hosts),
        "--results",
        str(hosts.root / "results"),
    ]
    started = hosts.start(argv)
    out, err = started.communicate()
    if started.returncode:
        raise SystemExit(err)
    return "\n".join(map(_line, json.loads(out)["rows"]))


def _line(row: dict[str, Any]) -> str:
    scheduler, measured = row["scheduler"], row["measured"]
    slowdown, switches = measured["workload_slowdown"], measured["switches"] or {}
    low, high = slowdown["ci95"] or slowdown["extremes"]
    name = scheduler["policy"] + (f" {scheduler['quantum_ms']:g} ms" if "quantum_ms" in scheduler else "")
    pairs = [
        f"{switches[key]['p50']:.0f}/{switches[key]['p99']:.0f}" if key in switches else ""
        for key in ("lateness_us", "between_nodes_us")
    ]
    doubt = f"{switches['clock_uncertainty_us']:.0f}" if "clock_uncertainty_us" in switches else ""
    return f"| {name} | {slowdown['median']:.2f} | {low:.2f} to {high:.2f} | {' | '.join(pairs)} | {doubt} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--granularity-us", type=float, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dedicated-s", type=float, default=2)
    options = parser.parse_args()
    if why := unavailable():
        sys.exit(why)
    with cluster(2) as hosts:
        rows = run(hosts, EXPERIMENT.format(**vars(options)))
    print(f"{HEAD}\n{rows}")


if __name__ == "__main__":
    main()
