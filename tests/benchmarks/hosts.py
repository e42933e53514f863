"""Three jobs on two emulated hosts, as a user runs them; wants a quiet machine and five minutes.

``python tests/benchmarks/hosts.py [--granularity-us G] [--repeats N] [--dedicated-s S]``

Each host has one of this machine's cores; the jobs' messages go through TCP. Prints Markdown:
workload slowdowns, and how far apart the hosts were at the changes of slot.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, tabled
from netns_cluster import cluster, unavailable

EXPERIMENT = """
name = "two-hosts"
repeats = {repeats}
schedulers = [
  {{ policy = "gang", quantum_ms = 100 }}, {{ policy = "gang", quantum_ms = 10 }},
  {{ policy = "implicit" }}, {{ policy = "partitioned" }},
]
[[jobs]]
count = 3
[jobs.program]
pattern = "BARRIER"
processes = 2
imbalance = 0.25
granularity_us = {granularity_us}
dedicated_s = {dedicated_s}
"""


def rows(hosts, text):
    file = hosts.root / "two-hosts.toml"
    file.write_text(text)
    argv = [sys.executable, "-m", "harness.cli", "run", str(file), "--json", "--no-simulate"]
    places = ",".join(f"{host}:1" for host in hosts.hosts)
    started = hosts.start([*argv, "--hosts", places, "--results", str(hosts.root / "results")])
    out, err = started.communicate()
    if started.returncode:
        raise SystemExit(err)
    return json.loads(out)["rows"]


def cells(row):
    scheduler, measured = row["scheduler"], row["measured"]
    slowdown, switches = measured["workload_slowdown"], measured["switches"] or {}
    low, high = slowdown["ci95"] or slowdown["extremes"] or 2 * [slowdown["median"]]
    name = scheduler["policy"] + (f" {scheduler['quantum_ms']:g} ms" if "quantum_ms" in scheduler else "")
    known = [switches.get(key) for key in ("switch_delay_us", "between_nodes_us")]
    pairs = [f"{found['p50']:.0f}/{found['p99']:.0f}" if found else "" for found in known]
    uncertainty = f"{switches['clock_uncertainty_us']:.0f}" if "clock_uncertainty_us" in switches else ""
    return name, f"{slowdown['median']:.2f}", f"{low:.2f} to {high:.2f}", *pairs, uncertainty


def main():
    options = parsed(__doc__, granularity_us=1000.0, repeats=5, dedicated_s=2.0)
    if reason := unavailable():
        sys.exit(reason)
    with cluster(2) as hosts:
        found = rows(hosts, EXPERIMENT.format(**vars(options)))
    times = "late p50/p99, us", "between hosts p50/p99, us", "clocks, us"
    headed("scheduler", "workload slowdown", "95 %", *times)
    for row in found:
        tabled(*cells(row))


if __name__ == "__main__":
    main()
