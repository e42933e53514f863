"""Where the jobs of a simulation come from: at their own times, after others, or as many as have left."""

from collections import defaultdict
from collections.abc import Sequence

from harness.simulator.jobs.model import Jobs


class Recorded:
    """Every job arrives at its time, or after the job that it follows.

    Attributes:
        at_ns: when each job arrives; of one that waits for the end of others, from that end on.
        first: the arrivals that are known before the simulation, as times and jobs.
    """

    def __init__(self, jobs: Jobs) -> None:
        self.at_ns: list[int] = jobs.submit_ns.tolist()
        self._followers = defaultdict[int, list[tuple[int, int]]](list)
        preceding, think_ns = jobs.following or ((), ())
        for job, (other, pause_ns) in enumerate(zip(preceding, think_ns, strict=True)):
            if other >= 0:
                self._followers[int(other)].append((job, int(pause_ns)))
        later = {job for followers in self._followers.values() for job, _ in followers}
        self.first = [(at_ns, job) for job, at_ns in enumerate(self.at_ns) if job not in later]

    def after(self, job: int, now_ns: int) -> Sequence[tuple[int, int]]:
        """The arrivals that are known now that ``job`` has ended, as times and jobs."""
        followers = self._followers.get(job, ())
        for follower, pause_ns in followers:
            earliest_ns = max(now_ns, self.at_ns[follower])
            self.at_ns[follower] = earliest_ns if pause_ns < 0 else now_ns + pause_ns
        return [(self.at_ns[follower], follower) for follower, _ in followers]


class Closed:
    """So many jobs arrive at time 0, and the next one when one ends; it answers as ``Recorded``."""

    def __init__(self, jobs: Jobs, population: int) -> None:
        self.at_ns = [0] * len(jobs)
        self.first = [(0, job) for job in range(min(population, len(jobs)))]
        self._next = len(self.first)

    def after(self, job: int, now_ns: int) -> Sequence[tuple[int, int]]:
        if self._next == len(self.at_ns):
            return ()
        coming = self._next
        self._next += 1
        self.at_ns[coming] = now_ns
        return [(now_ns, coming)]
