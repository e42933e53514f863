"""What two-phase waits give MPI programs that are not ours and share processors: three jobs on two cores.

    python -P tests/benchmarks/native.py --program c
    python -P tests/benchmarks/native.py --program c --launcher mpirun.openmpi
    python -P tests/benchmarks/native.py --program fortran-use-mpi
    python -P tests/benchmarks/native.py --program fortran-f08
    python -P tests/benchmarks/native.py --program mpi4py
    python -P tests/benchmarks/native.py --program lammps
    python -P tests/benchmarks/native.py --program hpcc
    python -P tests/benchmarks/native.py --program ping-pong [--launcher mpirun.openmpi]
    python -P tests/benchmarks/native.py --program threads [--launcher mpirun.openmpi]

A row for each program and loop: the makespan of the jobs together over the sum of their times alone as they
are. Columns: the jobs as they are, with each setting of their MPI, and two-phase (``lockstep waits``); under
gang scheduling while they spin (``lockstep run``); one job alone with two-phase waits. Medians over rounds
with their 95 % intervals. Look at ratios, not times, and only on a machine that does nothing else.

lammps and hpcc are Debian's packages, linked with its Open MPI. ``--jobs 1 --ranks 4`` is one job larger than
the machine; ``--only two-phase`` leaves the settings of the MPI out. ping-pong and threads (3 ranks
of 4 threads that wait at the same time) are one job alone, in turn as it is and two-phase.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from coordinator.host.launchers import launcher_at
from workloads import native
from workloads.blocking import waiting

PROGRAMS = Path(__file__).resolve().parents[1] / "support" / "native"
ROOT = PROGRAMS.parents[2]
LOCKSTEP = [sys.executable, "-P", "-m", "harness"]
LOOPS = {
    "c": ("bsp.c", "mpicc", []),
    "fortran-use-mpi": ("bsp.f90", "mpifort", ["-cpp", "-ffree-line-length-none"]),
    "fortran-f08": ("bsp.f90", "mpifort", ["-cpp", "-ffree-line-length-none", "-DF08"]),
}
"""Source, compiler wrapper and flags."""

PAIRED = {
    "ping-pong": ("pingpong.c", [], 2, ["20000"]),
    "threads": ("threads.c", ["-pthread"], 3, ["4", "300", "100"]),
}
"""Source, flags, ranks and words of programs whose last word is the time that they took."""

QUANTA_MS = (10, 100)
DEBIAN = "mpirun.openmpi"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def launched(launcher, ranks, program):
    """The command line of ranks that are bound to no core, however many there are."""
    openmpi = launcher_at(launcher).kind == "openmpi"
    return [
        launcher,
        *(["--oversubscribe", "--bind-to", "none"] if openmpi else ["-bind-to", "none"]),
        *["-n", str(ranks), *program],
    ]


def compiled(launcher, source, wrapper, flags, folder):
    """A program made by the wrapper of the launcher's MPI."""
    mpicc = native.wrapper([launcher])
    compiler = mpicc.with_name(mpicc.name.replace("mpicc", wrapper))
    made = folder / Path(source).stem
    subprocess.run([compiler, "-O2", *flags, "-o", made, PROGRAMS / source], check=True, cwd=folder)
    return str(made)


def commands(options, folder):
    """The programs to measure, each with a label."""
    if options.program == "lammps":
        words = ["lmp", "-in", str(PROGRAMS / "melt.in"), "-var", "steps", str(options.steps), "-log", "none"]
        return [(f"lammps, {options.steps} steps", words)]
    if options.program == "hpcc":
        small = (PROGRAMS / "hpccinf.txt").read_text()
        (folder / "hpccinf.txt").write_text(small.replace("64 Ns", "2000 Ns").replace("16 NBs", "80 NBs"))
        return [("hpcc, N = 2000", ["hpcc"])]
    if options.program == "mpi4py":
        made = [sys.executable, "-P", str(PROGRAMS / "bsp.py")]
    else:
        made = [compiled(options.launcher, *LOOPS[options.program], folder)]
    found = []
    for loop in options.loops:
        g_us, imbalance = loop.split(":")
        words = [*made, g_us, imbalance, str(int(options.seconds * 1e6 / float(g_us)))]
        words += ["reduce"] if options.program.startswith("fortran") and not options.exchange else []
        found.append((f"{options.program}, g = {g_us} us, v = {imbalance} g", words))
    return found


def answer(folder, *words):
    """The document that a command of Lockstep prints; its progress is ours."""
    argv = [*LOCKSTEP, *words]
    done = subprocess.run(argv, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:  # it has said why; a document may tell of runs that failed
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


def waits(options, program, folder):
    """Cells by heading: alone in seconds, each choice together, and two-phase waits alone."""
    only = [word for name in options.only for word in ("--only", name)]
    limits = ["--jobs", str(options.jobs), "--rounds", str(options.rounds), "--give-up", str(options.give_up)]
    argv = launched(options.launcher, options.ranks, program)
    found = answer(folder, "waits", "--json", *limits, *only, "--", *argv)
    cells = {"alone, s": f"{found['alone_s']['median']:.2f}"}
    for row in found["choices"]:
        cells[row["choice"]] = f"> {options.give_up:g}" if row["stopped"] else shown(row["together"])
        if row["choice"] == "two-phase":
            cells["two-phase alone"] = shown(row["alone"])
    cells["best"] = found["best"] or f"none ({found['fastest']})"
    return cells


def gangs(options, program, folder, alone_s):
    """Cells by heading, of the same jobs in slots of several lengths, spinning."""
    argv = [options.launcher, "-n", str(options.ranks), *program]
    tables = "".join(f'[[schedulers]]\npolicy = "gang"\nquantum_ms = {length}\n' for length in QUANTA_MS)
    job = f"[[jobs]]\ncount = {options.jobs}\ncommand = {json.dumps(argv)}\ndedicated_s = {alone_s}\n"
    (folder / "gang.toml").write_text(
        f"repeats = {options.rounds}\nprocessors = {options.ranks}\n{job}{tables}"
    )
    found = answer(folder, "run", "gang.toml", "--json", "--no-simulate", "--results", "gang")
    return {
        f"gang {row['scheduler']['quantum_ms']:g} ms": shown(row["measured"]["workload_slowdown"])
        for row in found["rows"]
    }


def shown(estimate):
    """A median with its interval."""
    if estimate["median"] is None:
        return "-"
    ends = " ({:.2f}-{:.2f})".format(*estimate["ci95"]) if estimate["ci95"] else ""
    return f"{estimate['median']:.2f}{ends}"


def paired(options, folder):
    """The time that a program says it took, with two-phase waits over without, in each round."""
    source, flags, ranks, words = PAIRED[options.program]
    program = compiled(options.launcher, source, "mpicc", flags, folder)
    argv = launched(options.launcher, ranks, [program, *words])
    library = native.library(native.wrapper([options.launcher]))
    two_phase = library.environment(waiting("global-adaptive", switch_us=10, latency_us=2))
    ratios = []
    for _ in range(options.rounds):
        plain, ours = (
            float(
                subprocess.run(
                    argv, env=ENVIRONMENT | more, capture_output=True, text=True, check=True
                ).stdout.split()[-1]
            )
            for more in ({}, two_phase)
        )
        ratios.append(ours / plain)
    return {"program": options.program, "two-phase alone": f"{statistics.median(ratios):.2f}"}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--program", choices=[*LOOPS, "mpi4py", "lammps", "hpcc", *PAIRED], default="c")
    add("--launcher", help="of the MPI (default: mpiexec for C, Debian's Open MPI for others)")
    add("--seconds", type=float, default=1.6, help="of work of each job of the loop")
    add("--loops", nargs="*", default=["100:.25", "1000:1.5"], help="US:IMBALANCE of the loop")
    add("--steps", type=int, default=400, help="of lammps")
    add("--rounds", type=int, default=5)
    add("--ranks", type=int, default=2)
    add("--jobs", type=int, default=3)
    add("--give-up", type=float, default=10)
    add("--only", action="append", default=[], help="a choice of lockstep waits; may be repeated")
    add("--exchange", action="store_true", help="Fortran: two exchanges of messages in each iteration, too")
    add("--no-gang", action="store_true", help="not under gang scheduling")
    options = parser.parse_args()
    if options.launcher is None:
        options.launcher = "mpiexec" if options.program in ("c", *PAIRED) else DEBIAN
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.program in PAIRED:
            return show(paired(options, folder))
        for number, (label, words) in enumerate(commands(options, folder)):
            cells = {"program": label, **waits(options, words, folder)}
            if not options.no_gang and options.jobs > 1:
                cells |= gangs(options, words, folder, cells["alone, s"])
            show(cells, headings=number == 0)


def show(cells, headings=True):
    """Print a row, below its headings if it is the first; at once, since another may fail."""
    above = (cells, ["---"] * len(cells)) if headings else ()
    for line in (*above, cells.values()):
        print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
