"""Limits of jobs: how long one may run, how many tasks an array may have.

Slurm's gang scheduling: whether a partition has it, and how a job that it suspends starts its ranks.
"""

import re
from collections.abc import Sequence

from slurm.command import ask
from slurm.script import word

NONE = ("-1", "INFINITE", "UNLIMITED")
_CLOCK = re.compile(r"(?:([0-9]{1,9}):)??([0-9]{1,9})(?::([0-9]{1,9}))?")
_DAYS = re.compile(r"([0-9]{1,9})-([0-9]{1,9})(?::([0-9]{1,9})(?::([0-9]{1,9}))?)?")


def seconds(text: str) -> int | None:
    """A time limit as sbatch takes it, in seconds; None for no limit. Slurm rounds it up to a minute."""
    if text.upper() in NONE:
        return None
    if found := _DAYS.fullmatch(text):
        days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    elif found := _CLOCK.fullmatch(text):
        days, (hours, minutes, rest) = 0, (int(part or 0) for part in found.groups())
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
    found = re.search(rf"(?<!\S){name}\s*=[^\S\n]*(\S+)", text)
    return found[1] if found else ""


PAUSE_S = 0.2  # pause before srun asks for a refused step again


def time_slice_s(partition: str, place: Sequence[str] = ()) -> tuple[int, str]:
    """Seconds of a gang scheduling slot, and ""; or 0, and why there is none. ``place`` names a cluster."""
    show = ("scontrol", *place, "show")
    return judged(ask(*show, "partition", partition), ask(*show, "config"))


def judged(partition: str, configuration: str) -> tuple[int, str]:
    """The same from scontrol's texts about the partition and the configuration."""
    share = setting("OverSubscribe", partition)
    mode = setting("PreemptMode", configuration)
    length_s = setting("SchedulerTimeSlice", configuration)
    if not share.startswith("FORCE"):
        return 0, f"the partition has OverSubscribe={share or 'unknown'}, not FORCE"
    if "GANG" not in mode.split(","):
        return 0, f"slurm.conf has PreemptMode={mode or 'unknown'}, without GANG"
    if not re.fullmatch("[0-9]{1,9}", length_s):
        return 0, f"slurm.conf has SchedulerTimeSlice={length_s or 'unknown'}, no number of seconds"
    return int(length_s), ""


def step(tasks: int, plugin: str, *, retry: bool, begun: str) -> list[str]:
    """Lines of shell that define ``step``, which runs its arguments as the ranks of a job.

    A suspended job may not create steps; srun asks again after ever longer pauses, up to a minute.
    With ``retry`` the lines restart srun instead, until the file ``begun`` shows that a step began.
    """
    srun = f"srun --mpi={plugin} --ntasks={tasks} --kill-on-bad-exit=1 --quiet"
    if not retry:
        return [f'step() {{ {srun} "$@"; }}']
    file = word(begun)
    return [
        f"rm -f {file}",
        "step() {",
        f"""    until {srun} --immediate=1 sh -c ': > "$0"; exec "$@"' {file} "$@"; do""",
        f"        status=$?; [ -e {file} ] && return $status; sleep {PAUSE_S}",
        "    done",
        "}",
    ]
