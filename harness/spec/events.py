"""What happens in a show: a line for each event, with its time in milliseconds.

0     arrive A 4 300       # job A has 4 processes and computes 300 ms; without a number until it ends
250   end A
300   lose 7               # processor 7
400   owner 2 0.5          # the load that its owner makes on processor 2
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from harness.spec.trace_text import decimal
from workloads.bounds import LOAD, PROCESSES
from workloads.parameters import Bounds
from workloads.validation import InputError, one_of

PROCESSORS = Bounds(1, 256, whole=True)  # more would be no picture
JOBS = 100
NAME = re.compile(r"[A-Za-z][\w.()-]{0,7}", re.ASCII)
FORMS = {"arrive": "JOB SIZE [WORK]", "end": "JOB", "lose": "PROCESSOR", "owner": "PROCESSOR LOAD"}
BOUNDS = {"TIME": Bounds(0, 1e9), "SIZE": PROCESSES, "[WORK]": Bounds(1e-3, 1e9), "LOAD": LOAD}


class Event(NamedTuple):
    """An event, whose values are numbers and the name of a job, as in ``FORMS``; WORK is in ms."""

    at_ns: int
    what: str
    values: tuple[Any, ...]


def read(lines: Iterable[str], place: str, processors: int) -> list[Event]:
    """The events of ``lines`` in order of time; InputError with the ``place`` and line of the first fault."""
    bounds = BOUNDS | {"PROCESSOR": Bounds(0, processors - 1, whole=True)}
    events: list[Event] = []
    came_ns: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if words := line.partition("#")[0].split():
            events.append(_event(f"{place}, line {number}", words, bounds, came_ns))
    if not 1 <= len(came_ns) <= JOBS:
        raise InputError(
            f"jobs of {place}",
            len(came_ns),
            f"must make 1 to {JOBS} jobs arrive",
            "write lines such as 0 arrive A 4",
        )
    if len({event.values for event in events if event.what == "lose"}) == processors:
        raise InputError(
            f"lose of {place}", processors, f"must leave one of {processors} processors", "remove a line"
        )
    return sorted(events, key=lambda event: event.at_ns)


def _event(place: str, words: list[str], bounds: Mapping[str, Bounds], came_ns: dict[str, int]) -> Event:
    """The event of the words of a line; a job that arrives is entered in ``came_ns``."""
    what = "".join(words[1:2])
    values = words[2:]
    one_of(place, what, FORMS)
    form = FORMS[what].split()
    optional = FORMS[what].count("[")
    if not len(form) - optional <= len(values) <= len(form):
        counts = dict.fromkeys(map(str, (len(form) + 2 - optional, len(form) + 2)))
        raise InputError(
            place,
            " ".join(words),
            f"must have {' or '.join(counts)} words, and has {len(words)}",
            f"write TIME {what} {FORMS[what]}",
        )
    named = zip(("TIME", *form), (words[0], *values), strict=False)
    at_ms, *read = (
        _number(place, name, word, bounds[name]) if name in bounds else word for name, word in named
    )
    at_ns = round(float(at_ms) * 1e6)
    if what == "end" and not came_ns.get(values[0], at_ns) < at_ns:
        raise InputError(
            place, values[0], "must be a job that has arrived before", "correct the name, or the time"
        )
    if what == "arrive":
        if values[0] in came_ns or not NAME.fullmatch(values[0]):
            raise InputError(
                place,
                values[0],
                "JOB must be a new name: a letter, then at most 7 letters, digits or _ . ( ) -",
                "choose another name",
            )
        came_ns[values[0]] = at_ns
    return Event(at_ns, what, tuple(read))


def _number(place: str, name: str, word: str, bounds: Bounds) -> float:
    try:
        value = decimal(word)
        bounds.check("", int(value) if value.is_integer() else value)
    except (InputError, ValueError) as error:
        rule = getattr(error, "rule", "must be a number")
        raise InputError(place, word, f"{name.strip('[]')} {rule}", "correct the number") from None
    return int(value) if bounds.whole else value
