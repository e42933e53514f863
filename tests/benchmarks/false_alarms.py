"""Which reports ``lockstep exec --stuck`` makes on programs that end by themselves.

    python -P tests/benchmarks/false_alarms.py --seconds 20 --mpi4py DIR [--ranks 4]
    python -P tests/benchmarks/false_alarms.py --seconds 20 --programs DIR [--every 3]

``--mpi4py`` names the folder ``test`` of mpi4py's source distribution, whose modules are a job each.
``--programs`` names a folder with compiled programs of MPICH's ``test/mpi``, and in each folder of it their
``testlist``: a program, its ranks, and words as ``arg=-x`` or ``env=A=B``. Each runs with
``--stuck SECONDS:report`` for at most ``--limit-s``. Prints a line for each job, each report on one that has
ended by itself, and how many there are. Exits with 1 if one has a verdict.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import LOCKSTEP, OPENMPI, SUPPORT

from coordinator.host.launcher_choice import launcher_at
from harness.analyse.rank_report import NO_CONCLUSION


@dataclass(frozen=True)
class Case:
    """A job: ``words`` start each of its ranks."""

    name: str
    ranks: int
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


def modules(suite, ranks):
    """mpi4py's modules of tests; what they write goes to ``records``."""
    me = [sys.executable, str(SUPPORT / "mpi4py_suite.py"), "--rank", "records"]
    variables = (("MPI4PY_SUITE", str(suite.resolve())),)
    return [Case(path.stem, ranks, (*me, path.stem), variables) for path in sorted(suite.glob("test_*.py"))]


def programs(folder):
    cases = []
    for tests in sorted(folder.rglob("testlist")):
        for line in tests.read_text().splitlines():
            name, *rest = line.split() or ["#"]
            program = tests.with_name(name)
            if name.startswith("#") or not rest or not program.is_file():
                continue
            words = [word.partition("=")[2] for word in rest if word.startswith("arg=")]
            variables = [tuple(word.split("=", 2)[1:]) for word in rest if word.startswith("env=")]
            shown = " ".join([str(program.relative_to(folder)), *words])
            cases.append(Case(shown, int(rest[0]), (str(program), *words), tuple(variables)))
    return cases


@dataclass(frozen=True)
class Run:
    ended: bool
    wall_s: float
    reports: tuple[dict, ...]


def run(case, options):
    """Run a job in a folder of its own."""
    launcher = launcher_at(options.mpi)
    unbound = ["--oversubscribe", "--bind-to", "none"] if launcher.kind == "openmpi" else []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "records").mkdir()
        patience = ["--stuck", f"{options.seconds:g}:report", "--stuck-report", f"{folder}/reports.json"]
        command = [*LOCKSTEP, "exec", *patience, "--", launcher.path, *unbound, "-n", str(case.ranks)]
        environment = {**os.environ, **OPENMPI, "PYTHONPATH": str(SUPPORT.parents[1]), **dict(case.variables)}
        begin_s = time.monotonic()
        process = subprocess.Popen(
            [*command, *case.words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ended = True
        try:
            process.wait(options.limit_s)
        except subprocess.TimeoutExpired:
            ended = False
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        wall_s = time.monotonic() - begin_s
        file = Path(folder, "reports.json")
        reports = json.loads(file.read_text())["reports"] if file.exists() else []
        return Run(ended, wall_s, tuple(reports))


def shown(report):
    lines = Counter(rank["text"] for rank in report["ranks"])
    return "\n".join(f"    {count} x {line}" for line, count in lines.items()) + f"\n    {report['verdict']}"


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--mpi", default="mpiexec", metavar="LAUNCHER")
    parser.add_argument("--ranks", type=int, default=2, help="of mpi4py's tests")
    parser.add_argument("--mpi4py", type=Path, metavar="DIR")
    parser.add_argument("--programs", type=Path, metavar="DIR")
    parser.add_argument("--every", type=int, default=1, help="take every n-th program or module only")
    parser.add_argument("--most-ranks", type=int, default=10)
    parser.add_argument("--limit-s", type=float, default=100)
    return parser.parse_args()


def main():
    options = parsed()
    cases = modules(options.mpi4py, options.ranks) if options.mpi4py else []
    cases += programs(options.programs) if options.programs else []
    cases = [case for case in cases if case.ranks <= options.most_ranks][:: options.every]
    counts, longest = Counter[str](), 0
    for case in cases:
        one = run(case, options)
        counts["ended" if one.ended else "did not end"] += 1
        longest += one.ended and one.wall_s >= options.seconds
        end = "ended" if one.ended else "did not end"
        said = f"{len(one.reports)} reports" if one.ended else "its reports do not count"
        print(f"{case.name} on {case.ranks} ranks: {end} after {one.wall_s:.1f} s, {said}", flush=True)
        for report in one.reports if one.ended else ():
            counts["no conclusion" if report["verdict"] == NO_CONCLUSION else "verdicts"] += 1
            print(shown(report), flush=True)
    told = ", ".join(f"{what}: {count}" for what, count in counts.items())
    print(f"{len(cases)} jobs, {longest} of them lasted {options.seconds:g} s or more; {told}")
    raise SystemExit(counts["verdicts"] > 0)


if __name__ == "__main__":
    main()
