"""Recorded programs as lists of steps, which tests write and read more easily than operations.

A step is CPU time; then, if the step has one, a message to give; then one to take.
"""

import numpy as np

from harness.simulator.processes import model as m
from harness.simulator.processes.operations import Part, ReplayedProgram, operations

STEP = np.dtype(
    [
        *((name, np.int64) for name in ("busy_ns", "number", "outgoing", "incoming")),
        *((name, np.int8) for name in ("collective", "continues", "polls", "sleeps")),
        ("carries_us", np.uint16),
    ]
)
"""``number`` is that of the message to take."""

MARKS = {"collective": m.LEARNS, "continues": m.CONTINUES, "polls": m.POLLS}


def step(busy_ns, give=-1, take=-1, **more):
    """A step as a table; ``take`` without a number takes the next message of its channel."""
    return {"busy_ns": busy_ns, "outgoing": give, "incoming": take, **more}


def operations_of(tables, channels):
    made = []
    taken = [0] * channels
    for table in tables:
        code = m.SLEEPING if table.get("sleeps") else m.COMPUTE
        made.append((code, m.PASSES, 0, m.NOBODY, table["busy_ns"]))
        if table["outgoing"] >= 0:
            made.append((m.SEND, 0, 0, table["outgoing"], 0))
        if (channel := table["incoming"]) >= 0:
            number = table.get("number", taken[channel])
            taken[channel] = number + 1
            marks = sum(mark for name, mark in MARKS.items() if table.get(name))
            made.append((m.RECEIVE, marks, table.get("carries_us", 0), channel, number))
            if table.get("collective"):
                made.append((m.LEARN, 0, 0, m.NOBODY, 0))
    return np.array(made, dtype=operations(1, 0).dtype)


def steps_of(made):
    steps = np.zeros(np.count_nonzero(made["marks"] & m.PASSES), STEP)
    place = -1
    steps["outgoing"] = steps["incoming"] = -1
    for code, marks, more_us, peer, value in made.tolist():
        if code in (m.COMPUTE, m.SLEEPING):
            place += 1
            steps["busy_ns"][place], steps["sleeps"][place] = value, code == m.SLEEPING
        elif code == m.SEND:
            steps["outgoing"][place] = peer
        elif code == m.RECEIVE:
            steps["incoming"][place], steps["number"][place], steps["carries_us"][place] = (
                peer,
                value,
                more_us,
            )
            for name, mark in MARKS.items():
                steps[name][place] = marks & mark > 0
    return steps


def part(by_process, channels, times=1):
    """The steps of each process, ``times`` times over; ``channels`` are (sender, receiver, meets)."""
    made = tuple(operations_of(tables, len(channels)) for tables in by_process)
    given = [
        sum(table["outgoing"] == number for table in by_process[sender])
        for number, (sender, _, _) in enumerate(channels)
    ]
    return Part(made, np.array(given, dtype=np.int64), times)


def program(by_process, channels, times=1, **more):
    table = np.array(channels, dtype=np.int32).reshape(-1, 3)
    return ReplayedProgram((part(by_process, channels, times),), table, **more)
