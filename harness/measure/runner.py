"""Carry out the runs of an experiment one after the other, and record every one."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from harness.measure.plan import BackEnd, Task
from harness.measure.session import Progress, Watcher
from harness.store.database import Store
from harness.store.records import RunRecord

HOPELESS = 3
"""The runner gives up after this many failures without a single success."""


def run(
    tasks: Sequence[Task],
    back_end: BackEnd,
    store: Store,
    watcher: Watcher,
    needed: Callable[[Task], bool] = lambda task: True,
    expected: Callable[[Task], bool] | None = None,
    what: str = "runs",
) -> Iterator[RunRecord]:
    """Do the tasks one after the other; yields each run's record once it is stored.

    It asks before each task whether it is still ``needed``, and leaves it out if not. The time left
    counts the tasks ``expected`` to be needed, by default all that are needed now. The last message names
    the tasks ``what``.

    A run that fails becomes a record as well. If the first HOPELESS runs all fail, the
    function skips the rest.
    """
    pace = _Pace(tasks, back_end, expected or needed)
    failures = successes = 0
    warned: set[str] = set()
    for number, task in enumerate(tasks):
        if not needed(task):
            continue
        watcher.progress(pace.progress(number, f"{task.label}{_of_most(task)}", begins=True))
        record = back_end.run(task)
        store.add_run(record)
        pace.took(task, record.wall_s)
        yield record
        for warning in record.conditions.get("warnings", ()):
            if warning not in warned:
                warned.add(warning)
                watcher.warn(f"{task.label}: {warning}")
        if record.failure:
            failures += 1
            watcher.warn(f"{task.label} failed: {record.failure}")
        else:
            successes += 1
        if failures >= HOPELESS and not successes:
            watcher.warn(
                f"stopped after {failures} failures in a row; skipped {len(tasks) - number - 1} runs"
            )
            return
    watcher.progress(pace.progress(len(tasks), f"{what} done"))


def _of_most(task: Task) -> str:
    """Of how many repeats it is one."""
    least, most = task.experiment.least_repeats, task.experiment.repeats
    if task.repeat >= most:
        return ""
    return f" of {most}" if least == most else f" of at most {most}"


class _Pace:
    """Estimates the time left: first from guesses, then from the times of similar runs."""

    def __init__(self, tasks: Sequence[Task], back_end: BackEnd, expected: Callable[[Task], bool]) -> None:
        self._tasks, self._guess_s, self._expected = tasks, back_end.guess_s, expected
        self._begin = time.monotonic()
        self._seen: dict[tuple[int, str, str], list[float]] = defaultdict(list)
        self._guessed_s = self._took_s = 0.0
        self._done = 0

    def took(self, task: Task, wall_s: float) -> None:
        """``task`` is done and took ``wall_s``."""
        self._seen[_alike(task)].append(wall_s)
        self._guessed_s += self._guess_s(task)
        self._took_s += wall_s
        self._done += 1

    def progress(self, number: int, label: str, *, begins: bool = False) -> Progress:
        """The progress before task ``number``, which ``begins`` now whether it was expected or not."""
        left = [task for task in self._tasks[number + begins :] if self._expected(task)]
        left += self._tasks[number : number + begins]
        left_s = sum(map(self._expected_s, left))
        return Progress(label, self._done, self._done + len(left), time.monotonic() - self._begin, left_s)

    def _expected_s(self, task: Task) -> float:
        if seen := self._seen.get(_alike(task)):
            return statistics.fmean(seen)
        correction = self._took_s / self._guessed_s if self._guessed_s else 1.0
        return self._guess_s(task) * correction


def _alike(task: Task) -> tuple[int, str, str]:
    cell, _, kind, table, _ = task.key
    return cell, kind, table
