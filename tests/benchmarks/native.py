"""What two-phase waits give MPI programs in C and Fortran that share processors: three jobs on two cores.

    python -P tests/benchmarks/native.py [--launcher mpiexec --launcher mpirun.openmpi] [--skip-as-it-is]

Prints a row for each MPI and program: the makespan of the jobs together over the sum of their times alone
as they are, with the jobs as they are, and with two-phase waits; then what these cost alone, and in an
MPI ping-pong. A round measures all of them one after the other; medians over the rounds. Ratios, not
times, are what to look at, and only on a machine that does nothing else.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from workloads import native
from workloads.blocking import waiting

PROGRAMS = Path(__file__).resolve().parents[1] / "native"
PATIENCE_S = 40
OPTIONS = {
    "openmpi": ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"],
    "mpich": ["-bind-to", "none"],
}


@dataclass
class Mpi:
    """An MPI: how its programs are compiled, started, and made to wait two-phase."""

    launcher: str
    mpicc: Path
    two_phase: dict[str, str]

    def argv(self, ranks, program):
        version = subprocess.run(
            [self.launcher, "--version"], capture_output=True, text=True, check=False
        ).stdout
        kind = "openmpi" if "Open" in version or "OpenRTE" in version or "prte" in version else "mpich"
        return [self.launcher, *OPTIONS[kind], "-n", str(ranks), *program]

    def compiled(self, source, folder):
        made = folder / f"{source.stem}-{self.mpicc.name}-{abs(hash(self.mpicc))}"
        if source.suffix == ".f90":
            compiler = self.mpicc.with_name(self.mpicc.name.replace("mpicc", "mpifort"))
        else:
            compiler = self.mpicc
        subprocess.run(
            [compiler, "-O2", "-o", made, source, *(["-cpp"] if source.suffix == ".f90" else [])],
            check=True,
            cwd=folder,
        )
        return str(made)


def together(argvs, variables):
    """Seconds until the last of several commands has ended; None if that takes too long."""
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **variables,
    }
    begin = time.monotonic()
    jobs = [subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL) for argv in argvs]
    try:
        for job in jobs:
            job.wait(max(0.1, begin + PATIENCE_S - time.monotonic()))
    except subprocess.TimeoutExpired:
        for job in jobs:
            job.terminate()
        for job in jobs:
            job.wait()
        return None
    assert not any(job.returncode for job in jobs)
    return time.monotonic() - begin


def measured(mpi, program, options):
    """Medians over rounds: as they are, two-phase, and two-phase alone, each over the times alone."""
    argv = mpi.argv(options.ranks, program)
    found = {"alone": [], "as it is": [], "two-phase": [], "two-phase alone": []}
    as_it_is = not options.skip_as_it_is
    for _ in range(options.rounds):
        alone = together([argv], {})
        found["alone"].append(alone)
        found["two-phase alone"].append(together([argv], mpi.two_phase) / alone)
        found["two-phase"].append(together([argv] * options.jobs, mpi.two_phase) / (options.jobs * alone))
        if as_it_is:
            spent = together([argv] * options.jobs, {})
            found["as it is"].append(spent / (options.jobs * alone) if spent else float("inf"))
            as_it_is = spent is not None
    return {name: statistics.median(values) if values else float("nan") for name, values in found.items()}


def ping_pong(mpi, program, options):
    """The time of a ping-pong with two-phase waits over that without; a median over rounds."""
    ratios = []
    for _ in range(options.rounds):
        spent = []
        for variables in ({}, mpi.two_phase):
            environment = {
                **os.environ,
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                **variables,
            }
            argv = mpi.argv(2, [program, "20000"])
            spent.append(
                float(
                    subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout
                )
            )
        ratios.append(spent[1] / spent[0])
    return statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--launcher", action="append", help="of an MPI to measure; may be repeated")
    parser.add_argument(
        "--program", action="append", help="bsp.c, bsp.f90 or a command in quotes; may be repeated"
    )
    parser.add_argument("--seconds", type=float, default=1.6, help="of work of each job of the loop")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--skip-as-it-is", action="store_true", help="not the slow one")
    parser.add_argument(
        "--loops", nargs="*", default=["100:.25", "1000:1.5"], help="US:IMBALANCE of the loop"
    )
    parser.add_argument("--blocking", default="global-adaptive")
    options = parser.parse_args()
    rule = waiting(options.blocking, switch_us=10, latency_us=2)
    print("| MPI | program | alone | as it is | two-phase | two-phase alone |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for launcher in options.launcher or ["mpiexec"]:
            mpicc = native.wrapper([launcher])
            mpi = Mpi(launcher, mpicc, native.library(mpicc).environment(rule))
            for program in options.program or ["bsp.c"]:
                for argv in commands(mpi, program, options, Path(name)):
                    row = measured(mpi, argv, options)
                    label = " ".join([Path(argv[0]).name.split("-")[0], *argv[1:]])[:40]
                    ratios = " | ".join(
                        f"{row[kind]:.2f}" for kind in ("as it is", "two-phase", "two-phase alone")
                    )
                    print(f"| {launcher} | {label} | {row['alone']:.2f} s | {ratios} |", flush=True)
            ratio = ping_pong(mpi, mpi.compiled(PROGRAMS / "pingpong.c", Path(name)), options)
            print(f"| {launcher} | ping-pong of 8 bytes | | | | {ratio:.2f} |", flush=True)


def commands(mpi, program, options, folder):
    """The command lines of a program: the loop at each of its granularities, or a command as it is."""
    source = PROGRAMS / program
    if not source.is_file():
        return [program.split()]
    made = mpi.compiled(source, folder)
    loops = [loop.split(":") for loop in options.loops]
    return [[made, g, v, str(int(options.seconds * 1e6 / float(g)))] for g, v in loops]


if __name__ == "__main__":
    main()
