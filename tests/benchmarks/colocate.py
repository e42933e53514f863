"""Are the verdict of ``colocate`` and its simulated column right? Pairs of Debian's LAMMPS and HPC Challenge.

    python -P tests/benchmarks/colocate.py
    python -P tests/benchmarks/colocate.py --pairs liquid+plate --rounds 1 --seconds 40

``colocate`` advises on each pair, with ``--record``, and then a second, independent series of all judges:
the advised way is right if its median there is within 3 % of the best. A line for each way: the workload
slowdown as ``colocate`` has measured and simulated it, and in the second series. Before: when the first value
stood in the table on a terminal. Run it where nothing else runs.
"""

import os
import pty
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import DEBIAN, ENVIRONMENT, LOCKSTEP, PROGRAMS, answer, headed, parsed, tabled, write_hpcc

from harness.spec.naming import scheduler_name

POLICIES = ("gang quantum_ms=100 bind=false", "batch bind=false")
CLOSE = 0.03
FIRST_ROW = re.compile(rb"none, unbound[^\n]*?[0-9]\.[0-9][0-9]")

PLATE = """# LAMMPS: a plate in two dimensions, with few atoms and small messages.
dimension 2
units lj
atom_style atomic
boundary p p p
lattice hex 0.93
region box block 0 40 0 20 -0.25 0.25
create_box 1 box
create_atoms 1 region box
mass * 1.0
velocity all create 0.5 4711
pair_style lj/cut 2.5
pair_coeff * * 1.0 1.0
fix move all nve
fix flat all enforce2d
timestep 0.003
thermo 500
run ${steps}
"""

PAIRS = ("liquid+plate", "liquid+hpcc", "plate+hpcc", "hpcc+hpcc-large", "liquid+liquid-serial")


def command(name, seconds, folder):
    """The words of a program that takes about so long alone; its files are in a folder."""
    kind, _, form = name.partition("-")
    ranks = "1" if form == "serial" else "2"
    if kind == "hpcc":
        place = folder / name
        place.mkdir(exist_ok=True)
        order = round((1600 if form else 1000) * (seconds / 2.5) ** (1 / 3))
        write_hpcc(place, order)
        return [DEBIAN, "-n", ranks, "-wdir", str(place), "hpcc"]
    steps, file = (
        (180 * seconds, PROGRAMS / "melt.in") if kind == "liquid" else (5000 * seconds, folder / "plate.in")
    )
    steps = round(steps / 2 if form else steps)
    return [DEBIAN, "-n", ranks, "lmp", "-in", str(file), "-var", "steps", str(steps), "-log", "none"]


def colocated(pair, options, folder, *words):
    commands = [command(name, options.seconds, folder) for name in pair.split("+")]
    with_policies = [word for policy in POLICIES for word in ("--policy", policy)]
    rounds = ["--rounds", str(options.rounds)]
    told = ["colocate", "--json", *rounds, *with_policies, *words]
    return answer(folder, *told, "--", shlex.join(commands[0]), ":::", shlex.join(commands[1]))


def first_s(pair, options, folder):
    """The seconds until a value stands in the table on a terminal, where nothing was known before."""
    commands = [shlex.join(command(name, options.seconds, folder)) for name in pair.split("+")]
    words = [*LOCKSTEP, "colocate", "--no-wait", "--results", "first", "--", commands[0], ":::", commands[1]]
    ours, theirs = pty.openpty()
    begin_s = time.monotonic()
    started = subprocess.Popen(
        words, cwd=folder, env={**ENVIRONMENT, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    while not FIRST_ROW.search(said):
        try:
            said += os.read(ours, 1 << 16)
        except OSError:
            raise SystemExit(said.decode()) from None
    took_s = time.monotonic() - begin_s
    started.terminate()
    while True:
        try:
            os.read(ours, 1 << 16)
        except OSError:  # it has ended
            break
    started.wait()
    os.close(ours)
    return took_s


def slowdowns(document, side):
    """The median of each way, by the name of its scheduler."""
    return {
        scheduler_name(row["scheduler"]): (row[side] or {}).get("workload_slowdown", {}).get("median")
        for row in document["rows"]
    }


def judged(pair, options, folder):
    """Whether the verdict on a pair is right, and the errors of its simulated column; prints both."""
    found = colocated(pair, options, folder, "--results", f"advice-{pair}", "--record")
    again = colocated(pair, options, folder, "--results", f"judge-{pair}")
    measured, simulated, judge = (
        slowdowns(one, side) for one, side in ((found, "measured"), (found, "simulated"), (again, "measured"))
    )
    errors = {way: simulated[way] / measured[way] - 1 for way in measured if simulated[way]}
    for way, slowdown in measured.items():
        told = [f"{simulated[way]:.2f}", f"{errors[way]:+.1%}"] if way in errors else ["-", "-"]
        tabled(pair, way, f"{slowdown:.2f}", *told, f"{judge[way]:.2f}")
    advice, best = found["advice"], min(judge.values())
    way = advice["scheduler"] or "batch"
    right = judge[way] <= (1 + CLOSE) * best
    said = f"{advice['sentence']} Again: {judge[way]:.2f}, best {best:.2f}"
    tabled(pair, "right" if right else "wrong", said, "", "", "")
    return right, [abs(error) for error in errors.values()]


def main():
    pairs = {"nargs": "+", "default": list(PAIRS)}
    seconds = {"default": 2.5, "help": "of a program alone, about"}
    options = parsed(__doc__, pairs=pairs, rounds=3, seconds=seconds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plate.in").write_text(PLATE)
        print(
            f"first value in the table after {first_s(options.pairs[0], options, folder):.0f} s", flush=True
        )
        headed("pair", "way", "measured", "simulated", "error", "measured again")
        found = [judged(pair, options, folder) for pair in options.pairs]
    errors = sorted(error for _, several in found for error in several)
    print(
        f"{sum(right for right, _ in found)} of {len(found)} verdicts right; simulated column: "
        f"{statistics.median(errors):.1%} off in the median, at most {errors[-1]:.1%}"
    )


if __name__ == "__main__":
    main()
