"""Recorded programs of few steps, for tests of the simulator."""

import numpy as np

from harness.simulator.processes.replayed_program import STEP, RepeatedSteps, ReplayedProgram


def step(busy_ns, give=-1, take=-1, **more):
    """A step as a table; ``take`` without a number takes the next message of its channel."""
    return {"busy_ns": busy_ns, "outgoing": give, "incoming": take, **more}


def part(by_process, channels, times=1):
    """The steps of each process, ``times`` times over; ``channels`` are (sender, receiver, meets)."""
    made = []
    for tables in by_process:
        steps, taken = np.zeros(len(tables), STEP), [0] * len(channels)
        for place, table in enumerate(tables):
            for name, value in table.items():
                steps[name][place] = value
            if table["incoming"] >= 0:
                number = table.get("number", taken[table["incoming"]])
                steps["number"][place], taken[table["incoming"]] = number, number + 1
        made.append(steps)
    given = [
        sum(table["outgoing"] == number for table in by_process[sender])
        for number, (sender, _, _) in enumerate(channels)
    ]
    return RepeatedSteps(tuple(made), np.array(given, dtype=np.int64), times)


def program(by_process, channels, times=1, **more):
    """A program of one part."""
    table = np.array(channels, dtype=np.int32).reshape(-1, 3)
    return ReplayedProgram((part(by_process, channels, times),), table, **more)
