"""What recording costs a program that runs alone: its time with a recording over its time without.

    python -P tests/benchmarks/recording.py --program c
    python -P tests/benchmarks/recording.py --program lammps

Both run in turn, first one and then the other in every second round. The row has the ratio of the medians,
the median of the ratios in a round, and the bytes of the recording. Only a machine that does nothing else
gives ratios to rely on.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from native import DEBIAN, ENVIRONMENT, PROGRAMS, compiled, launched

from workloads import native
from workloads.blocking import waiting


def seconds(argv, more):
    """Wall-clock time of a command."""
    begin = time.monotonic()
    subprocess.run(argv, env=ENVIRONMENT | more, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begin


def main():
    """Measure one program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--program", choices=["c", "lammps"], default="c")
    add("--launcher", help="of the MPI (default: mpiexec for c, Debian's Open MPI for lammps)")
    add("--granularity-us", type=float, default=100.0)
    add("--seconds", type=float, default=2.0, help="of work of the loop")
    add("--steps", type=int, default=400, help="of lammps")
    add("--rounds", type=int, default=11)
    options = parser.parse_args()
    launcher = options.launcher or (DEBIAN if options.program == "lammps" else "mpiexec")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.program == "c":
            made = compiled(launcher, "bsp.c", "mpicc", [], folder)
            words = [made, str(options.granularity_us), "0.25"]
            words += [str(int(options.seconds * 1e6 / options.granularity_us))]
        else:
            words = [
                "lmp",
                "-in",
                str(PROGRAMS / "melt.in"),
                "-var",
                "steps",
                str(options.steps),
                "-log",
                "none",
            ]
        argv = launched(launcher, 2, words)
        files = folder / "files"
        files.mkdir()
        library = native.library(native.wrapper([launcher]))
        recorded = library.environment(waiting("spin", switch_us=10, latency_us=2), files)
        seconds(argv, recorded)  # what is first read from a disk counts for neither
        pairs = []
        for number in range(options.rounds):
            choices = [{}, recorded]
            taken = [seconds(argv, more) for more in (choices if number % 2 else choices[::-1])]
            pairs.append(taken if number % 2 else taken[::-1])
            for path in files.iterdir():
                size = path.stat().st_blocks * 512
                path.unlink()
    plain, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratios = statistics.median(with_ / without for without, with_ in pairs)
    print("| program | alone, s | recorded, s | ratio of medians | median of ratios | MB a rank |")
    print("|---|---|---|---|---|---|")
    cells = [options.program, *(f"{value:.3f}" for value in (plain, ours, ours / plain, ratios))]
    print("| " + " | ".join([*cells, f"{size / 1e6:.1f}"]) + " |")


if __name__ == "__main__":
    sys.exit(main())
