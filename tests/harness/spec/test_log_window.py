"""A part of a job log as jobs with processes: sizes, load, programs and estimates."""

import json
import statistics
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.view import After
from harness.spec import experiment, log_window
from harness.spec.job_source import ScaledWindow
from harness.spec.log_window import SHORTEST_S, Window
from workloads.validation import InputError

HOUR_S = 3600


def line(number, submit_s, run_s, size, *, asked_s=-1, user=-1, status=1, follows="-1 -1"):
    end = f"{status} {user} -1 -1 -1 -1 {follows}"
    return f"{number} {submit_s} 0 {run_s} {size} -1 -1 {size} {asked_s} -1 {end}"


def log(folder, lines, processors=128):
    path = folder / "log.swf"
    path.write_text("\n".join([f"; MaxProcs: {processors}", *lines]) + "\n")
    return path


def queue_of(path, *, processors=2, seed=1, **keys):
    window = Window(**{"file": str(path), "hours": 24.0, **keys})
    return log_window.queue(window, Path(), processors, seed)


def experiment_of(path, *, settings=(), quick=False, **log_keys):
    data = {"processors": 2, "schedulers": [{"policy": "fcfs"}], "log": {"file": str(path), **log_keys}}
    return experiment.load(data, settings=settings, quick=quick)


def test_sizes_that_divide_the_machine_stay_in_proportion_under_one_factor_of_time(tmp_path):
    path = log(tmp_path, [line(1, 0, 3600, 2), line(2, 1800, 7200, 4, asked_s=14400)], processors=4)
    groups, scaled = queue_of(path, hours=2.0, minutes=2.0)
    assert [group.program.processes for group in groups] == [1, 2]
    assert [group.program.dedicated_s for group in groups] == pytest.approx([60, 120])
    assert [group.arrival_s for group in groups] == pytest.approx([0, 30])
    assert [group.estimate_s for group in groups] == pytest.approx([60, 240])
    assert scaled.run_factor == pytest.approx(scaled.arrival_factor) == pytest.approx(1 / 60)
    assert scaled.load == pytest.approx((1.25, 1.25))
    assert scaled.tau_s == pytest.approx(10 / 60)


jobs = st.lists(
    st.tuples(st.integers(0, 86_000), st.integers(3600, 40_000), st.integers(1, 128)), min_size=2, max_size=60
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=jobs, processors=st.integers(1, 8), seed=st.integers(0, 9))
def test_whatever_the_sizes_the_load_and_the_order_of_sizes_stay(tmp_path, jobs, processors, seed):
    path = log(tmp_path, [line(n, *job) for n, job in enumerate(sorted(jobs), 1)])
    groups, scaled = queue_of(path, hours=24.0, minutes=20.0, processors=processors, seed=seed)
    work_s = sum(group.program.processes * group.program.dedicated_s for group in groups)
    assert work_s / (processors * 1200) == pytest.approx(
        sum(run * size for _, run, size in jobs) / 128 / 86_400
    )
    assert scaled.load[1] == pytest.approx(scaled.load[0], rel=0.01)  # programs have whole phases
    sizes = [size for *_, size in sorted(jobs)]
    pairs = sorted(zip(sizes, [group.program.processes for group in groups], strict=True))
    for (size, ours), (other, theirs) in pairwise(pairs):
        assert 1 <= ours <= processors
        assert size == other or ours <= theirs


def test_sizes_that_are_no_share_of_the_machine_have_the_logs_shares_of_the_work(tmp_path):
    random = np.random.default_rng(3)
    sizes = random.choice([1, 8, 32, 128], 400, p=[0.4, 0.3, 0.2, 0.1])
    runs_s = random.integers(600, 6000, 400)
    lines = [line(n, 200 * n, run, size) for n, (run, size) in enumerate(zip(runs_s, sizes, strict=True), 1)]
    groups, _ = queue_of(log(tmp_path, lines), minutes=20.0)
    work = Counter()
    for group in groups:
        work[group.program.processes] += group.program.processes * group.program.dedicated_s
    share = (sizes == 128) @ (runs_s * sizes) / (runs_s @ sizes)
    assert work[2] / work.total() == pytest.approx(share, abs=0.02)
    assert 0.2 < share < 0.9  # by the number of jobs it would be a tenth


def test_the_jobs_of_a_user_run_one_program_drawn_by_the_shares(tmp_path):
    lines = [line(n, n, 1000, 1, user=n % 200) for n in range(1, 1001)]
    programs = [{"pattern": "BARRIER", "share": 3}, {"pattern": "NEWS", "granularity_us": 2000, "share": 1}]
    groups, scaled = queue_of(log(tmp_path, lines, processors=1), programs=programs, minutes=200.0)
    of_users = {group.submitter.user: group.program.pattern for group in groups}
    assert all(of_users[group.submitter.user] == group.program.pattern for group in groups)
    assert len(of_users) == 200
    assert statistics.fmean(pattern == "NEWS" for pattern in of_users.values()) == pytest.approx(
        0.25, abs=0.1
    )
    assert "users missing, so that each job has a program of its own" not in scaled.assumed


def test_short_jobs_are_lengthened_and_what_the_log_lacks_is_counted(tmp_path):
    path = log(tmp_path, [line(1, 0, 1, 128), line(2, 3600, 80_000, 128)])
    groups, scaled = queue_of(path, minutes=1.0)
    assert groups[0].program.dedicated_s == SHORTEST_S
    assert scaled.load[1] > scaled.load[0]
    assert sorted(scaled.assumed.values()) == [1, 2, 2]


def test_drawn_estimates_replace_those_of_the_log(tmp_path):
    lines = [line(n, n * 60, 5000, 60, asked_s=5000) for n in range(1, 401)]
    lines += [line(n, 10 * HOUR_S, 5000, 128) for n in range(401, 601)]  # after the window
    path = log(tmp_path, lines)
    (drawn, told), (again, same), (other, _) = (
        queue_of(path, estimates="times 2 to 4", hours=7.0, minutes=5.0, seed=seed) for seed in (1, 1, 2)
    )
    factors = np.array([group.estimate_s / group.program.dedicated_s for group in drawn])
    assert (factors.min() >= 2, factors.max() <= 4, factors.mean()) == (True, True, pytest.approx(3, abs=0.1))
    assert told.assumed["estimates drawn: times 2 to 4 of the run time"] == 400
    assert told.content == same.content != queue_of(path, hours=7.0, minutes=5.0)[1].content
    estimates = [[group.estimate_s for group in groups] for groups in (drawn, again, other)]
    assert estimates[0] == estimates[1] != estimates[2]
    # Among equal jobs chance decides which is larger, and not the same numbers as of the estimates.
    sizes = np.array([group.program.processes for group in drawn])
    assert factors[sizes == 1].mean() == pytest.approx(factors[sizes == 2].mean(), abs=0.2)


def test_a_window_begins_and_ends_where_it_says(tmp_path):
    path = log(tmp_path, [line(n, n * HOUR_S, 3600, 128) for n in range(48)])
    assert queue_of(path, from_hours=24.0, hours=6.0)[1].numbers == tuple(range(24, 30))
    assert queue_of(path, from_hours=10.5, hours=None, jobs=3)[1].numbers == (11, 12, 13)


def test_a_window_may_begin_with_a_job_at_hours_that_are_no_binary_fraction(tmp_path):
    path = log(tmp_path, [line(1, 0, 3600, 128), line(2, 1980, 3600, 128), line(3, 2000, 3600, 128)])
    assert 0.55 * HOUR_S > 1980
    groups, scaled = queue_of(path, from_hours=0.55)
    assert scaled.numbers == (2, 3)
    assert groups[0].arrival_s == 0


def test_what_is_left_out_is_counted_in_the_window(tmp_path):
    lines = [line(n, n * HOUR_S, 0 if n % 2 else 3600, 128, status=5 if n % 2 else 1) for n in range(48)]
    lines += [line(48, -1, 3600, 128)]
    path = log(tmp_path, lines)
    of_time = {"no time of submission": 1}  # it may have been there
    assert queue_of(path, from_hours=4.0, hours=6.0)[1].skipped == {"never ran": 3} | of_time
    assert queue_of(path, from_hours=4.0, hours=None, jobs=3)[1].skipped == {"never ran": 2} | of_time


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"hours": 2, "jobs": 5}, "log.jobs"),
        ({}, "log.jobs"),
        ({"hours": 2, "from": 100}, "log.from"),
        ({"hours": 2, "from": -1}, "log.from"),
        ({"jobs": 60}, "log.jobs"),
        ({"jobs": 5, "from": 47}, "log.from"),
        ({"hours": 2, "machine": 64}, "log.machine"),
        ({"hours": 2, "form": 1}, "log.form"),
        ({"hours": 2, "estimates": "times 3 to 2"}, "log.estimates"),
        ({"hours": 2, "scheduler": "easy"}, "log.scheduler"),
        ({"hours": 2, "scheduler": {"policy": "eazy"}}, "log.scheduler.policy"),
        ({"hours": 2, "programs": []}, "log.programs"),
        ({"hours": 2, "programs": [{"pattern": "RING"}]}, "log.programs[0].pattern"),
        ({"hours": 2, "programs": [{"processes": 2}]}, "log.programs[0].processes"),
        ({"hours": 2, "programs": [{"share": 0}]}, "log.programs[0].share"),
    ],
)
def test_windows_that_hold_no_queue_are_refused_by_their_key(tmp_path, keys, place):
    path = log(tmp_path, [line(n, n * HOUR_S, 3600, 128) for n in range(48)])
    with pytest.raises(InputError) as caught:
        experiment_of(path, **keys)
    assert caught.value.key == place


def test_a_log_is_read_beside_its_experiment_or_where_the_command_runs(tmp_path, monkeypatch):
    log(tmp_path, [line(1, 0, 3600, 128), line(2, 3600, 3600, 128)])
    written = tmp_path / "mine.toml"
    written.write_text('[log]\nfile = "log.swf"\nhours = 2\n[[schedulers]]\npolicy = "fcfs"\n')
    assert len(experiment.load(str(written)).cells[0].jobs()) == 2
    written.write_text('[log]\nfile = "none.swf"\nhours = 2\n[[schedulers]]\npolicy = "fcfs"\n')
    monkeypatch.chdir(tmp_path)
    assert len(experiment.load(str(written), log="log.swf").cells[0].jobs()) == 2
    with pytest.raises(InputError, match="cannot be read") as caught:
        experiment.load(str(written))
    assert caught.value.key == "log.file"


def test_factors_of_time_can_be_swept_and_quick_shortens_them(tmp_path):
    path = log(tmp_path, [line(n, n * HOUR_S, 3600, 128) for n in range(48)])
    swept = experiment_of(path, hours=24, settings=["sweep.log.minutes=[5, 10]"])
    assert [cell.log.span_s[1] for cell in swept.cells] == [300, 600]
    assert len({str(cell.identity) for cell in swept.cells}) == 2
    assert experiment_of(path, hours=24, quick=True).cells[0].log.span_s[1] == 300
    assert experiment_of(path, hours=24).repeats == 1


def test_jobs_follow_others_of_the_window_after_think_times_that_are_scaled_as_arrivals(tmp_path):
    lines = [
        *(line(1, 0, 600, 1), line(2, 3600, 600, 128), line(3, 4000, 600, 64, follows="2 60")),
        *(line(4, 5000, 600, 64, follows="3 -1"), line(5, 6000, 600, 64, follows="1 30")),
    ]
    groups, scaled = queue_of(log(tmp_path, lines), **{"from_hours": 1.0, "hours": 1.0, "minutes": 6.0})
    assert scaled.numbers == (2, 3, 4, 5)
    assert [group.after for group in groups] == [None, After(0, 6_000_000_000), After(1, -1), None]
    assert sum(scaled.assumed[reason] for reason in scaled.assumed if "preceding" in reason) == 1
    assert ScaledWindow.of_table(json.loads(json.dumps(scaled.table))).following == (
        [1, 0, 6_000_000_000, pytest.approx(40.0)],
        [2, 1, -1, pytest.approx(140.0)],
    )


def test_jobs_of_a_window_that_follow_each_other_in_a_circle_are_refused(tmp_path):
    path = log(tmp_path, [line(1, 0, 600, 1, follows="2 -1"), line(2, 60, 600, 1, follows="1 5")])
    with pytest.raises(InputError, match="job 1 follows itself") as error:
        queue_of(path)
    assert error.value.key == "log.file"
