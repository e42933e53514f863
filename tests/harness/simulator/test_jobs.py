"""Job-level simulation: the kernels against the policies themselves, and what no schedule may break."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from compiled_only import PLAIN
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

from coordinator import policies
from coordinator.policies.ordered import QUEUES
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import NEVER_NS, Following, Jobs, rigid
from harness.simulator.jobs.simulate import kernel, simulate
from workloads.validation import InputError

pytestmark = pytest.mark.slow

S = 1_000_000_000
LOCAL = ("none", "implicit", "dynamic-coscheduling", "working-sets")
SHARING = (*LOCAL, "process-control", "processor-sets", "rr-job")
SCHEDULING = [name for name in policies.known() if name not in SHARING]
"""Policies that neither leave a processor to the local scheduler nor run single processes of a job."""

OPTIONS = {"ordered": [{"order": order, "backfill": kind} for order in QUEUES for kind in ("none", "easy")]}
OPTIONS["preempt"] = [{}]
COMPILED = [
    (name, options)
    for name in SCHEDULING
    for options in OPTIONS.get(
        name, [{"order": n} for n in (0, 1, 2)] if "order" in policies.parameters(name) else [{}]
    )
    if name not in ("batch", "partitioned", "gang") and "queue" not in name
]


@st.composite
def workloads(draw, processors, moldable=True, quantum_s=1, chained=False):
    """Up to 14 jobs whose times are whole numbers of quanta; ``chained`` ones may follow others."""
    count = draw(st.integers(1, 14))
    columns = {"gap": 6, "most": processors, "work": 12, "alpha": 3, "beta": 2, "factor": 3}
    rows = [[draw(st.integers(0, high)) for high in columns.values()] for _ in range(count)]
    gap, most, work, alpha, beta, factor = np.array(rows, dtype=np.int64).T
    most = np.maximum(1, most)
    free = draw(st.lists(st.booleans(), min_size=count, max_size=count)) if moldable else [False] * count
    return Jobs(
        np.cumsum(gap) * S * quantum_s,
        np.where(free, 1, most),
        most,
        ((work + 1) * quantum_s * most).astype(float),
        np.where(free, alpha, 0).astype(float),
        np.where(free, beta, 0) * 0.25,
        1.0 + factor,
        draw(chains(count)) if chained else None,
    )


@st.composite
def chains(draw, count):
    """Jobs follow others before and after them in the log, but none itself by way of these."""
    order = draw(st.permutations(range(count)))
    preceding, think_ns = np.full((2, count), -1)
    for place, job in enumerate(order):
        other = draw(st.integers(-1, place - 1))
        preceding[job] = order[other] if other >= 0 else -1
        think_ns[job] = draw(st.integers(0, 4)) * S if draw(st.booleans()) else -1
    return Following(preceding, think_ns)


@st.composite
def runs(draw):
    name, options = draw(st.sampled_from(COMPILED))
    processors = 2 ** draw(st.integers(0, 4)) if "dqt" in name else draw(st.integers(1, 12))
    trees = name in ("dqt", "fair-dqt")
    jobs = draw(workloads(processors, moldable=not trees, chained=not trees and draw(st.booleans())))
    return name, options | ({"quantum_ms": 1000} if trees else {}), processors, jobs


@given(runs())
@settings(max_examples=40 if PLAIN else 150, deadline=None)
def test_a_kernel_decides_as_its_policy(run):
    name, options, processors, jobs = run
    policy = policies.create(name, options)
    compiled = kernel(policy, jobs, processors, None)
    if compiled is None:  # a machine or jobs for which there is no kernel
        return
    fast = compiled()
    slow, _ = event_by_event.simulate(jobs, processors, policy, malleable=name == "dyn-equi")
    np.testing.assert_array_equal(fast.finish_ns, slow.finish_ns)
    np.testing.assert_array_equal(fast.start_ns, slow.start_ns)
    np.testing.assert_array_equal(fast.jobs.submit_ns, slow.jobs.submit_ns)
    np.testing.assert_allclose(fast.size, slow.size)


@given(st.sampled_from(["dqt", "fair-dqt"]), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_a_queue_tree_of_many_long_jobs_is_as_its_policy(name, seed):
    """Most of them are small, and arrivals cut their rounds."""
    random = np.random.default_rng(seed)
    count, processors = 40, 32
    size = 2 ** np.minimum(random.geometric(0.5, count) - 1, 5)
    jobs = rigid(np.cumsum(random.integers(0, 7, count)) * S, size, random.geometric(0.04, count) * S)
    policy = policies.create(name, {"quantum_ms": 1000})
    fast = kernel(policy, jobs, processors, None)()
    slow, _ = event_by_event.simulate(jobs, processors, policy)
    np.testing.assert_array_equal(fast.finish_ns, slow.finish_ns)
    np.testing.assert_array_equal(fast.start_ns, slow.start_ns)
    np.testing.assert_array_equal(fast.first, slow.first)


@st.composite
def any_runs(draw):
    name = draw(st.sampled_from(SCHEDULING))
    processors = draw(st.integers(1, 9))
    return name, processors, draw(workloads(processors))


@given(any_runs())
@settings(max_examples=40 if PLAIN else 150, deadline=None)
def test_no_schedule_breaks_these_rules(run):
    name, processors, jobs = run
    worked = np.zeros(len(jobs))

    def watch(plan, now_ns):
        for slot in plan.decision.slots:
            for processor, able in enumerate(slot.runs):
                assert len(able) <= 1, "two processes of a processor in a slot"
                assert all(processor in plan.decision.placements[number] for number in able)

    policy = policies.create(name, {})
    outcome, usage = event_by_event.simulate(
        jobs, processors, policy, malleable=name == "dyn-equi", watch=watch
    )
    assert outcome.finished.all(), "every job ends"
    assert (outcome.start_ns >= jobs.submit_ns).all()
    assert (outcome.size <= processors).all()
    assert (usage.busy <= processors + 1e-6).all()
    if name != "dyn-equi":
        sizes = outcome.size.astype(np.int64)
        assert ((jobs.min_processes <= sizes) & (sizes <= jobs.max_processes)).all()
        worked = jobs.times_ns(sizes) * sizes
        assert (outcome.finish_ns - outcome.start_ns >= jobs.times_ns(sizes)).all()
        ends = np.append(usage.time_ns[1:], outcome.finish_ns.max())
        assert (usage.busy * (ends - usage.time_ns)).sum() == pytest.approx(worked.sum(), rel=1e-6)


KERNELS = ("fcfs", "asp", "aep", "square-root", "easy", "fcfs-bb", "scan-up", "dyn-equi", "dqt", "fair-dqt")
AT_ONCE = """
import sys
import numpy as np
from coordinator import policies
from harness.simulator.jobs.model import rigid
from harness.simulator.jobs.simulate import kernel

for name in sys.argv[1:]:
    jobs = rigid(np.zeros(4, dtype=np.int64), np.ones(4, dtype=np.int64), np.full(4, 10**9))
    outcome = kernel(policies.create(name, {}), jobs, 4, None)()
    assert (outcome.start_ns == 0).all() and outcome.finished.all(), name
"""


def test_kernels_stay_within_their_arrays_if_all_jobs_start_at_one_instant():
    """Compiled code writes beyond an array without a word, so here it is not compiled."""
    argv = [sys.executable, "-c", AT_ONCE, *KERNELS]
    result = subprocess.run(
        argv,
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", LOCAL)
def test_local_scheduling_needs_the_other_simulator(name):
    jobs = rigid(np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64), np.full(2, S))
    with pytest.raises(InputError, match="local scheduler"):
        simulate(jobs, 1, policies.create(name, {}))


def test_jobs_larger_than_the_machine_are_refused():
    jobs = rigid(np.zeros(2, dtype=np.int64), np.array([1, 9]), np.full(2, S))
    with pytest.raises(InputError, match=r"jobs\[1\].*must be at most 4"):
        simulate(jobs, 4, policies.create("fcfs", {}))


@pytest.mark.parametrize("name", ["asp", "fcfs", "easy", "fcfs-bb", "scan-up", "dyn-equi"])
def test_a_policy_that_cannot_keep_up_is_called_saturated(name):
    n = 200
    jobs = rigid(np.arange(n) * S, np.full(n, 2), np.full(n, 2 * S))
    if name == "dyn-equi":
        jobs = replace(jobs, min_processes=np.ones(n, dtype=np.int64))
    outcome = simulate(jobs, 2, policies.create(name, {}), 150)
    assert outcome.saturated
    assert (outcome.finish_ns[150:] == NEVER_NS).all()
    slower = replace(jobs, submit_ns=3 * jobs.submit_ns)
    outcome = simulate(slower, 2, policies.create(name, {}), 150)
    assert not outcome.saturated
    assert (outcome.finish_ns[:150] < NEVER_NS).all()
    assert (outcome.finish_ns[151:] == NEVER_NS).all()
