"""Slurm's commands: submit a script, ask about jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from slurm.command import SlurmError, ask
from slurm.script import status_file
from slurm.states import Ending, JobState, judge


def submit(script: Path, *, after: str | None = None) -> str:
    """Submit a script; returns the job's id.

    Args:
        script: its path.
        after: id of a job, or of an array, whose end it waits for, however it ends.

    Raises:
        SlurmError: if it is not accepted.
    """
    dependency = [f"--dependency=afterany:{after}"] if after else []
    said = ask("sbatch", "--parsable", *dependency, str(script))
    found = re.fullmatch(r"(\d+)(;.*)?", said.strip())
    if found is None:
        raise SlurmError(f"sbatch printed no job id, but {said.strip()!r}")
    return found[1]


def cancel(jobs: Sequence[str]) -> None:
    """End jobs; jobs that are over stay as they are.

    Raises:
        SlurmError: if Slurm does not answer.
    """
    if jobs:
        ask("scancel", *jobs)


def states(jobs: Sequence[str], directory: str) -> dict[str, tuple[JobState, Ending | None]]:
    """State and ending of each job, or task of an array, of scripts that write to ``directory``.

    Raises:
        SlurmError: if Slurm does not answer; that says nothing about the jobs.
    """
    reported = _queued(jobs)
    unknown = [job for job in jobs if job not in reported]
    if unknown:
        reported |= _accounted(unknown)
    found = {}
    for job in jobs:
        left = ending(directory, job)
        found[job] = judge(reported.get(job), left), left
    return found


def ending(directory: str, job: str) -> Ending | None:
    """The content of a job's status file; None if there is none."""
    try:
        return Ending.parse(Path(status_file(directory, job)).read_text())
    except OSError:
        return None


def _queued(jobs: Sequence[str]) -> dict[str, str]:
    """States by job or task from squeue, without the jobs that it no longer knows."""
    found: dict[str, str] = {}
    for whole in dict.fromkeys(job.partition("_")[0] for job in jobs):
        try:
            said = ask("squeue", "-h", "-r", "-t", "all", "-j", whole, "-o", "%i|%T")
        except SlurmError as error:
            if "Invalid job id" not in str(error):
                raise
            continue
        found |= dict(line.split("|", 1) for line in said.splitlines() if "|" in line)
    return found


def _accounted(jobs: Sequence[str]) -> dict[str, str]:
    """States of jobs that are over, from the accounting or the log of completed jobs."""
    for source in ([], ["-c"]):
        try:
            said = ask("sacct", *source, "-n", "-P", "-j", ",".join(jobs), "-o", "JobID,State")
        except SlurmError:
            continue  # there is no such source
        lines = [line.split("|", 1) for line in said.splitlines() if "|" in line]
        if found := {job: state for job, state in lines if job in jobs and state}:
            return found
    return {}
