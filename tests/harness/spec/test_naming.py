"""Schedulers, workloads and swept keys in words: short, and never the same for different things."""

import json

import pytest

from harness.report.grid import LETTER, wrap
from harness.spec.experiment import load
from harness.spec.naming import policy_name, scheduler_name, setting_names, workload_name
from harness.spec.scheduler import scheduler_of

BARRIER = {"pattern": "BARRIER", "processes": 2, "granularity_us": 100, "imbalance": 0.5, "phases": 1}
NEWS = BARRIER | {"pattern": "NEWS"}


@pytest.mark.parametrize("name", ["policies", "policies-alike", "validation", "slurm-gang"])
def test_no_two_schedulers_of_an_experiment_have_the_same_name(name):
    names = [scheduler_name(scheduler.table) for scheduler in load(name).schedulers]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ({"policy": "gang"}, "gang 100 ms"),
        ({"policy": "gang", "packing": "buddy", "unify": True}, "gang 100 ms, buddy, unify"),
        ({"policy": "gang", "share": "sequential"}, "gang 100 ms, share sequential"),
        ({"policy": "multilevel-two-queue", "limits": [2]}, "multilevel-two-queue 100/300/500 ms, limits 2"),
        ({"policy": "modified-two-queue", "long_quantum_ms": 60}, "modified-two-queue 100 ms, long 60 ms"),
        ({"policy": "slurm-gang", "retry": False}, "slurm-gang 30 s, no retry"),
        ({"policy": "none", "bind": False, "local": "rr"}, "none, rr, unbound"),
        ({"policy": "none", "bind": "job"}, "none, bound to job"),
        ({"policy": "none", "quota_processors": 1.5}, "none, quota 1.5"),
        ({"policy": "none", "quota_processors": 2, "quota_period_ms": 20}, "none, quota 2 every 20 ms"),
        ({"policy": "multilevel-two-queue", "quanta_ms": [60_000, 90_000]}, "multilevel-two-queue 60/90 s"),
    ],
)
def test_a_policy_is_named_with_its_quanta_and_what_is_not_its_default(table, name):
    assert policy_name(scheduler_of(table).table) == name


def test_a_scheduler_is_the_same_read_back_from_a_record():
    table = scheduler_of({"policy": "multilevel-two-queue", "quanta_ms": [20, 60, 100]}).table
    assert json.loads(json.dumps(table)) == table
    assert scheduler_of(table).table == table


def test_options_that_an_older_record_lacks_are_those_of_its_time():
    assert policy_name({"policy": "gang", "quantum_ms": 5, "local": "other"}) == "gang 5 ms"
    assert policy_name({"policy": "of-another-time", "local": "other", "extra": 1}) == "of-another-time"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("TRANSPOSE, g = 100 us, v = 0.25 g", ["TRANSPOSE,", "g = 100 us,", "v = 0.25 g"]),
        ("a name of many words but without commas", ["a name of many", "words but", "without commas"]),
    ],
)
def test_titles_break_after_commas_where_they_can(text, lines):
    assert wrap(text, 15 * LETTER, most_lines=4) == lines


def test_different_jobs_are_all_named():
    assert workload_name([NEWS, NEWS]) == "NEWS, 2 processes, g = 100 us, v = 0.5 g"
    command = {"argv": ["/usr/bin/lmp", "-in", "x"], "processes": 2}
    assert workload_name([NEWS, BARRIER, NEWS, command]) == "2 x NEWS + BARRIER + lmp"
    two = [{"work_s": 1.0}, {"burst_ms": 1, "think_ms": 1, "bursts": 1}]
    assert workload_name(two) == "sequential + interactive"


def test_swept_keys_have_short_headings_that_differ():
    keys = ("program.imbalance", "jobs.0.count", "jobs[1].count", "processors")
    assert list(setting_names(keys).values()) == ["imbalance", "jobs.0.count", "jobs[1].count", "processors"]
