"""Predicted execution times in place of users' estimates: as they will be, or from the last two of a user.

The simulator compiles the leaf functions, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from coordinator.view import ExecutionTime, Job, View

USER, PERFECT, LAST_TWO = range(3)
ESTIMATES = {"user": USER, "perfect": PERFECT, "last-two": LAST_TWO}
"""Kinds of estimates by name."""

FOREVER_NS = 2**61
"""The estimate for a job without one."""

UNKNOWN_NS = (-1, -1)
"""The last run times of a user of whom none is known."""


def estimate_ns(job: Job) -> int:
    """The estimate of a job on the processors that it requests."""
    return max(1, round(job.estimate.on(job.processes) * 1e9)) if job.estimate else FOREVER_NS


def predicted(estimate_ns: int, last_ns: int, before_ns: int) -> int:
    """The prediction for a job that arrives: the mean of its user's last two run times, if there are two.

    It is at most the user's estimate.
    Source: Tsafrir, Etsion, Feitelson 2007, "Backfilling using system-generated predictions rather than user
    runtime estimates".
    """
    if before_ns < 0:
        return estimate_ns
    return max(1, min(estimate_ns, (last_ns + before_ns) // 2))


def corrected(length_ns: int, estimate_ns: int, elapsed_ns: int) -> int:
    """The prediction for a job that has run for ``elapsed_ns``: one that is longer, at most the estimate.

    It is doubled until it is longer.
    Source: after Tsafrir, Etsion, Feitelson 2007, whose steps are minutes and hours.
    """
    while length_ns <= elapsed_ns and length_ns < estimate_ns:
        length_ns = min(estimate_ns, 2 * length_ns)
    return length_ns


def perfect(view: View) -> View:
    """The view with the true execution times in place of estimates, where they are known."""
    return replace(
        view, jobs=tuple(replace(job, estimate=job.execution_time or job.estimate) for job in view.jobs)
    )


@dataclass(frozen=True)
class LastTwo:
    """What is known of users' run times after a decision.

    Attributes:
        lengths_ns: the prediction for each job that is there.
        users: whose these jobs are.
        last_ns: the last two run times of each user, the latest first.
    """

    lengths_ns: Mapping[int, int] = field(default_factory=dict)
    users: Mapping[int, str] = field(default_factory=dict)
    last_ns: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def at(self, view: View, begins_ns: Mapping[int, int]) -> Self:
        """What is known at the next decision; ``begins_ns`` has the starts of jobs that ran before it.

        Jobs that are gone have ended now, those of one time in order of their numbers. Then jobs that arrive
        are predicted, and jobs that have outlived their predictions get longer ones.
        """
        last_ns = dict(self.last_ns)
        for number in sorted(begins_ns.keys() - {job.number for job in view.jobs}):
            if user := self.users[number]:
                latest_ns, _ = last_ns.get(user, UNKNOWN_NS)
                last_ns[user] = view.now_ns - begins_ns[number], latest_ns
        lengths_ns = {}
        for job in view.jobs:
            if job.number in begins_ns:
                elapsed_ns = view.now_ns - begins_ns[job.number]
                lengths_ns[job.number] = corrected(self.lengths_ns[job.number], estimate_ns(job), elapsed_ns)
            elif job.number in self.lengths_ns:
                lengths_ns[job.number] = self.lengths_ns[job.number]
            else:
                lengths_ns[job.number] = predicted(
                    estimate_ns(job), *last_ns.get(job.submitter.user, UNKNOWN_NS)
                )
        return replace(
            self,
            lengths_ns=lengths_ns,
            users={job.number: job.submitter.user for job in view.jobs},
            last_ns=last_ns,
        )

    def seen(self, view: View) -> View:
        """The view with the predictions in place of estimates."""
        return replace(view, jobs=tuple(replace(job, estimate=self._time(job)) for job in view.jobs))

    def _time(self, job: Job) -> ExecutionTime | None:
        length_ns = self.lengths_ns[job.number]
        return ExecutionTime(0.0, alpha_s=length_ns / 1e9) if length_ns < FOREVER_NS else None

    def next_correction_ns(self, view: View, begins_ns: Mapping[int, int]) -> int | None:
        """When the next prediction turns out too short, if the job still runs; None if none can."""
        ends_ns = (
            begins_ns[job.number] + self.lengths_ns[job.number]
            for job in view.jobs
            if job.number in begins_ns and self.lengths_ns[job.number] < estimate_ns(job)
        )
        return min((end_ns for end_ns in ends_ns if end_ns > view.now_ns), default=None)
