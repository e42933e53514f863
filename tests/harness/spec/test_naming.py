"""Schedulers, workloads and swept keys in words: short, and never the same for different things."""

import json

import pytest

from harness.report.grid import LETTER, wrap
from harness.spec.experiment import load
from harness.spec.jobs import rebuilt
from harness.spec.naming import policy_name, scheduler_name, setting_names, workload_name
from harness.spec.scheduler import scheduler_of

BARRIER = {"pattern": "BARRIER", "processes": 2, "granularity_us": 100, "imbalance": 0.5, "phases": 1}
NEWS = BARRIER | {"pattern": "NEWS"}


@pytest.mark.parametrize("name", ["policies", "policies-alike", "validation"])
def test_no_two_schedulers_of_an_experiment_have_the_same_name(name):
    names = [scheduler_name(scheduler.table) for scheduler in load(name).schedulers]
    assert len(set(names)) == len(names)


def test_a_scheduler_is_the_same_read_back_from_a_record():
    table = scheduler_of({"policy": "multilevel-two-queue", "quanta_ms": [20, 60, 100]}).table
    assert json.loads(json.dumps(table)) == table
    assert scheduler_of(table).table == table


def test_options_that_an_older_record_lacks_are_those_of_its_time():
    assert policy_name({"policy": "gang", "quantum_ms": 5, "local": "other"}) == "gang 5 ms"
    assert policy_name({"policy": "of-another-time", "local": "other", "extra": 1}) == "of-another-time"


@pytest.mark.parametrize(
    "text, lines",
    [
        ("TRANSPOSE, g = 100 us, v = 0.25 g", ["TRANSPOSE,", "g = 100 us,", "v = 0.25 g"]),
        ("a name of many words but without commas", ["a name of many", "words but", "without commas"]),
    ],
)
def test_titles_break_after_commas_where_they_can(text, lines):
    assert wrap(text, 15 * LETTER, max_lines=4) == lines


def test_different_jobs_are_all_named():
    def named(*programs):
        return workload_name([*map(rebuilt, programs)])

    assert named(NEWS, NEWS) == "NEWS, 2 processes, g = 100 us, v = 0.5 g"
    command = {"argv": ["/usr/bin/lmp", "-in", "x"], "processes": 2}
    assert named(NEWS, BARRIER, NEWS, command) == "2 x NEWS + BARRIER + lmp"
    two = [{"work_s": 1.0}, {"burst_ms": 1, "think_ms": 1, "bursts": 1}]
    assert named(*two) == "sequential + interactive"


def test_swept_keys_have_short_headings_that_differ():
    keys = ("program.imbalance", "jobs.0.count", "jobs[1].count", "processors")
    assert list(setting_names(keys).values()) == ["imbalance", "jobs.0.count", "jobs[1].count", "processors"]
