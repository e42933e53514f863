"""Limits of jobs: how long one may run, its processors, how many tasks an array may have."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from slurm.command import SlurmError, answer, ask

NONE = ("-1", "INFINITE", "UNLIMITED")
_CLOCK = re.compile(r"(?:([0-9]{1,9}):)??([0-9]{1,9})(?::([0-9]{1,9}))?")
_DAYS = re.compile(r"([0-9]{1,9})-([0-9]{1,9})(?::([0-9]{1,9})(?::([0-9]{1,9}))?)?")


def seconds(text: str) -> int | None:
    """A time limit as sbatch takes it, in seconds; None for no limit. Slurm rounds it up to a minute."""
    if text.upper() in NONE:
        return None
    if match := _DAYS.fullmatch(text):
        days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    elif match := _CLOCK.fullmatch(text):
        days, (hours, minutes, rest) = 0, (int(part or 0) for part in match.groups())
    else:
        raise ValueError(f"{text!r} is no time limit")
    whole_minutes = -(-(((24 * days + hours) * 60 + minutes) * 60 + rest) // 60)
    return 60 * whole_minutes or None


def most_tasks(place: Sequence[str] = ()) -> int | None:
    """The largest number of a task in a job array; None if the configuration does not tell it."""
    size = setting("MaxArraySize", ask("scontrol", *place, "show", "config"))
    return max(int(size) - 1, 0) if re.fullmatch("[0-9]{1,9}", size) else None


class Partition(NamedTuple):
    """A partition, and how many of its processors are up, idle or not."""

    name: str
    processors: int


_SIZE = re.compile(r"([^|\s*]+)(\*?)\|([0-9]+)/([0-9]+)/[0-9]+/[0-9]+ *")
"""A line of sinfo: a partition, a star if it is the default one, and its processors in use and idle."""


def partition(name: str | None = None, place: Sequence[str] = ()) -> Partition:
    """The partition of a name, the largest of several between commas, or the default one.

    Raises:
        SlurmError: if there is none.
    """
    lines = ask("sinfo", *place, "-h", "--noconvert", "-o", "%P|%C").splitlines()
    rows = [row for row in map(_SIZE.fullmatch, lines) if row]
    ours = [row for row in rows if (row[1] in name.split(",") if name else row[2])]
    if not ours:
        found = ", ".join(dict.fromkeys(row[1] for row in rows)) or "none"
        wanted = f"partition {name!r}" if name else "default partition"
        raise SlurmError(f"there is no {wanted} (its partitions: {found})")
    return max((Partition(row[1], int(row[3]) + int(row[4])) for row in ours), key=lambda one: one.processors)


class Sharing(NamedTuple):
    """How the jobs of a partition share its processors.

    ``most`` jobs may have a processor at a time, whether they want or not; ``word`` is Slurm's for it.
    ``gang``: Slurm suspends jobs by turns. ``user`` is the number of SlurmUser.
    """

    found: bool
    most: int
    word: str
    gang: bool
    user: int


_FORCE = re.compile(r"FORCE:([0-9]{1,9})")
_USER = re.compile(r"\(([0-9]{1,10})\)$")


def sharing(name: str) -> Sharing:
    """How jobs share the processors of the partition of this name, if it is there."""
    text = "" if name.startswith("-") else answer("scontrol", "-o", "show", "partition", name).out
    configuration = ask("scontrol", "show", "config")
    word = setting("OverSubscribe", text)
    force, user = _FORCE.match(word), _USER.search(setting("SlurmUser", configuration))
    return Sharing(
        setting("PartitionName", text) == name != "",
        int(force[1]) if force else 0,
        word,
        "GANG" in setting("PreemptMode", configuration),
        int(user[1]) if user else 0,
    )


def setting(name: str, text: str) -> str:
    """The first word of a setting in a text of ``scontrol show``; empty if it is not there."""
    match = re.search(rf"(?<!\S){name}\s*=[^\S\n]*(\S+)", text)
    return match[1] if match else ""
