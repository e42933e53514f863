"""Limits of jobs: how long one may run, how many tasks an array may have."""

import re
from collections.abc import Sequence

from slurm.command import ask

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


def setting(name: str, text: str) -> str:
    """The first word of a setting in a text of ``scontrol show``; empty if it is not there."""
    match = re.search(rf"(?<!\S){name}\s*=[^\S\n]*(\S+)", text)
    return match[1] if match else ""
