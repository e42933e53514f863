"""Runs of a part of a job log: its rows, and what the commands say of them."""

import dataclasses
import json

import pytest
import short_queue
from fake_runs import TOOLS, command_on_made_up_runs, imitate
from short_queue import LOG, RUN_S

from coordinator.view import After
from harness import application
from harness.predict.job_level import SimulatedByJob
from harness.simulator.jobs.kept_outcome import known
from harness.spec import experiment
from harness.store.database import Store
from harness.store.rebuild import experiment_of
from workloads.validation import InputError

ARRIVAL_S = [0.0, 0.1, 0.1333, 0.1667]


@pytest.fixture
def lockstep(tmp_path, monkeypatch, capsys):
    short_queue.write(tmp_path, "fcfs", "none")
    short_queue.write(tmp_path, "fcfs", "none", repeats=3, name="twice.toml")
    return command_on_made_up_runs(monkeypatch, tmp_path, capsys)


def metrics(row, side):
    return row[side]["schedule"]["metrics"]


def test_a_run_has_means_over_its_jobs_beside_those_of_both_simulators(lockstep):
    status, out, _ = lockstep("run", "queue.toml", "--json")
    document = json.loads(out)
    fcfs, none = document["rows"]
    assert (status, document["log"]["numbers"], fcfs["count"]) == (0, [1, 2, 3, 4], 4)
    # The made-up runs take the sum of all run times, from each arrival on, and start 2 ms after it.
    assert metrics(fcfs, "measured")["response_s"] == pytest.approx(sum(RUN_S), rel=0.01)
    assert metrics(fcfs, "measured")["wait_s"] == pytest.approx(0.002)
    slowdowns = [sum(RUN_S) / run for run in RUN_S]
    assert metrics(fcfs, "measured")["bounded_slowdown"] == pytest.approx(sum(slowdowns) / 4, rel=0.01)
    assert fcfs["error"] == pytest.approx(
        metrics(fcfs, "simulated")["bounded_slowdown"] / metrics(fcfs, "measured")["bounded_slowdown"] - 1
    )
    assert metrics(fcfs, "by_job")["response_s"] == pytest.approx((0.4 + 1.1 + 1.3667 + 1.5333) / 4, rel=0.01)
    assert "by_job" not in none  # the local scheduler decides there, and has processes


FOLLOWING = LOG.replace("1 1 1 -1 1 -1 -1 -1\n4", "1 1 1 -1 1 -1 1 60\n4").replace(
    "3 1 -1 1 -1 -1 -1", "3 1 -1 1 -1 3 -1"
)
"""Job 3 follows job 1 after a minute, which is 0.02 s here, and job 4 follows job 3."""


def test_jobs_that_follow_others_arrive_after_them_at_both_levels(lockstep, tmp_path):
    (tmp_path / "queue.swf").write_text(FOLLOWING)
    by_job = ["--by", "job", "--policy", "fcfs", "-o", "jobs"]
    assert lockstep("simulate", "queue.toml", *by_job)[0] == 0
    assert lockstep("simulate", "queue.toml", "--policy", "fcfs", "-o", "processes")[0] == 0
    for place, slack in (("jobs", 2e-3), ("processes", 0.05)):
        with Store(tmp_path / place, existing=True) as store:
            ((digest, _),) = store.experiments()
            (record,) = store.runs(digest)
        outcome, numbers = known(record.schedule.outcome, 2)
        assert numbers.tolist() == [1, 2, 3, 4]
        arrivals, ends = outcome.jobs.submit_ns / 1e9, outcome.finish_ns / 1e9
        # Jobs 1 and 2 have both processors one after the other; job 3 waits for job 2, and job 4 comes last.
        assert arrivals == pytest.approx([0.0, 0.1, ends[0] + 0.02, ends[2]], abs=1e-6)
        assert ends == pytest.approx([0.4, 1.2, 1.5, 1.7], rel=slack)
        assert record.schedule.source["window"]["following"] == [
            [2, 0, 20_000_000, 400 / 3000],
            [3, 2, -1, 0.5 / 3],
        ]


def test_runs_that_are_found_again_have_jobs_that_follow_others(lockstep, tmp_path):
    (tmp_path / "queue.swf").write_text(FOLLOWING)
    lockstep("run", "queue.toml", "--policy", "fcfs", "--no-simulate")
    asked = experiment.load("queue.toml").cells[0].jobs()
    with Store(tmp_path / "lockstep-results", existing=True) as store:
        ((digest, _),) = store.experiments()
        found = experiment_of(store.runs(digest)).cells[0].jobs()
    assert (
        [job.after for job in found]
        == [job.after for job in asked]
        == [None, None, After(0, 20_000_000), After(2)]
    )
    assert [job.arrival_s for job in found] == pytest.approx([job.arrival_s for job in asked])


def test_repeats_of_a_log_have_intervals_and_the_schedule_of_the_median_one(lockstep):
    _, out, _ = lockstep("run", "twice.toml", "--json")
    fcfs, _ = json.loads(out)["rows"]
    slowdown = fcfs["measured"]["workload_slowdown"]
    assert slowdown["n"] == 3
    assert slowdown["ci95"][0] < slowdown["median"] < slowdown["ci95"][1]
    assert metrics(fcfs, "measured")["bounded_slowdown"] == pytest.approx(slowdown["median"])


def test_resume_makes_no_run_twice_and_reports_tell_what_became_of_the_log(lockstep, tmp_path):
    lockstep("run", "queue.toml")
    _, out, said = lockstep("run", "queue.toml", "--resume")
    assert "0 runs recorded" in said
    assert "30 min 0 s of 16 processors in 1 s on 2" in out
    for name in ("page.html", "table.md", "values.csv"):
        assert lockstep("report", "lockstep-results", "-o", name)[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert "2 before, " in page
    assert "simulated job by job" in page
    header, fcfs, _ = (tmp_path / "values.csv").read_text().splitlines()
    values = dict(zip(header.split(","), fcfs.split(","), strict=True))
    assert float(values["measured_wait_s"]) == pytest.approx(0.002)
    assert lockstep("compare", "lockstep-results")[0] == 0


@pytest.fixture
def third_fails(lockstep, monkeypatch):
    """The command; job 2 fails in each run of the log, and the whole of some runs breaks off."""

    def run_workload(workload, progress, history=None):
        result = imitate(workload)
        jobs = list(result.jobs)
        jobs[2] = dataclasses.replace(jobs[2], finish_ns=None, failure="exited with status 3\nlast words")
        broken = "timed out" if type(workload.policy).__name__ == "Uncoordinated" else ""
        return dataclasses.replace(result, jobs=tuple(jobs), failure=broken or "job 2: exited", broken=broken)

    tools = dataclasses.replace(TOOLS, run_workload=run_workload)
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: tools)
    return lockstep


def test_a_job_that_fails_is_told_and_counts_in_no_mean_and_the_run_counts(third_fails):
    status, out, said = third_fails("run", "queue.toml", "--policy", "fcfs", "--no-simulate", "--json")
    document = json.loads(out)
    (fcfs,) = document["rows"]
    slowdowns = [sum(RUN_S) / run for number, run in enumerate(RUN_S) if number != 2]
    assert metrics(fcfs, "measured")["bounded_slowdown"] == pytest.approx(sum(slowdowns) / 3, rel=0.01)
    assert fcfs["measured"]["failures"] == 0
    assert (status, len(document["failures"])) == (1, 1)
    assert (
        "1 of 4 jobs failed, and count in no mean; job 3 of the log: exited with status 3"
        in document["failures"][0]
    )
    assert "1 of 4 jobs failed" in said
    status, _, said = third_fails("run", "queue.toml", "--policy", "fcfs", "--no-simulate", "--resume")
    assert (status, "0 runs recorded" in said) == (0, True)
    assert third_fails("report", "lockstep-results", "-o", "page.html")[0] == 0


def test_a_run_of_a_log_that_breaks_off_has_no_means(third_fails):
    status, out, _ = third_fails("run", "queue.toml", "--policy", "none", "--no-simulate", "--json")
    (none,) = json.loads(out)["rows"]
    assert status == 1
    assert none["measured"]["workload_slowdown"]["n"] == 0


SITE = ("--set", "log.scheduler.policy=easy")


def test_recorded_waits_beside_simulated_ones_come_first(lockstep, tmp_path):
    _, out, _ = lockstep("log", "queue.swf", "--policy", "easy", "--json")
    compared = json.loads(out)["recorded_waits"]
    first = "Your queue as it was, easy on 16 processors: simulated wait"
    for command in (["run", "--no-simulate"], ["simulate"], ["simulate", "--by", "job"]):
        asked = [*command, "queue.toml", "--policy", "fcfs", *SITE]
        status, out, _ = lockstep(*asked)
        assert (status, out.startswith(first)) == (0, True)
        _, out, _ = lockstep(*asked, "--json")
        assert json.loads(out)["log"]["recorded_waits"] == compared
    assert lockstep("report", "lockstep-results", "-o", "page.html")[0] == 0
    assert first in " ".join((tmp_path / "page.html").read_text().split())


def test_the_scheduler_of_the_site_can_be_named_when_all_runs_are_made(lockstep, tmp_path):
    asked = ["run", "queue.toml", "--policy", "fcfs", "--no-simulate"]
    assert "Your queue" not in lockstep(*asked)[1]
    for _ in range(2):
        _, out, said = lockstep(*asked, *SITE, "--resume")
        assert "0 runs recorded" in said
        assert out.startswith("Your queue as it was, easy")
        _, out, _ = lockstep("report", "lockstep-results", "--format", "text")
        assert out.startswith("Your queue as it was, easy")
    with Store(tmp_path / "lockstep-results", existing=True) as store:
        ((digest, _),) = store.experiments()
        assert len(store.runs(digest)) == 2, "the run, and once more with the comparison"


@pytest.mark.parametrize("by", ["process", "job"])
def test_the_scheduler_of_the_site_can_be_named_when_all_simulations_are_made(lockstep, by):
    asked = ["simulate", "queue.toml", "--policy", "fcfs", "--by", by, "-o", "out"]
    lockstep(*asked)
    assert "0 simulated runs recorded" in lockstep(*asked, *SITE, "--resume")[2]
    assert lockstep("report", "out", "--format", "text")[1].startswith("Your queue as it was, easy")


PROGRAMS = """processors = 1
[[jobs]]
count = 2
program = { pattern = "BARRIER", processes = 1, granularity_us = 1000, phases = 100 }
[[schedulers]]
policy = "fcfs"
"""


def test_programs_have_one_bound_of_slowdowns_at_all_levels(lockstep, tmp_path):
    """Two jobs of 0.1 s, one after the other: slowdowns of 1 and 2. A bound of 1 s leaves 1."""
    (tmp_path / "programs.toml").write_text(PROGRAMS)
    for words, mean in (
        ((), 1.0),
        (("--slowdown-bound", "0.01"), 1.5),
        (("--slowdown-bound", "0.16"), 1.125),
    ):
        _, out, _ = lockstep("simulate", "programs.toml", "--by", "process", "--json", *words)
        (row,) = json.loads(out)["rows"]
        assert row["simulated"]["slowdown"]["bounded_mean"] == pytest.approx(mean, rel=0.02)
        _, out, _ = lockstep("simulate", "programs.toml", "--by", "job", "--json", *words)
        (row,) = json.loads(out)["rows"]
        assert row["metrics"]["bounded_slowdown"] == pytest.approx(mean, rel=0.02)


def test_estimates_are_drawn_and_told(lockstep):
    drawn = ("--set", 'log.estimates="times 1 to 5"')
    _, out, _ = lockstep("simulate", "queue.toml", "--by", "job", "--policy", "easy", *drawn)
    assert "assumed: 4 estimates drawn: times 1 to 5 of the run time" in out


@pytest.mark.parametrize(
    "command",
    [
        ["run", "queue.toml"],
        ["simulate", "queue.toml"],
        ["simulate", "log", "--log", "queue.swf"],
    ],
)
def test_a_bound_of_slowdowns_that_would_change_none_is_refused(lockstep, command):
    status, out, said = lockstep(*command, "--slowdown-bound", "5")
    assert (status, out) == (2, "")
    assert "--slowdown-bound = 5" in said


def test_a_file_serves_all_levels_with_the_same_jobs(lockstep):
    rows = {}
    for by in ("process", "job"):
        status, out, _ = lockstep("simulate", "queue.toml", "--policy", "fcfs", "--by", by, "--json")
        (rows[by],) = json.loads(out)["rows"]
        assert status == 0
    for name in ("response_s", "wait_s", "bounded_slowdown"):
        by_process, by_job = (metrics(rows[by], "simulated")[name] for by in rows)
        assert by_process == pytest.approx(by_job, rel=0.03)


def test_simulations_by_job_are_kept_and_read_again(lockstep):
    assert lockstep("simulate", "queue.toml", "--policy", "fcfs", "--by", "job", "-o", "kept")[0] == 0
    assert lockstep("report", "kept", "-o", "page.html")[0] == 0
    again, _, said = lockstep(
        "simulate", "queue.toml", "--policy", "fcfs", "--by", "job", "-o", "kept", "--resume"
    )
    assert (again, "0 simulated runs recorded" in said) == (0, True)


def test_policies_that_the_job_level_does_not_know_are_refused_there(lockstep):
    status, out, said = lockstep("simulate", "queue.toml", "--by", "job")
    assert (status, out) == (2, "")
    assert "schedulers[1].policy" in said
    status, _, said = lockstep("simulate", "log", "--by", "process", "--log", "queue.swf")
    assert status == 2
    assert "--by" in said


def test_programs_are_simulated_by_job_and_commands_are_refused():
    jobs = [
        {"arrival_s": 0.5 * n, "program": {"pattern": "NEWS", "processes": 2, "dedicated_s": 1.0}}
        for n in range(3)
    ]
    data = {"processors": 2, "jobs": jobs, "schedulers": [{"policy": "fcfs"}]}
    back_end = SimulatedByJob.of_processes(experiment.load(data))
    (task,) = back_end.tasks
    assert back_end.run(task).schedule.metrics["response_s"] == pytest.approx(1.5, rel=0.01)
    data["jobs"] = [{"command": ["mpiexec", "-n", "2", "true"]}]
    with pytest.raises(InputError, match="job 0"):
        SimulatedByJob.of_processes(experiment.load(data))


def test_the_estimates_of_users_reach_the_policy():
    program = {"pattern": "BARRIER", "processes": 1, "dedicated_s": 1.0}
    both = {**program, "processes": 2}
    jobs = [{"program": program}, {"program": both}, {"program": {**program, "dedicated_s": 0.5}}]

    def starts_last(asked_s):
        asked = [
            {**job, "estimate_s": seconds} for job, seconds in zip(jobs, (1.0, 1.0, asked_s), strict=True)
        ]
        data = {"processors": 2, "jobs": asked, "schedulers": [{"policy": "easy"}]}
        back_end = SimulatedByJob.of_processes(experiment.load(data))
        return back_end.run(back_end.tasks[0]).schedule.metrics["wait_s"]

    assert starts_last(0.6) == pytest.approx(1.0 / 3, rel=0.01)  # it is backfilled, and two jobs do not wait
    assert starts_last(1.5) == pytest.approx((1.0 + 2.0) / 3, rel=0.01)
