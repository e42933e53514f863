"""What recording costs a program that runs alone: its time with a recording over its time without.

    python -P tests/benchmarks/recording.py --program c
    python -P tests/benchmarks/recording.py --program lammps

A round runs the program twice without a recording and once with it, in an order that changes from round to
round. The first row has the median over the rounds, with its 95 % interval, of the time with a recording over
the mean of the two times without; the second has the same of one time without over the other: what the
machine itself does to a ratio.
"""

import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import DEBIAN, ENVIRONMENT, LAMMPS, LOOPS, compiled, headed, launched, parsed, tabled

from harness.analyse.statistics import median_interval
from workloads import native
from workloads.waiting_rules import waiting_rule

GOAL = 1.02

PLAIN, AGAIN, RECORDED = range(3)


def seconds(argv, more):
    begin = time.monotonic()
    subprocess.run(argv, env=ENVIRONMENT | more, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begin


def main():
    options = parsed(
        __doc__,
        **{"granularity_us": 100.0, "rounds": 21},
        program={"choices": ["c", "lammps"], "default": "c"},
        launcher={"help": "of the MPI (default: mpiexec for c, Debian's Open MPI for lammps)"},
        seconds={"default": 2.0, "help": "of work of the loop"},
        steps={"default": 400, "help": "of lammps"},
    )
    launcher = options.launcher or (DEBIAN if options.program == "lammps" else "mpiexec")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.program == "c":
            made = compiled(launcher, folder, *LOOPS["c"])
            words = [made, str(options.granularity_us), "0.25"]
            words += [str(int(options.seconds * 1e6 / options.granularity_us))]
        else:
            words = [*LAMMPS, options.steps]
        argv = launched(launcher, 2, words)
        files = folder / "files"
        files.mkdir()
        library = native.library(native.wrapper([launcher]))
        recorded = library.environment(waiting_rule("spin", context_switch_us=10, latency_us=2), files)
        seconds(argv, recorded)  # what is first read from a disk counts for neither
        times = []
        for number in range(options.rounds):
            times.append(one_round(argv, recorded, number))
            for path in files.iterdir():
                size = path.stat().st_blocks * 512
                path.unlink()
    alone_s = statistics.median(took[PLAIN] for took in times)
    print(f"{options.program}: {alone_s:.3f} s without, {size / 1e6:.1f} MB a rank with a recording")
    headed("ratio", "median", "95 % interval")
    least, most = row("recorded / not", [t[RECORDED] / statistics.mean(t[:RECORDED]) for t in times])
    row("not / not", [t[AGAIN] / t[PLAIN] for t in times])
    found = "holds" if most <= GOAL else "does not hold" if least > GOAL else "is not decided: more rounds"
    print(f"at most {GOAL}: {found}")


def one_round(argv, recorded, number):
    """Times without a recording, without, and with one, in an order that depends on ``number``."""
    took = [0.0] * 3
    for which in range(number, number + 3):
        took[which % 3] = seconds(argv, recorded if which % 3 == RECORDED else {})
    return took


def row(what, ratios):
    """Print a row of the table; returns the ends of its interval."""
    least, most = median_interval(sorted(ratios)) or (0.0, math.inf)
    tabled(what, f"{statistics.median(ratios):.3f}", f"{least:.3f} to {most:.3f}")
    return least, most


if __name__ == "__main__":
    sys.exit(main())
