"""What two-phase waits cost programs of many kinds, alone and three at a time, beside the same without.

    python -P tests/benchmarks/exec_cost.py [--launcher mpirun.openmpi] [--rounds 7] [--only halo]

A row for each program. Columns: the time with two-phase waits over the time as it is, alone; three at a
time with two-phase waits, and as they are, over three times the time alone as it is. Each is the median
over rounds of alternating order, with the smallest and the largest. The times are the programs' own, or
the command's if it tells none; the start of ``lockstep exec`` is in none. Look at ratios, and only on a
quiet machine.
"""

import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import DEBIAN, ENVIRONMENT, PROGRAMS, compiled, launched, parsed, shown

from workloads import native
from workloads.waiting_rules import RULES, waiting_rule

SCALAPACK = Path("/usr/lib/x86_64-linux-gnu/scalapack")


def programs(openmpi):
    """Name, ranks, source or file, and arguments of each program."""
    tests = SCALAPACK / ("openmpi-tests" if openmpi else "mpich-tests")
    halos = [
        (f"halo {count} x {size} B, {compute} us", 2, "halo.c", [count, size, compute, 60000 // compute])
        for count, size, compute in (
            *((2, 3000, 30), (2, 3000, 70), (2, 100, 100), (2, 65536, 300)),
            *((4, 3000, 100), (8, 3000, 200), (8, 100, 1000)),
        )
    ]
    return [
        ("Allreduce, 100 us", 2, "bsp.c", [100, 0.25, 2000]),
        ("Allreduce, 1 ms", 2, "bsp.c", [1000, 0.25, 200]),
        *halos,
        ("16 ranks, Allreduce, 100 us", 16, "bsp.c", [100, 0.25, 200]),
        ("4 ranks, halo 2 x 3000 B, 100 us", 4, "halo.c", [2, 3000, 100, 600]),
        *((f"window, {mode}", 2, "others.c", [mode, 100, 1000]) for mode in ("fence", "lock")),
        ("file", 2, "others.c", ["file", 100, 300]),
        ("4 threads, 3 ranks", 3, "threads.c", [4, 200, 100]),
        ("64 MB with gaps", 2, "parts.c", [64]),
        ("64 MB with gaps, others first", 2, "parts.c", [64, "others"]),
        ("ScaLAPACK xctrd, 4 ranks", 4, tests / "xctrd", []),  # tells no time
    ]


def main():
    options = parsed(
        __doc__,
        **{"launcher": "mpiexec", "rounds": 7},
        only={"default": "", "help": "rows whose names contain this"},
        waiting={"default": "global-adaptive", "choices": list(RULES)},
        alone={"default": False, "help": "only one at a time"},
    )
    openmpi = options.launcher == DEBIAN or "openmpi" in options.launcher
    rule = waiting_rule(options.waiting, context_switch_us=10.0, latency_us=2.0, spin_switches=2)
    ours = native.library(native.wrapper([options.launcher])).environment(rule)
    print(f"{'':34s} {'alone':>20s} {'three':>20s} {'as they are':>20s}")
    with tempfile.TemporaryDirectory() as folder:
        for name, ranks, source, arguments in programs(openmpi):
            if options.only not in name or not (PROGRAMS / source).exists():
                continue
            ready = isinstance(source, Path)
            program = source if ready else compiled(options.launcher, folder, source, "mpicc", "-lpthread")
            command = launched(options.launcher, ranks, [program, *arguments])
            place = source.parent if ready else folder
            print(f"{name:34s} {row(command, place, ours, options)}", flush=True)


def row(command, place, ours, options):
    alone, three, plain = [], [], []
    for number in range(options.rounds):
        took = {}
        for two_phase in (False, True) if number % 2 else (True, False):
            took[two_phase] = timed(command, 1, place, ours if two_phase else {})
        alone.append(took[True] / took[False])
        if not options.alone:
            three.append(timed(command, 3, place, ours) / 3 / took[False])
            plain.append(timed(command, 3, place, {}) / 3 / took[False])
    return " ".join(f"{shown(ratios):>20s}" for ratios in (alone, three, plain) if ratios)


def timed(command, copies, place, variables):
    """Seconds of the slowest of some copies that run at once, each with a TMPDIR of its own.

    Open MPI up to 4.1 removes the directory of its session there when the first of them ends.
    """
    with ExitStack() as stack:
        apart = [stack.enter_context(tempfile.TemporaryDirectory(prefix="lockstep-")) for _ in range(copies)]
        begin_s = time.monotonic()
        running = [
            subprocess.Popen(command, cwd=place, env=environment, stdout=-1, stderr=-1, text=True)
            for environment in (ENVIRONMENT | variables | {"TMPDIR": folder} for folder in apart)
        ]
        said = [one.communicate(timeout=120) for one in running]
        took_s = time.monotonic() - begin_s
    for one, (out, err) in zip(running, said, strict=True):
        if one.returncode or "wrong" in out:
            raise SystemExit(f"{' '.join(command)}: status {one.returncode}\n{out}{err}")
    told = [re.match(r"(?:0 )?([\d.]+)", out) for out, _ in said]
    return max(float(found[1]) for found in told) if all(told) else took_s


if __name__ == "__main__":
    main()
