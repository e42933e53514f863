"""What Slurm's accounting says of jobs: their states, and the times at which they came, started and ended."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slurm.command import SlurmError, ask
from slurm.job import SlurmJob
from slurm.partition import setting

NONE = ("", "(null)", "accounting_storage/none")
"""The AccountingStorageType of a cluster that keeps no accounts."""

COLUMNS = "JobID,State,Submit,Start,End"

_ROW = re.compile(r" *([0-9]+) *\| *([A-Z_]+)[^|]*\| *([0-9]+) *\| *(\w+) *\| *(\w+) *")
"""A line of COLUMNS with a job; lines of banners and steps do not match."""


@dataclass(frozen=True)
class Accounted:
    """A job in the accounts; times are whole seconds since 1970, None for what has not happened."""

    state: str  # Slurm's word
    submit_s: int
    start_s: int | None
    end_s: int | None


def check(place: Sequence[str] = ()) -> None:
    """Raise SlurmError, with the reason in words, for a cluster that keeps no accounts of jobs."""
    storage = setting("AccountingStorageType", ask("scontrol", *place, "show", "config"))
    if storage in NONE:
        raise SlurmError(f"it keeps no accounting (AccountingStorageType = {storage or 'nothing'})")
    ask("sacct", *place, "-n", "-X", "-j", "1", "-o", COLUMNS)


def times(jobs: Sequence[SlurmJob]) -> dict[SlurmJob, Accounted]:
    """The jobs that are in the accounts by now; each may get there a moment after it was submitted."""
    found = {}
    for place in dict.fromkeys(job.place for job in jobs):
        ours = {job.id: job for job in jobs if job.place == place}
        words = ("sacct", *place, "-n", "-P", "-X", "-j", ",".join(ours), "-o", COLUMNS)
        for row in filter(None, map(_ROW.fullmatch, ask(*words, SLURM_TIME_FORMAT="%s").splitlines())):
            if job := ours.get(row[1]):
                found[job] = Accounted(row[2], int(row[3]), _seconds(row[4]), _seconds(row[5]))
    return found


def _seconds(text: str) -> int | None:
    """A time; None for Slurm's words Unknown and None."""
    return int(text) if text.isdecimal() else None
