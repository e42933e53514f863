"""Carry out the runs of an experiment one after the other, and record every one."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

from harness.measure.plan import BackEnd, Task
from harness.measure.session import Progress, Watcher
from harness.store.database import Store
from harness.store.records import RunRecord

HOPELESS = 3
"""The runner gives up after this many failures without a single success."""


def run(tasks: Sequence[Task], back_end: BackEnd, store: Store, watcher: Watcher) -> Iterator[RunRecord]:
    """Do the tasks one after the other; yields each run's record once it is stored.

    A run that fails becomes a record as well. If the first HOPELESS runs all fail, the
    function skips the rest.

    Raises:
        StoreError: if a record cannot be written.
    """
    pace = _Pace(tasks, back_end)
    failures = successes = 0
    warned: set[str] = set()
    for number, task in enumerate(tasks):
        watcher.progress(pace.progress(number, f"{task.label} of {task.experiment.repeats}"))
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
    watcher.progress(pace.progress(len(tasks), "done"))


class _Pace:
    """Estimates the time left: first from guesses, then from the times of similar runs."""

    def __init__(self, tasks: Sequence[Task], back_end: BackEnd) -> None:
        self._tasks, self._guess_s = tasks, back_end.guess_s
        self._begin = time.monotonic()
        self._seen: dict[tuple[int, str, str], list[float]] = defaultdict(list)
        self._guessed_s = self._took_s = 0.0

    def took(self, task: Task, wall_s: float) -> None:
        """``task`` is done and took ``wall_s``."""
        self._seen[_alike(task)].append(wall_s)
        self._guessed_s += self._guess_s(task)
        self._took_s += wall_s

    def progress(self, done: int, label: str) -> Progress:
        """The progress before task number ``done``."""
        left_s = sum(map(self._expected_s, self._tasks[done:]))
        return Progress(label, done, len(self._tasks), time.monotonic() - self._begin, left_s)

    def _expected_s(self, task: Task) -> float:
        if seen := self._seen.get(_alike(task)):
            return statistics.fmean(seen)
        correction = self._took_s / self._guessed_s if self._guessed_s else 1.0
        return self._guess_s(task) * correction


def _alike(task: Task) -> tuple[int, str, str]:
    cell, _, kind, table, _ = task.key
    return cell, kind, table
