"""What two-phase waits give MPI programs that are not ours and share processors: three jobs on two cores.

    python -P tests/benchmarks/native.py --program c
    python -P tests/benchmarks/native.py --program c --launcher mpirun.openmpi
    python -P tests/benchmarks/native.py --program fortran-use-mpi
    python -P tests/benchmarks/native.py --program fortran-f08
    python -P tests/benchmarks/native.py --program mpi4py
    python -P tests/benchmarks/native.py --program lammps
    python -P tests/benchmarks/native.py --program hpcc
    python -P tests/benchmarks/native.py --program ping-pong [--launcher mpirun.openmpi]

A row for each program and loop: the makespan of the jobs together over the sum of their times alone as they
are. Columns: the jobs as they are, with each setting of their MPI, and two-phase (``lockstep tune``); under
gang scheduling while they spin (``lockstep run``); one job alone with two-phase waits. Medians over rounds
with their 95 % intervals. Look at ratios, not times, and only on a machine that does nothing else.

lammps and hpcc are Debian's packages, linked with its Open MPI. ``--jobs 1 --ranks 4`` is one job larger than
the machine; ``--only two-phase`` leaves the settings of the MPI out. ping-pong is one job alone, in turn as
it is and two-phase.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import benchmark
from benchmark import DEBIAN, ENVIRONMENT, LOOPS, PROGRAMS, answer, compiled, launched, parsed, tabled

from workloads import native
from workloads.waiting_rules import waiting_rule

PING_PONG = "ping-pong"
QUANTA_MS = (10, 100)


def commands(options, folder):
    """The programs to measure, each with a label."""
    if options.program == "lammps":
        return [(f"lammps, {options.steps} steps", [*benchmark.LAMMPS, str(options.steps)])]
    if options.program == "hpcc":
        benchmark.write_hpcc(folder, 2000)
        return [("hpcc, N = 2000", ["hpcc"])]
    if options.program == "mpi4py":
        made = [sys.executable, "-P", str(PROGRAMS / "bsp.py")]
    else:
        made = [compiled(options.launcher, folder, *LOOPS[options.program])]
    found = []
    for loop in options.loops:
        g_us, imbalance = loop.split(":")
        words = [*made, g_us, imbalance, str(int(options.seconds * 1e6 / float(g_us)))]
        words += ["reduce"] if options.program.startswith("fortran") and not options.exchange else []
        found.append((f"{options.program}, g = {g_us} us, v = {imbalance} g", words))
    return found


def tune(options, program, folder):
    """Cells by heading: alone in seconds, each setting together, and two-phase waits alone."""
    only = [word for name in options.only for word in ("--only", name)]
    limits = ["--jobs", str(options.jobs), "--rounds", str(options.rounds)]
    limits += ["--timeout-factor", str(options.timeout_factor)]
    argv = launched(options.launcher, options.ranks, program)
    found = answer(folder, "tune", "--json", *limits, *only, "--", *argv)
    cells = {"alone, s": f"{found['dedicated_s']['median']:.2f}"}
    for row in found["rows"]:
        setting, known = row["scheduler"]["setting"], row["measured"]
        late = f"> {options.timeout_factor:g}" if "exceeded" in known else None
        cells[setting] = late or shown(known["workload_slowdown"])
        if setting == "two-phase":
            cells["two-phase alone"] = shown(known["dedicated"])
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
    if estimate["median"] is None:
        return "-"
    ends = " ({:.2f}-{:.2f})".format(*estimate["ci95"]) if estimate["ci95"] else ""
    return f"{estimate['median']:.2f}{ends}"


def round_trips(options, folder):
    """The time of a round trip with two-phase waits over that without, in the median of all rounds."""
    program = compiled(options.launcher, folder, "pingpong.c")
    argv = launched(options.launcher, 2, [program, "20000"])
    library = native.library(native.wrapper([options.launcher]))
    two_phase = library.environment(waiting_rule("global-adaptive", context_switch_us=10, latency_us=2))
    ratios = []
    for _ in range(options.rounds):
        plain, ours = (
            float(subprocess.check_output(argv, env=ENVIRONMENT | more, text=True).split()[-1])
            for more in ({}, two_phase)
        )
        ratios.append(ours / plain)
    return {"program": options.program, "two-phase alone": f"{statistics.median(ratios):.2f}"}


def main():
    options = parsed(
        __doc__,
        **{"rounds": 5, "ranks": 2, "jobs": 3, "timeout_factor": 10.0},
        program={"choices": [*LOOPS, "mpi4py", "lammps", "hpcc", PING_PONG], "default": "c"},
        launcher={"help": "of the MPI (default: mpiexec for C, Debian's Open MPI for others)"},
        seconds={"default": 1.6, "help": "of work of each job of the loop"},
        loops={"nargs": "*", "default": ["100:.25", "1000:1.5"], "help": "US:IMBALANCE of the loop"},
        steps={"default": 400, "help": "of lammps"},
        only={"action": "append", "default": [], "help": "a setting of lockstep tune; may be repeated"},
        exchange={"default": False, "help": "Fortran: two exchanges of messages in each iteration, too"},
        no_gang={"default": False, "help": "not under gang scheduling"},
    )
    if options.launcher is None:
        options.launcher = "mpiexec" if options.program in ("c", PING_PONG) else DEBIAN
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.program == PING_PONG:
            return show(round_trips(options, folder))
        for number, (label, words) in enumerate(commands(options, folder)):
            cells = {"program": label, **tune(options, words, folder)}
            if not options.no_gang and options.jobs > 1:
                cells |= gangs(options, words, folder, cells["alone, s"])
            show(cells, headings=number == 0)


def show(cells, headings=True):
    """Print a row, below its headings if it is the first; at once, since another may fail."""
    above = (cells, ["---"] * len(cells)) if headings else ()
    for line in (*above, cells.values()):
        tabled(*line)


if __name__ == "__main__":
    main()
