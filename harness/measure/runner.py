"""Run the tasks of an experiment one after the other, and record every one."""

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from harness.measure.disturbance import disturbed
from harness.measure.plan import BackEnd, Task
from harness.measure.session import Progress, Watcher
from harness.measure.time_left import COMPILED, Guess, Pace
from harness.store.database import Store
from harness.store.records import DEDICATED, SIMULATIONS, RunRecord
from workloads.work import OF_USERS, Work

HOPELESS = 3  # the runner gives up after this many failures without a single success


class Need(Protocol):
    """Tells which runs are needed, by those that were made so far."""

    def needs(self, task: Task) -> bool:
        """Whether the run of a task is needed now."""

    def expects(self, task: Task) -> bool:
        """Whether it will probably be needed when it is due."""


class All:
    """Needs every run."""

    def needs(self, task: Task) -> bool:
        return True

    expects = needs


EVERY_RUN = All()


def run(
    tasks: Sequence[Task],
    back_end: BackEnd,
    store: Store,
    watcher: Watcher,
    need: Need = EVERY_RUN,
    what: str = "runs",
) -> Iterator[RunRecord]:
    """Do the tasks that are needed when their turn comes; yields each run's record once it is stored.

    A run that other programs disturb is repeated at once, up to AGAIN times, as long as that helps.

    The time left counts the tasks that ``need`` expects. A run that fails becomes a record as well. If a
    user's program fails alone that has not succeeded before, no row with it can be known, and its runs are
    skipped; if the first HOPELESS runs all fail, the rest.
    """
    pace = Pace(max(map(_untold, tasks), default=0))
    guesses = [_guess(task, back_end) for task in tasks]
    patience = Patience()
    prospects = Prospects()
    warned: set[str] = set()

    def progress(label: str, begun: int) -> None:
        coming = {
            n for n, task in enumerate(tasks) if n > begun and need.expects(task) and not prospects.lost(task)
        }
        left = [guess for n, guess in enumerate(guesses) if n == begun or n in coming]
        watcher.progress(Progress(label, *pace.state(left)))

    for number, task in enumerate(tasks):
        if prospects.skips(task) or not need.needs(task):
            continue
        record = None
        while record is None or patience.has(record):
            again = ", since other programs disturbed it" if record else ""
            progress(f"{task.label}{_of_most(task)}{again}", number)
            record = back_end.run(task)
            store.add_run(record)
            pace.took(guesses[number], record.wall_s)
            yield record
            for warning in record.conditions.warnings:
                if (kind := re.sub(r"\brun \w+", "", warning)) not in warned:
                    warned.add(kind)  # other runs of Lockstep come and go, and each has another number
                    watcher.warn(f"{task.label}: {warning}")
        if record.failure and record.exceeded is None:
            watcher.warn(f"{task.label} failed: {record.failure}")
        if record.failed_jobs:
            watcher.warn(f"{task.label}: {record.failed_jobs}")
        prospects.hear(task, record)
        if prospects.hopeless and (left := len(tasks) - number - 1):
            watcher.warn(f"stopped: {prospects.failures} failures in a row; skipped {left} runs")
            return
    progress(f"{what} done", len(tasks))
    for program, count in prospects.skipped.items():
        watcher.warn(f"{' '.join(program.argv)} fails alone: skipped {count} runs for rows with it")


class Prospects:
    """Tells which runs are of no use, by the records that it has heard.

    ``skipped`` counts the runs that it skips, by the program that fails alone.
    """

    def __init__(self) -> None:
        self.skipped: dict[Work, int] = {}
        self.failures = 0
        self._successes = 0
        self._proven: set[Work] = set()

    @property
    def hopeless(self) -> bool:
        """Whether all runs have failed, and there were enough."""
        return self.failures >= HOPELESS and not self._successes

    def lost(self, task: Task) -> Work | None:
        """The program of a task's row that fails alone, so that the row cannot be known; None without one."""
        programs = (job.program for job in task.cell.jobs()) if self.skipped else ()
        return next((program for program in programs if program in self.skipped), None)

    def skips(self, task: Task) -> bool:
        """Whether to skip the run of a task, which then counts as skipped."""
        program = self.lost(task)
        if program:
            self.skipped[program] += 1
        return program is not None

    def hear(self, task: Task, record: RunRecord) -> None:
        """Take in the last record of a task."""
        if not record.failure or record.exceeded is not None:
            self._successes += 1
            self._proven |= {job.program for job in task.jobs}
            return
        self.failures += 1
        program = task.jobs[0].program
        if task.kind == DEDICATED and isinstance(program, OF_USERS) and program not in self._proven:
            self.skipped[program] = 0


AGAIN = 2
"""So often a run that other programs disturb is repeated at most."""

USELESS = 6
"""After so many repeats that were disturbed as well, runs are not repeated until others are not disturbed."""


class Patience:
    """Tells whether to repeat a run: while it may help."""

    def __init__(self) -> None:
        self._left = USELESS
        self._times = 0

    def has(self, record: RunRecord) -> bool:
        """Whether to repeat the run of ``record``, of which it has heard all records so far."""
        if record.failure or not disturbed(record):
            self._left = min(USELESS, self._left + 1)
            self._times = 0
            return False
        if self._times:
            self._left = max(0, self._left - 1)
        self._times += 1
        if self._times <= AGAIN and self._left:
            return True
        self._times = 0
        return False


def _of_most(task: Task) -> str:
    """Of how many repeats it is one."""
    least = task.experiment.min_repeats
    most = task.experiment.repeats
    if task.repeat >= most:
        return ""
    return f" of {most}" if least == most else f" of at most {most}"


def _untold(task: Task) -> int:
    """How many runs such as this must have ended before it is known how long others take."""
    if task.kind in SIMULATIONS:
        return COMPILED
    return 1 if any(isinstance(job.program, OF_USERS) for job in task.jobs) else 0


def _guess(task: Task, back_end: BackEnd) -> Guess:
    """Runs of all repeats are of one kind."""
    key = task.key
    return Guess(back_end.guess_s(task), f"{key.cell} {key.kind} {key.scheduler}")
