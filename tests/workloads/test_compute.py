"""The compute phase is CPU work."""

import os
import statistics
import sys
import time
from contextlib import ExitStack

import psutil
import pytest
from runs import spawned

from workloads.compute import Compute, measured_step_ns

BURN = "import time\nwhile True: pass"


@pytest.mark.parametrize("working_set_bytes", [0, 1 << 20])
def test_it_uses_the_cpu_time_it_is_asked_for(working_set_bytes):
    spent = []
    for _ in range(5):
        compute = Compute(working_set_bytes, measured_step_ns(working_set_bytes))  # as fast as memory is now
        begin = time.thread_time_ns()
        for _ in range(4):
            compute(2_000_000)
        spent.append(time.thread_time_ns() - begin)
    tolerance = 0.02 if not working_set_bytes else 0.5  # memory speed varies on a shared host
    assert sorted(spent)[2] == pytest.approx(8e6, rel=tolerance)


def test_it_counts_from_the_cpu_time_that_is_given():
    compute = Compute()
    for earlier_ns in (0, 1_000_000):
        began_ns = time.thread_time_ns() - earlier_ns
        compute(2_000_000, began_ns)
        assert compute.began_ns == began_ns
        assert 0 <= compute.ended_ns - began_ns - 2_000_000 < 500_000


@pytest.mark.slow
@pytest.mark.parametrize("working_set_bytes", [0, 1 << 18])
def test_half_a_processor_takes_twice_as_long(working_set_bytes):
    """The phase takes its CPU time and no less, and a rival takes at least as much."""
    before = os.sched_getaffinity(0)
    core = min(before)
    os.sched_setaffinity(0, {core})
    with spawned(sys.executable, "-c", BURN) as rival, ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, before)
        os.sched_setaffinity(rival.pid, {core})
        time.sleep(0.1)
        opponent = psutil.Process(rival.pid)
        elapsed = []
        used = []
        taken = 0.0
        for _ in range(5):  # as fast as memory is now
            compute = Compute(working_set_bytes, measured_step_ns(working_set_bytes))
            taken -= sum(opponent.cpu_times()[:2])
            begin = time.perf_counter()
            cpu = time.thread_time()
            compute(100_000_000)
            elapsed.append(time.perf_counter() - begin)
            used.append(time.thread_time() - cpu)
            taken += sum(opponent.cpu_times()[:2])
    tolerance = 0.05 if not working_set_bytes else 0.5  # memory speed varies on a shared host
    assert statistics.median(used) == pytest.approx(0.1, rel=tolerance)
    # Half of what the two had between them, so twice as long as with all of it.
    assert (sum(used) + taken) / sum(used) == pytest.approx(2, rel=0.2)
    assert sum(elapsed) / sum(used) > 1.8


def test_rounding_to_whole_steps_is_carried_on():
    compute = Compute(1 << 15, memory_step_ns=1000.0)
    taken = _Counting()
    compute.pieces = [taken]
    for _ in range(1000):
        compute(300)
    assert len(taken) == pytest.approx(300, abs=1)


class _Counting(list):
    """Stands for a piece of memory and counts how often a step adds to it."""

    def __iadd__(self, other):
        self.append(other)
        return self
