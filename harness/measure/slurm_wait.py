"""Waiting for submitted jobs: their states and the ends of their logs, until all are over."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from coordinator.host.launch import tail
from harness.measure.session import Progress, Watcher
from slurm.client import states
from slurm.command import SlurmError
from slurm.job import Ending, JobState, SlurmJob, explain

FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 15.0
"""Pauses between two questions grow from the first to the last, to spare Slurm's controller."""

LATE_S = 30.0  # how long after a job's end its exit status may appear on a shared file system
SILENCE_S = 600.0  # how long Slurm may give no answer

Ask = Callable[[Sequence[SlurmJob], str], dict[SlurmJob, tuple[JobState, Ending | None]]]


def wait(
    jobs: Sequence[SlurmJob],
    folder: Path,
    watcher: Watcher,
    *,
    ask: Ask = states,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[SlurmJob, tuple[JobState, Ending | None]]:
    """State and ending of each job once all are over; the watcher gets states and last lines of logs."""
    begin_s = heard_s = clock()
    unknown_s: dict[SlurmJob, float] = {}
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            seen = ask(jobs, str(folder))
        except SlurmError as error:
            if clock() - heard_s > SILENCE_S:
                raise
            watcher.note(f"no answer: {error}")
        else:
            heard_s = clock()
            for job in jobs:
                if seen[job][0] is JobState.UNKNOWN:
                    unknown_s.setdefault(job, heard_s)
                else:
                    unknown_s.pop(job, None)
            late = [job for job, since_s in unknown_s.items() if heard_s - since_s < LATE_S]
            over = [job for job in jobs if seen[job][0].over and job not in late]
            watcher.progress(Progress(_label(seen, folder), len(over), len(jobs), heard_s - begin_s, 0.0))
            if len(over) == len(jobs):
                return seen
        pause(pause_s)
        pause_s = min(1.3 * pause_s, LAST_PAUSE_S)


def _label(seen: dict[SlurmJob, tuple[JobState, Ending | None]], folder: Path) -> str:
    for job, (state, ending) in seen.items():
        if not state.over:
            log = tail(folder / f"{job}.log").split("\n") if state is JobState.RUNNING else []
            last_line = next((line.strip() for line in reversed(log) if line.strip()), "")
            return f"job {job} {explain(state, ending)}{': ' if last_line else ''}{last_line}"
    return "over"
