"""What it costs that ``lockstep exec`` knows where ranks are: notes, ``--stuck`` and ``--profile``.

    python -P tests/benchmarks/watched.py [--since COMMIT] [--rounds 9]

Times of two ranks under ``exec`` with each option, over those without one, and with ``--since`` those without
one over those of a former commit: medians of rounds in which the variants take turns. Needs two idle
processors.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import native_programs
from benchmark import ENVIRONMENT, LOCKSTEP, headed, parsed, tabled, version

MPIS = ("here", "openmpi")
LOOPS = {"messages": 300_000, "sums": 8_000}
OPTIONS = {"--stuck": ("--stuck", "60"), "--profile": ("--profile",)}


def seconds(folder, options, program):
    """How long rank 0 says that its loop takes, under the product in this folder."""
    command = [*LOCKSTEP, "exec", *options, "--", *program]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(folder)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(result.stdout.split()[0])


def main():
    options = parsed(__doc__, since={"metavar": "COMMIT"}, rounds=9)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.chdir(folder)
        present = ENVIRONMENT["PYTHONPATH"]
        variants = {"exec": (present, ())} | {name: (present, words) for name, words in OPTIONS.items()}
        if options.since:
            variants["before"] = stack.enter_context(version(options.since)), ()
        compiled = native_programs.compiled_in(folder)
        headed("MPI", "loop", "exec, s", *OPTIONS, *(["exec / before"] if options.since else []))
        for mpi in MPIS:
            for loop, count in LOOPS.items():
                ranks = [*native_programs.launcher(mpi), "-n", "2"]
                program = [*ranks, compiled(mpi, "round_trips.c"), loop, str(count)]
                times = {name: [] for name in variants}
                for number in range(options.rounds + 1):  # the first one compiles
                    for name, variant in variants.items():
                        took_s = seconds(*variant, program)
                        times[name] += [took_s] if number else []
                medians = {name: statistics.median(values) for name, values in times.items()}
                ratios = [medians[name] / medians["exec"] for name in OPTIONS]
                ratios += [medians["exec"] / medians["before"]] if options.since else []
                tabled(mpi, loop, f"{medians['exec']:.3f}", *(f"{ratio:.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
