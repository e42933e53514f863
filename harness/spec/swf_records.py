"""Recorded jobs: the fields of the Standard Workload Format, and the reader of its text.

Source: Feitelson, "The Standard Workload Format", version 2.2 (18 fields a job, -1 for unknown,
header comments that begin with a semicolon).
"""

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.spec import other_logs
from harness.spec.trace_text import PLAIN, UNKNOWN, Faults, number, refusal, refuse
from workloads.bounds import BOUNDS
from workloads.validation import InputError

_OTHER = "trace.other"
FIELDS = {
    "job number": "trace.number",
    "submit time": "trace.submit_s",
    "wait time": _OTHER,
    "run time": "trace.time_s",
    "allocated processors": "simulated.processors",
    "average CPU time": _OTHER,
    "used memory": _OTHER,
    "requested processors": "simulated.processors",
    "requested time": "trace.time_s",
    "requested memory": _OTHER,
    "status": "trace.status",
    **dict.fromkeys(("user", "group", "executable", "queue", "partition"), _OTHER),
    "preceding job": "trace.number",
    "think time": "trace.time_s",
}
"""The fields of a job, and the bounds of each."""

NUMBER, SUBMIT, WAIT, RUN, ALLOCATED = range(5)
REQUESTED, REQUESTED_S, STATUS, USER, GROUP = 7, 8, 10, 11, 12
QUEUE = 14
PARTITION = 15
PRECEDING = 16
THINK = 17
HELD_S = len(FIELDS)
"""A further column of logs that have it: for how many seconds a job was held after its submission."""
FAILED, COMPLETED, PARTIAL, LAST_PARTIAL, PARTIAL_FAILED, CANCELLED = range(6)
STILL_RUNNING = 6  # beyond the format: no file has it, but Slurm's accounting has such jobs

_COMMENT = re.compile(r"[ \t]*;[ \t]*(\w+)[ \t]*:[ \t]*(.*?)[ \t]*")
_NUMBERS = re.compile(rf"(?:[ \t]*+{PLAIN}(?![^ \t]))*+[ \t]*+")


@dataclass(frozen=True)
class Records:
    """The recorded jobs of a trace."""

    rows: np.ndarray  # a row with the fields of the Standard Workload Format for each job
    processors: int | None  # of the traced machine, None if the trace does not say
    header: Mapping[str, str]  # the comments ``; Key: value``, the first of each key
    # Names by their numbers, for each field whose names the log has.
    names: Mapping[int, Mapping[int, str]] = field(default_factory=dict)

    def named(self, column: int, number: int) -> str:
        """What the log calls a user, a group, a queue or a partition; empty if it does not say."""
        return "" if number == UNKNOWN else self.names.get(column, {}).get(number, str(number))


def sizes_of(rows: np.ndarray) -> np.ndarray:
    """The processors of each job: those allocated, or else those requested."""
    return np.where(rows[:, ALLOCATED] > 0, rows[:, ALLOCATED], rows[:, REQUESTED])


def read(path: Path, lines: Sequence[str], faults: Faults = refuse) -> Records:
    """The jobs in the ``lines`` of the file ``path``; ``faults`` gets those that cannot be read."""
    header: dict[str, str] = {}
    processors: dict[str, float] = {}
    for place, line in enumerate(lines, 1):
        if ";" in line and (match := _COMMENT.fullmatch(line)) and match[1] not in header:
            key, value = match.groups()
            header[key] = value
            if key in ("MaxProcs", "MaxNodes") and value:
                try:
                    processors[key] = number(path, place, key, value, "simulated.processors")
                except InputError as fault:
                    faults(fault)
    sizes = [processors[key] for key in ("MaxProcs", "MaxNodes") if processors.get(key, UNKNOWN) > 0]
    return Records(_rows(path, lines, faults), int(sizes[0]) if sizes else None, header)


def _rows(path: Path, lines: Sequence[str], faults: Faults) -> np.ndarray:
    numbers = array("d")  # smaller and sooner made than lists of a row each
    places: list[int] = []
    broken: list[int] = []
    for place, line in enumerate(lines, 1):
        text = line.partition(";")[0]
        words = text.split()
        if not _NUMBERS.fullmatch(text) or len(words) not in (0, len(FIELDS)):
            broken.append(place)
        elif words:
            try:
                numbers.extend([*map(float, words)])
                places.append(place)
            except ValueError:
                broken.append(place)
        if len(broken) == 1 and not places and (other := other_logs.seems(line)):
            raise refusal(path, place, "the file", line.strip(), f"seems to be {other.name}", other.remedy)
    rows = np.array(numbers).reshape(-1, len(FIELDS))
    sound = rows == UNKNOWN
    for place, bound in enumerate(FIELDS.values()):
        column, (least, most, whole) = rows[:, place], BOUNDS[bound]
        inside = (column >= least) & (column <= most)  # a NaN is not
        sound[:, place] |= inside & (np.rint(column) == column) if whole else inside
    readable: np.ndarray = sound.all(axis=1)
    for place in sorted([*broken, *(places[faulty] for faulty in np.flatnonzero(~readable))]):
        try:
            _check(path, place, lines[place - 1])
        except InputError as fault:
            faults(fault)
    kept: np.ndarray = rows[readable]
    return kept


def _check(path: Path, place: int, line: str) -> None:
    """Raises InputError for the first fault in a line."""
    text = line.partition(";")[0]
    words = re.findall(r"[^ \t]+", text)
    if len(words) > len(FIELDS) and _NUMBERS.fullmatch(text):
        raise refusal(
            path,
            place,
            "a job",
            text.strip(" \t"),
            f"has {len(FIELDS)} numbers, and this line has {len(words)}",
            f"keep the first {len(FIELDS)}: awk '{{NF = {len(FIELDS)}; print}}'",
        )
    if len(words) != len(FIELDS):
        raise refusal(
            path,
            place,
            "a job",
            text.strip(" \t"),
            f"has {len(FIELDS)} numbers, and this line has {len(words)}",
        )
    for place_in_line, (word, (name, bound)) in enumerate(zip(words, FIELDS.items(), strict=True), 1):
        number(path, place, f"field {place_in_line} ({name})", word, bound)
