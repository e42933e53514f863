"""What kills at random instants leave: does many to commands on one host and two, and writes a table.

``python tests/benchmarks/kills.py [--kills N] [--interrupts N] [--others N] [--sharing N] [--seed SEED]``
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, tabled
from kills import Kill, Outcome, undisturbed
from lives import COMMANDS, ELSEWHERE
from netns_cluster import unavailable

SHARING = ("turns", "turns of others", "beside")


def show(kills: list[Kill], outcomes: list[Outcome]) -> None:
    """Print a row for each part that a signal went to."""
    found: dict[tuple[str, str, str], list[Outcome]] = {}
    for kill, outcome in zip(kills, outcomes, strict=True):
        key = (kill.what, kill.signum.name, outcome.role or "none: it had ended")
        found.setdefault(key, []).append(outcome)
    headed("command", "signal", "to", "times", "gone after, s", "remains")
    for key, ours in sorted(found.items()):
        times = sorted(outcome.clean_s for outcome in ours)
        bad = sum(bool(outcome.faults) for outcome in ours)
        tabled(*key, len(ours), f"{times[len(times) // 2]:.1f} / {times[-1]:.1f}", bad)


def main() -> None:
    options = parsed(
        __doc__,
        kills={"default": 300, "help": "of runs, half of them on two hosts"},
        interrupts={"default": 60, "help": "INT, TERM and HUP to drivers of runs"},
        others={"default": 60, "help": "kills of other commands"},
        sharing={"default": 50, "help": "kills of each of turns, turns of jobs that run already, and beside"},
        seed="1",
        only={"choices": [*COMMANDS, ELSEWHERE], "action": "append", "help": "this command alone"},
    )
    wanted = options.only or [*COMMANDS, *([] if unavailable() else [ELSEWHERE])]
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    plan = (
        [(("run", ELSEWHERE)[number % 2], number, signal.SIGKILL) for number in range(options.kills)]
        + [
            (("run", ELSEWHERE)[number % 2], 10_000 + number, ending[number // 2 % 3])
            for number in range(options.interrupts)
        ]
        + [
            (("calibrate", "simulate", "submit")[number % 3], 20_000 + number, signal.SIGKILL)
            for number in range(options.others)
        ]
        + [(SHARING[number % 3], 30_000 + number, signal.SIGKILL) for number in range(3 * options.sharing)]
    )
    kills = [Kill(what, number, options.seed, signum) for what, number, signum in plan if what in wanted]
    lives = {}
    outcomes = []
    for kill in kills:
        if kill.what not in lives:
            lives[kill.what], outcome = undisturbed(kill.what)
            print(f"{outcome}: {lives[kill.what]:.1f} s", flush=True)
        outcomes.append(kill.do(lives[kill.what]))
        print(f"{outcomes[-1]}: gone after {outcomes[-1].clean_s:.1f} s", flush=True)
    show(kills, outcomes)


if __name__ == "__main__":
    main()
