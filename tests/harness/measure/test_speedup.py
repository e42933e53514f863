"""Execution time functions fitted to runs."""

from dataclasses import replace

import numpy as np
import pytest
from fake_runs import measured
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from coordinator.view import ExecutionTime
from harness.measure import execution_times
from harness.spec.experiment import load
from harness.spec.jobs import described
from harness.store.database import Store
from workloads.program import Program
from workloads.validation import InputError

NEWS = Program(pattern="NEWS", phases=1)
S = 10**9
parts = st.floats(0.01, 100)


@given(parts, parts, parts)
@settings(deadline=None)
def test_an_exact_function_is_found_again(work_s, alpha_s, beta_s):
    true = ExecutionTime(work_s, 1.0, alpha_s, beta_s)
    fit = execution_times.fit([(p, true.on(p)) for p in (1, 2, 3, 5, 8, 13)])
    for p in range(1, 20):
        assert fit.on(p) == pytest.approx(true.on(p), rel=1e-3)


@given(st.lists(st.tuples(st.integers(1, 64), st.floats(0.01, 1000)), min_size=3, max_size=12))
@settings(deadline=None)
def test_the_fit_is_as_good_as_that_of_scipy(points):
    count, seconds = np.array(points).T
    columns = np.array([1 / count, np.ones_like(count), count]) / seconds
    wanted = np.ones_like(seconds)
    solution = execution_times.not_negative(columns, wanted)
    assert min(solution) >= 0
    assert np.linalg.norm(columns.T @ solution - wanted) <= nnls(columns.T, wanted)[1] * (1 + 1e-9) + 1e-9


def test_nothing_is_negative_and_noise_is_averaged():
    fit = execution_times.fit([(1, 10.0), (1, 10.2), (2, 4.9), (2, 5.2), (4, 2.4), (4, 2.6), (8, 1.2)])
    assert min(fit.work_s, fit.alpha_s, fit.beta_s) >= 0
    assert fit.on(4) == pytest.approx(2.5, rel=0.05)


def test_one_size_tells_the_work_and_two_the_part_that_does_not_shrink():
    assert execution_times.fit([(2, 3.0), (2, 5.0)]).on(1) == pytest.approx(2 * 15 / 4, rel=0.2)
    fit = execution_times.fit([(1, 11.0), (2, 6.0)])
    assert (fit.work_s, fit.alpha_s, fit.beta_s) == pytest.approx((10, 1, 0))


def test_only_undisturbed_runs_that_ended_count(tmp_path):
    like = measured(load("three-jobs", settings=["repeats=1"]), tmp_path / "others")[0]

    def add(kind, policy, *jobs):
        """Store a run with (processes, start and finish in ns, failure) of jobs of one program."""
        names = ("processes", "start_ns", "finish_ns", "failure")
        of_jobs = [
            replace(like.jobs[0], job=n, program=described(NEWS), **dict(zip(names, job, strict=True)))
            for n, job in enumerate(jobs)
        ]
        store.add_run(replace(like, kind=kind, scheduler={"policy": policy}, jobs=tuple(of_jobs), ranks=()))

    known = execution_times.undisturbed()
    with Store(tmp_path) as store:
        known.read(store, like.digest)
        assert known.fitted() == {}
        add("dedicated", "batch", (4, 1 * S, 4 * S, ""))
        add("policy", "aep", (1, 0, 9 * S, ""), (2, 5 * S, 10 * S, ""))
        known.read(store, like.digest)
        add("recorded", "batch", (4, 0, 99 * S, ""))
        add("policy", "gang", (4, 0, 99 * S, ""))
        add("policy", "asp", (2, None, None, "killed"))
        known.read(store, like.digest)
    ((key, estimate_of_job),) = known.fitted().items()
    assert key == NEWS
    assert [estimate_of_job.on(p) for p in (1, 2, 4)] == pytest.approx([9, 5, 3], rel=1e-6)


@pytest.mark.parametrize("points", [[], [(0, 1.0)], [(1, 0.0)]])
def test_bad_points_are_refused(points):
    with pytest.raises(InputError, match="measure the program first"):
        execution_times.fit(points)
