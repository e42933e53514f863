"""The running jobs: a heap of their ends, and for backfilling a list by the ends that users estimate."""

from coordinator.policies import allocation
from harness.simulator.compiled import step
from harness.simulator.jobs.case import Case
from harness.simulator.jobs.execution import push, time_ns
from harness.simulator.jobs.model import Integers


@step
def begin(case: Case, job: int, size: int) -> None:
    """Start a waiting job on ``size`` processors, which it keeps to its end."""
    now = case.now[0]
    if case.scheme.backfilling != allocation.NONE:
        _expect(case, job, size)
    push(case.ends_ns, case.ending, now.running, now.time_ns + time_ns(case.jobs, job, size), job)
    now.running += 1
    now.free -= size
    case.size[job] = size
    case.times.start_ns[job] = now.time_ns


@step
def _expect(case: Case, job: int, size: int) -> None:
    """Enter a job that starts now among the running ones."""
    now = case.now[0]
    expected = case.expected
    end_ns = now.time_ns + expected.estimates_ns[job]
    place = now.running
    while place > 0 and expected.ends_ns[place - 1] > end_ns:
        expected.ends_ns[place] = expected.ends_ns[place - 1]
        expected.held[place] = expected.held[place - 1]
        expected.owner[place] = expected.owner[place - 1]
        place -= 1
    expected.ends_ns[place] = end_ns
    expected.held[place] = size
    expected.owner[place] = job


@step
def forget(case: Case, job: int) -> None:
    """Remove a job that has ended from the running ones, of which it was one more."""
    expected = case.expected
    place = 0
    while expected.owner[place] != job:
        place += 1
    for column in (expected.ends_ns, expected.held, expected.owner):
        _close_gap(column, place, case.now[0].running)


@step
def _close_gap(values: Integers, place: int, last: int) -> None:
    for i in range(place, last):
        values[i] = values[i + 1]
