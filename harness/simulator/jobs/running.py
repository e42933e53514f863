"""The running jobs: a heap of their ends, and for backfilling a list by the ends that users estimate."""

from coordinator.policies import allocation, predictions
from harness.simulator.compiled import step
from harness.simulator.jobs.case import Case
from harness.simulator.jobs.execution import push, time_ns
from harness.simulator.jobs.model import NEVER_NS, Integers

_predicted = step(predictions.predicted)
_corrected = step(predictions.corrected)


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
    _enter(case, now.running, now.time_ns + case.expected.estimates_ns[job], job, size)


@step
def _enter(case: Case, place: int, end_ns: int, job: int, size: int) -> None:
    """Put a job among the first ``place`` of the running ones, which becomes one more."""
    expected = case.expected
    while place > 0 and expected.ends_ns[place - 1] > end_ns:
        expected.ends_ns[place] = expected.ends_ns[place - 1]
        expected.held[place] = expected.held[place - 1]
        expected.owner[place] = expected.owner[place - 1]
        place -= 1
    expected.ends_ns[place] = end_ns
    expected.held[place] = size
    expected.owner[place] = job


@step
def forget(case: Case, job: int) -> int:
    """Remove a job that has ended from the running ones, of which it was one more; when it should end."""
    expected = case.expected
    place = 0
    while expected.owner[place] != job:
        place += 1
    end_ns = expected.ends_ns[place]
    _take_out(case, place, case.now[0].running)
    return int(end_ns)


@step
def _take_out(case: Case, place: int, last: int) -> None:
    expected = case.expected
    for column in (expected.ends_ns, expected.held, expected.owner):
        _close_gap(column, place, last)


@step
def _close_gap(values: Integers, place: int, last: int) -> None:
    for i in range(place, last):
        values[i] = values[i + 1]


@step
def predict(case: Case, job: int) -> None:
    """Predict the execution time of a job that arrives."""
    history = case.history
    user = history.user[job]
    length_ns = history.estimates_ns[job]
    if user >= 0:
        length_ns = _predicted(length_ns, history.last_ns[user], history.before_ns[user])
    case.expected.estimates_ns[job] = length_ns


@step
def learn(case: Case, job: int) -> None:
    """Note the execution time of a job that ends."""
    history = case.history
    user = history.user[job]
    if user >= 0:
        history.before_ns[user] = history.last_ns[user]
        history.last_ns[user] = case.now[0].time_ns - case.times.start_ns[job]


@step
def correct(case: Case) -> int:
    """Lengthen the prediction of the first job that has outlived it; returns the job, -1 if none has."""
    now = case.now[0]
    expected = case.expected
    place = 0
    while place < now.running and expected.ends_ns[place] <= now.time_ns:
        job = expected.owner[place]
        begin_ns = case.times.start_ns[job]
        length_ns = expected.ends_ns[place] - begin_ns
        if length_ns < case.history.estimates_ns[job]:
            longer_ns = _corrected(length_ns, case.history.estimates_ns[job], now.time_ns - begin_ns)
            size = expected.held[place]
            _take_out(case, place, now.running - 1)
            _enter(case, now.running - 1, begin_ns + longer_ns, job, size)
            expected.estimates_ns[job] = longer_ns
            return int(job)
        place += 1
    return -1


@step
def next_correction(case: Case) -> int:
    """When the next prediction turns out too short, if the job still runs; NEVER_NS if none can."""
    now = case.now[0]
    expected = case.expected
    for place in range(now.running):
        end_ns = expected.ends_ns[place]
        job = expected.owner[place]
        if end_ns > now.time_ns and end_ns < case.times.start_ns[job] + case.history.estimates_ns[job]:
            return int(end_ns)
    return NEVER_NS
