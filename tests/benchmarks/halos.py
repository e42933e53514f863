"""Fine halo exchanges beside each other, as their MPI waits: measured, and simulated by their recordings.

    python -P tests/benchmarks/halos.py
    python -P tests/benchmarks/halos.py --rounds 3 --results DIR

Three copies of a program of two ranks run at once under ``none``, bound to two processors. A row for each
program: the workload slowdown measured and simulated (medians over rounds), and the error; then the median
and the worst error. ``asks``: the program asks for its CPU time again and again as it computes.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import answer, compiled

HALOS = {
    "2 x 100 B, 30 us": ["2", "100", "30", "20000", "plain"],
    "2 x 3000 B, 70 us": ["2", "3000", "70", "10000", "plain"],
    "2 x 3000 B, 70 us, asks": ["2", "3000", "70", "10000"],
    "2 x 64 kB, 300 us": ["2", "64000", "300", "3000", "plain"],
    "4 x 3000 B, 300 us": ["4", "3000", "300", "3000", "plain"],
    "4 x 100 B, 1 ms": ["4", "100", "1000", "1000", "plain"],
    "8 x 1000 B, 100 us": ["8", "1000", "100", "7000", "plain"],
}
EXPERIMENT = """
name = "halo"
repeats = {rounds}
[[jobs]]
command = {command}
count = 3
dedicated_s = 1
record = true
waits = "mpi"
[[schedulers]]
policy = "none"
"""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--results", type=Path, help="directory in which the records stay")
    parser.add_argument("--no-wait", action="store_true", help="also beside another Lockstep")
    options = parser.parse_args()
    more = ["--json", *(["--no-wait"] if options.no_wait else [])]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        results = options.results.absolute() if options.results else folder / "results"
        program = compiled("mpiexec", folder, "halo.c")
        answer(folder, "calibrate", "--results", str(results), *more)
        errors = []
        for name, words in HALOS.items():
            command = json.dumps(["{launcher}", "-n", "2", program, *words])
            (folder / "halo.toml").write_text(EXPERIMENT.format(rounds=options.rounds, command=command))
            found = answer(folder, "run", "halo.toml", "--results", str(results), *more)
            (row,) = found["rows"]
            both = [row[of]["workload_slowdown"]["median"] for of in ("measured", "simulated")]
            errors.append(abs(row["error"]))
            told = f"measured {both[0]:.2f}, simulated {both[1]:.2f} ({100 * row['error']:+.1f} %)"
            print(f"{name:24} {told}", flush=True)
    told = f"{100 * statistics.median(errors):.1f} % in the median, {100 * max(errors):.1f} % at the worst"
    print(f"error: {told}")


if __name__ == "__main__":
    main()
