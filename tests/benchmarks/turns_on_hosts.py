"""What turns cost on two emulated hosts: three bulk-synchronous programs by ``lockstep turns --hosts``.

    python -P tests/benchmarks/turns_on_hosts.py
    python -P tests/benchmarks/turns_on_hosts.py --quick

Each host has one of this machine's cores. Each program has a spinning rank on each host; their messages go
through TCP. A round runs one program alone, then three by turns, then one alone again. Ratio: the makespan
over three times the mean time alone. The makespan is the longest time of a program from its start to its
end and two slots, since the last one starts at most two slots after the first. The time alone is what
the program itself counts, without its launch. Median over rounds, with the extremes, and the load average:
run it where nothing else runs.
"""

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import compiled, parsed, shown
from netns_cluster import cluster, unavailable

from coordinator.host.launcher_choice import find_launcher

JOBS = 3
LOCKSTEP = (sys.executable, "-P", "-m", "harness")


def output(hosts, argv):
    started = hosts.start(argv)
    out, err = started.communicate()
    if started.returncode:
        raise SystemExit(err)
    return out


def makespan_s(hosts, command, quantum_ms):
    words = [word for _ in range(JOBS) for word in (":::", *command)][1:]
    where = ["--hosts", ",".join(hosts.hosts), "--quantum-ms", str(quantum_ms)]
    with tempfile.TemporaryDirectory() as place:
        found = output(hosts, [*LOCKSTEP, "turns", "--json", *where, "-o", place, "--", *words])
    return max(one["seconds"] for one in json.loads(found)["programs"]) + (JOBS - 1) * quantum_ms / 1e3


def main():
    seconds = {"default": 10.0, "help": "about how long a program computes alone"}
    quick = {"default": False, "help": "one round of shorter programs"}
    options = parsed(__doc__, rounds=5, seconds=seconds, quantum_ms=100.0, quick=quick)
    rounds, seconds = (1, 3.0) if options.quick else (options.rounds, options.seconds)
    if reason := unavailable():
        sys.exit(reason)
    ratios = []
    with tempfile.TemporaryDirectory() as folder, cluster(2) as hosts:
        launcher = find_launcher()
        program = compiled(launcher.path, folder, "bsp.c")
        work = [program, "1000", ".25", str(round(seconds * 1e3))]
        alone = launcher.argv(2, work, hosts.hosts)
        for number in range(rounds):
            before_s = float(output(hosts, alone).split()[0])
            turns_s = makespan_s(hosts, [launcher.path, "-n", "2", *work], options.quantum_ms)
            once_s = statistics.mean([before_s, float(output(hosts, alone).split()[0])])
            ratios.append(turns_s / (JOBS * once_s))
            load = os.getloadavg()[0]
            times = f"{once_s:.2f} s alone, {turns_s:.2f} s by turns, load {load:.1f}"
            print(f"round {number + 1} of {rounds}: {times}", file=sys.stderr, flush=True)
    print(f"makespan / sum alone: {shown(ratios, '.3f')}")


if __name__ == "__main__":
    main()
