"""What two-phase waits cost MPI programs whose ranks are on two nodes.

    python -P tests/benchmarks/native_nodes.py [--rounds 3] [--seconds 1]

Two emulated hosts of one core each, and jobs with a rank on each. For each program and rule: the time of one
job, and a third of the time of three together, over the time of one job as it is; for the ping-pong, the
microseconds of a round trip. Medians over rounds. Look at ratios, on a machine that does nothing else.
"""

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import LOCKSTEP, compiled, parsed
from netns_cluster import cluster

RULES = ("", "immediate", "global-adaptive")
"""The first is none: MPI waits as it is."""


def run(hosts, rule, program, jobs):
    """What that many jobs at a time print first: the longest."""
    before = [*LOCKSTEP, "exec", "--waiting", rule, "--"] if rule else []
    argv = [*before, "mpiexec", "-hosts", ",".join(hosts.hosts), "-ppn", "1", "-n", "2", *program]
    started = [hosts.start(argv) for _ in range(jobs)]
    printed = []
    for job in started:
        out, err = job.communicate(timeout=600)
        if job.returncode:
            raise SystemExit(err)
        printed.append(float(out.split()[0]))
    return max(printed)


def main():
    options = parsed(__doc__, rounds=3, seconds=1.0)
    with tempfile.TemporaryDirectory() as folder, cluster(2) as hosts:
        bsp, pingpong = (compiled("mpiexec", folder, f"{name}.c") for name in ("bsp", "pingpong"))
        programs = {"ping-pong": [pingpong, str(int(options.seconds * 2000))]}
        for g_us, imbalance in ((100, 0.25), (1000, 0.25), (1000, 1.5), (10000, 1.5)):
            count = max(1, int(options.seconds * 1e6 / g_us))
            programs[f"g = {g_us} us, v = {imbalance} g"] = [bsp, str(g_us), str(imbalance), str(count)]
        print(f"{'':28}{'rule':18}{'alone':>8}{'three':>8}")
        for name, program in programs.items():
            times = {(rule, jobs): [] for rule in RULES for jobs in (1, 3)}
            for _ in range(options.rounds):
                for (rule, jobs), found in times.items():
                    if name == "ping-pong" and jobs > 1:
                        continue
                    found.append(run(hosts, rule, program, jobs))
            base = statistics.median(times["", 1])
            for rule in RULES:
                if name == "ping-pong":
                    cells = f"{statistics.median(times[rule, 1]):8.1f} us"
                else:
                    together = statistics.median(times[rule, 3]) / 3
                    cells = f"{statistics.median(times[rule, 1]) / base:8.2f}{together / base:8.2f}"
                print(f"{name:28}{rule or 'as it is':18}{cells}", flush=True)


if __name__ == "__main__":
    main()
