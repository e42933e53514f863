"""What turns cost: three bulk-synchronous programs on two cores, started by ``turns`` or running already.

    python -P tests/benchmarks/turns.py
    python -P tests/benchmarks/turns.py --quick

Each program has two ranks that spin, unbound. A round runs one of them alone, three that ``lockstep turns``
starts, and three that run without turns for a second and have them from then on (``--pid``). Ratios: the
makespan over three times the time alone; with ``--pid`` the time from the attachment on over what was left
then, by the programs' own counts of iterations. Lockstep's share is the CPU time of all its processes,
from their start to their end, over the makespan; "in the long run" leaves out what a Lockstep takes whose
programs end at once. Medians over rounds, with the extremes. Run it where nothing else runs.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import PROGRAMS, answer, compiled, parsed, shown

from coordinator.host.launcher_choice import find_launcher

JOBS = 3
SETTLED_S = 1.0
"""How long programs run without turns first, if they have turns later."""

TOLD = "sum += all;"
TELLING = TOLD + ' if (rank == 0 && iteration % 100 == 99) puts("#"), fflush(stdout);'
"""The program says after each hundred iterations that it has made them."""


def telling(folder):
    """The command line of the program, without its number of iterations, in hundreds."""
    (folder / "bsp.c").write_text((PROGRAMS / "bsp.c").read_text().replace(TOLD, TELLING))
    launcher = find_launcher()
    return launcher.argv(2, [compiled(launcher.path, folder, folder / "bsp.c"), "100", ".25"])


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def lockstep(*words):
    """What Lockstep says, its seconds, and its CPU time with all that it has started, in seconds."""
    before_s, begin_s = children_s(), time.monotonic()
    told = answer(None, "turns", "--json", *words)
    return told, time.monotonic() - begin_s, children_s() - before_s


def alone_s(command):
    begin_s = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begin_s


def in_turns(command):
    """The makespan of programs that Lockstep starts, and its own CPU time."""
    words = [word for _ in range(JOBS) for word in (":::", *command)][1:]
    with tempfile.TemporaryDirectory() as place:
        found, wall_s, used_s = lockstep("-o", place, "--", *words)
    return wall_s, used_s - sum(one["cpu_s"] for one in found["programs"])


def attached(command, folder, hundreds):
    """The time from the attachment on, the share of the work left then, and Lockstep's CPU time."""
    outputs = [folder / f"out-{number}" for number in range(JOBS)]
    programs = []
    for output in outputs:
        with output.open("wb") as file:
            programs.append(subprocess.Popen(command, stdout=file, start_new_session=True))
    time.sleep(SETTLED_S)
    left = JOBS - sum(output.read_text().count("#") for output in outputs) / hundreds
    words = [word for program in programs for word in ("--pid", str(program.pid))]
    _, wall_s, used_s = lockstep(*words)
    for program in programs:
        program.wait()
    return wall_s, left, used_s


NAMES = (
    *("turns: makespan / sum alone", "turns: Lockstep's share of a processor"),
    *("turns: Lockstep's share in the long run", "--pid: time / time left alone"),
    *("--pid: Lockstep's share of a processor", "--pid: Lockstep's share in the long run"),
)


def main():
    seconds = {"default": 10.0, "help": "about how long a program takes alone"}
    quick = {"default": False, "help": "two rounds of shorter programs"}
    options = parsed(__doc__, rounds=5, seconds=seconds, quick=quick)
    rounds, seconds = (2, 4.0) if options.quick else (options.rounds, options.seconds)
    found = {name: [] for name in NAMES}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        base = telling(folder)
        hundreds = round(seconds / 0.01)  # of 0.1 ms of computing, and a little more
        command = [*base, str(100 * hundreds)]
        for number in range(rounds):
            once_s = alone_s(command)
            _, start_s = in_turns(["true"])
            started_s, own_s = in_turns(command)
            later_s, left, later_own_s = attached(command, folder, hundreds)
            ratios = (
                *(started_s / (JOBS * once_s), own_s / started_s, (own_s - start_s) / started_s),
                *(later_s / (left * once_s), later_own_s / later_s, (later_own_s - start_s) / later_s),
            )
            for name, ratio in zip(NAMES, ratios, strict=True):
                found[name].append(ratio)
            print(f"round {number + 1} of {rounds}: {once_s:.2f} s alone", file=sys.stderr, flush=True)
    for name in NAMES:
        print(f"{name:58} {shown(found[name], '.3f')}", flush=True)


if __name__ == "__main__":
    main()
