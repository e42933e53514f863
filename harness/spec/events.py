"""What happens in a show: a line for each event, with its time in milliseconds.

0     arrive A 4 300       # job A has 4 processes and computes 300 ms; without a number until it ends
250   end A
300   lose 7               # processor 7
400   owner 2 0.5          # the load that its owner makes on processor 2
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from harness.spec.trace_text import decimal
from workloads.bounds import LOAD, PROCESSES
from workloads.parameters import Bounds
from workloads.validation import InputError, one_of

PROCESSORS = Bounds(1, 256, whole=True)
"""More would be no picture."""
JOBS = 100
NAME = re.compile(r"[A-Za-z][\w.()-]{0,7}", re.ASCII)
FORMS = {"arrive": "JOB SIZE [WORK]", "end": "JOB", "lose": "PROCESSOR", "owner": "PROCESSOR LOAD"}


class Event(NamedTuple):
    """An event, whose values are numbers and the name of a job, as in ``FORMS``; WORK is in ms."""

    at_ns: int
    what: str
    values: tuple[Any, ...]


def read(lines: Iterable[str], place: str, processors: int) -> list[Event]:
    """The events of ``lines`` in order of time; errors name the ``place`` and the line.

    Raises:
        InputError: for the first line that breaks a rule, or if no job arrives, or no processor is left.
    """
    found: list[Event] = []
    for number, line in enumerate(lines, 1):
        if words := line.partition("#")[0].split():
            try:
                found.append(_event(words, processors, found))
            except InputError as error:
                raise InputError(f"{place}, line {number}", error.value, error.rule, error.remedy) from None
    arrived = sum(event.what == "arrive" for event in found)
    if not 1 <= arrived <= JOBS:
        raise InputError(place, arrived, f"a show has 1 to {JOBS} jobs", "write lines such as 0 arrive A 4")
    if len({event.values for event in found if event.what == "lose"}) == processors:
        raise InputError(place, processors, "all processors are lost", "leave one of them")
    return sorted(found, key=lambda event: event.at_ns)


def _event(words: list[str], processors: int, before: list[Event]) -> Event:
    """The event of the words of a line, which comes after those ``before``."""
    line, what = " ".join(words), " ".join(words[1:2])
    one_of("", what, FORMS)
    form = FORMS[what].split()
    values = words[2:]
    if not len(form) - FORMS[what].count("[") <= len(values) <= len(form):
        raise InputError("", line, "has too few or too many words", f"write TIME {what} {FORMS[what]}")
    bounds = {
        "TIME": Bounds(0, 1e9),
        "SIZE": PROCESSES,
        "[WORK]": Bounds(1e-3, 1e9),
        "PROCESSOR": Bounds(0, processors - 1, whole=True),
        "LOAD": LOAD,
    }
    at_ms, *numbers = (
        _number(name, word, bounds) if name in bounds else word
        for name, word in zip(("TIME", *form), (words[0], *values), strict=False)
    )
    event = Event(round(float(at_ms) * 1e6), what, tuple(numbers))
    came = {one.values[0]: one.at_ns for one in before if one.what == "arrive"}
    if what == "end" and not came.get(values[0], event.at_ns) < event.at_ns:
        raise InputError("", values[0], "no such job has arrived before", "correct the name, or the time")
    if what == "arrive" and (values[0] in came or not NAME.fullmatch(values[0])):
        rule = "JOB must be a new name: a letter, then at most 7 letters, digits or _ . ( ) -"
        raise InputError("", values[0], rule, "choose another name")
    return event


def _number(name: str, word: str, bounds: Mapping[str, Bounds]) -> float:
    try:
        value = decimal(word)
        bounds[name].check("", int(value) if value.is_integer() else value)
    except InputError as error:
        raise InputError(
            "", word, f"{name.strip('[]')} {error.rule}", "choose a value in that range"
        ) from None
    except ValueError:
        raise InputError("", word, f"{name.strip('[]')} must be a number", "write digits") from None
    return int(value) if bounds[name].whole else value
