"""What ``lockstep simulate --mpi`` gains by a second worker: prints a Markdown table.

``python tests/benchmarks/simulate_mpi.py [--rounds N] [--workers N] [EXPERIMENT [OPTION...]]``

The same simulations by one worker and by several, in turn; the first rank, which hands them out,
does no work. Wants a core for each worker and a quiet machine. The kernels are compiled beforehand.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import LOCKSTEP, headed, parsed, tabled

from coordinator.host.launchers import find_launcher

SAID = re.compile(r"workers: ([\d.]+) s of processor time in ([\d.]+) s")


def simulated(workers: int, experiment: list[str]) -> tuple[float, float]:
    """Processor time and time passed, in seconds, of the simulations of an experiment."""
    launcher = find_launcher()
    command = [*LOCKSTEP, "simulate", *experiment, "--mpi"]
    done = subprocess.run(
        launcher.argv(1 + workers, command),
        env=launcher.environment({}),
        capture_output=True,
        text=True,
        check=False,
    )
    found = SAID.search(done.stderr)
    if done.returncode or found is None:
        sys.exit(done.stderr)
    return float(found[1]), float(found[2])


def main() -> int:
    experiment = {"nargs": "*", "default": ["validation", "--set", "repeats=10"]}
    options = parsed(__doc__, rounds=3, workers=2, _experiment=experiment)
    simulated(1, options.experiment)
    times: dict[int, list[tuple[float, float]]] = {1: [], options.workers: []}
    for _ in range(options.rounds):
        for workers, found in times.items():
            found.append(simulated(workers, options.experiment))
    headed("workers", "processor time, s", "time passed, s", "as fast as one")
    one_s = statistics.median(passed_s for _, passed_s in times[1])
    for workers, found in times.items():
        busy_s, passed_s = (statistics.median(values) for values in zip(*found, strict=True))
        tabled(workers, f"{busy_s:.1f}", f"{passed_s:.1f}", f"{one_s / passed_s:.2f}")
    host = f"{os.cpu_count()} cores, Linux {platform.release()}, load average {os.getloadavg()[0]:.1f}"
    print(f"\nMedians of {options.rounds}; {host}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
