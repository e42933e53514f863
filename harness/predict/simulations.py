"""Tasks run by a simulated back end, side by side, and kept in their order."""

from collections.abc import Callable, Sequence
from typing import Protocol

from harness.measure.plan import BackEnd, Key, Task, key_of, label
from harness.measure.time_left import Guess
from harness.predict.pool import Pool, Progress, compute, forget
from harness.store.records import RunRecord
from workloads.constants import MachineConstants

Keep = Callable[[RunRecord], object]


class SimulatedBackEnd(BackEnd, Protocol):
    """A back end whose runs depend on nothing but the task and the constants of a machine."""

    def constants(self, task: Task) -> MachineConstants:
        """The constants with which it simulates ``task``."""


def carry_out(
    tasks: Sequence[Task],
    back_end: BackEnd,
    progress: Progress,
    compute: Pool = compute,
    keep: Keep = forget,
) -> list[RunRecord]:
    """The records of all tasks, in their order; InputError, before anything starts, for one that is refused.

    ``keep`` receives them in that order, each as soon as it and all before it are known; if the work ends
    early, then also those after a gap.
    """
    for task in tasks:
        if error := back_end.refusal(task):
            raise task.experiment.located(error)
    waiting = {task.key: None for task in tasks}
    records: dict[Key, RunRecord] = {}

    def ended(record: RunRecord) -> None:
        records[key_of(record)] = record
        while waiting and (first := next(iter(waiting))) in records:
            del waiting[first]
            keep(records[first])

    def guess(task: Task) -> Guess:
        return Guess(back_end.guess_s(task), label(task.kind, task.scheduler.table, {}))

    try:
        return compute(tasks, back_end.run, progress, ended, guess)
    finally:
        for key in waiting:
            if key in records:
                keep(records[key])
