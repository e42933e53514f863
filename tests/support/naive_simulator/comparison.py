"""Whether the compiled kernel and the reference say the same."""

from itertools import pairwise, zip_longest

from harness.simulator.processes.model import IDLE, NOBODY


def compare(outcome, naive):
    """Both say the same: of every processor at every time, and of every job."""
    assert outcome.failure == ""
    rows = outcome.timeline.tolist()
    for p, processor in enumerate(naive.processors):
        ours = spells([(time, *what) for time, number, *what, _ in rows if number == p])
        theirs = spells(processor.history)
        for spell, expected in zip_longest(ours, theirs):
            assert spell == expected, f"processor {p}"
        assert outcome.spent_ns[p].tolist() == spent_ns(theirs, naive.now), f"processor {p}"
    assert outcome.messages == naive.messages
    # Of the yields that change nothing the kernel notices those after which another process might have run,
    # also if the wait is over by then.
    assert naive.timers <= outcome.timers <= naive.timers + naive.idle_yields
    assert outcome.switches.tolist() == [processor.switches for processor in naive.processors]
    assert outcome.end_ns == naive.now
    assert outcome.throttled_ns == naive.throttled_ns
    for ours in outcome.jobs:
        theirs = naive.jobs[ours.number]
        assert ours.finish_ns == theirs.finish_ns
        assert ours.cpu_ns == tuple(process.cpu_ns for process in theirs.processes)
        assert ours.bursts_ns == tuple(theirs.bursts_ns if theirs.given.think_us else ())
        check(ours.reads, theirs, "read")
        check(ours.opening_barriers, theirs, "opening")
        check(ours.barriers, theirs, "opening", "closing", "lock")


def check(waits, job, *kinds):
    expected = [
        [sum(numbers) for numbers in zip(*(job.waits[kind, slept] for kind in kinds), strict=True)]
        for slept in (False, True)
    ]
    assert [[waits.spun, waits.spun_ns], [waits.blocked, waits.blocked_ns]] == expected


def spells(rows):
    """Since when a processor was at what, for which process; ``rows`` may repeat it, or change their mind."""
    lasting = [
        row for row, later in pairwise([(0, NOBODY, IDLE), *rows, None]) if not later or later[0] > row[0]
    ]
    return [row for before, row in pairwise([(None, None), *lasting]) if row[1:] != before[1:]]


def spent_ns(spells, end_ns):
    """What a processor spent at each activity until the end."""
    spent = [0] * (IDLE + 1)
    for (since, _, what), (until, *_) in pairwise([*spells, (end_ns, NOBODY, IDLE)]):
        spent[what] += until - since
    return spent
