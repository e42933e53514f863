"""Which hangs ``lockstep exec --stuck`` recognises, with each MPI that is here.

    python -P tests/benchmarks/hangs.py [--seconds 3] [--rounds 1]

Lets four ranks of ``tests/support/native/hangs.c`` hang in each way, and compares what is said of them with
the right verdict. Prints a row for each kind of hang: right, "no conclusion", wrong or not reported, and how
long after the time of ``--stuck`` the command had ended. Exits with 1 if any verdict is wrong.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import native_programs
from benchmark import headed, parsed, tabled
from hangs import VERDICTS, hang

from harness.analyse.missing_rank import NO_CONCLUSION

MPIS = ("here", "openmpi")


def judged(one):
    if one.status != 124:
        return "not reported"
    if one.verdict == NO_CONCLUSION:
        return NO_CONCLUSION
    return "right" if one.right else f"wrong: {one.verdict}"


def main():
    options = parsed(__doc__, seconds=3, rounds=1)
    counts = dict[str, int]()
    headed("hang", *(f"{mpi}: verdict, s" for mpi in MPIS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled = native_programs.compiled_in(folder)
        programs = {mpi: compiled(mpi, "hangs.c", "-pthread") for mpi in MPIS}
        for kind in VERDICTS:
            cells = []
            for mpi, program in programs.items():
                ones = [hang(kind, program, mpi, folder, options.seconds) for _ in range(options.rounds)]
                verdicts = [judged(one) for one in ones]
                for verdict in verdicts:
                    counts[verdict.partition(":")[0]] = counts.get(verdict.partition(":")[0], 0) + 1
                late_s = max(one.wall_s for one in ones) - options.seconds
                cells.append(f"{', '.join(sorted(set(verdicts)))}, {late_s:.1f}")
            tabled(kind, *cells)
    print(", ".join(f"{verdict}: {count}" for verdict, count in sorted(counts.items())))
    raise SystemExit("wrong" in counts)


if __name__ == "__main__":
    main()
