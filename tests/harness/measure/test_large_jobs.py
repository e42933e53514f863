"""Jobs that are larger than the machine: their dedicated times, spinning and with two-phase waits."""

import dataclasses

import pytest
from fake_runs import measured
from golden import printed

from harness.analyse import results_document
from harness.measure.plan import plan
from harness.report import text
from harness.spec.experiment import load
from harness.store.rebuild import experiment_of
from workloads.validation import InputError

EXPERIMENT = """
processors = 2
repeats = 2
{key}
[[jobs]]
count = 2
program = {{ pattern = "BARRIER", processes = 4, granularity_us = 1000, dedicated_s = 0.5 }}
[[jobs]]
program = {{ pattern = "BARRIER", processes = 2, granularity_us = 1000, dedicated_s = 0.5 }}
[[schedulers]]
policy = "none"
[[schedulers]]
policy = "implicit"
"""

COMMAND = """
processors = 2
dedicated = "two-phase"
[[jobs]]
command = ["{launcher}", "-n", "4", "./app"]
[[schedulers]]
policy = "implicit"
"""


@pytest.fixture
def asked(tmp_path):
    """The experiment, with or without the key."""

    def make(key='dedicated = "two-phase"'):
        (tmp_path / "large.toml").write_text(EXPERIMENT.format(key=key))
        return load(str(tmp_path / "large.toml"))

    return make


@pytest.fixture
def runs(asked, tmp_path):
    """The experiment with the key, and its runs."""
    return asked(), measured(asked(), tmp_path / "results")


def alone(experiment):
    tasks = [task for task in plan(experiment) if task.kind == "dedicated" and task.repeat == 0]
    pairs = ((task.jobs[0].number, task.scheduler) for task in tasks)
    return sorted((number, one.name, one.options.waiting) for number, one in pairs)


def test_only_jobs_that_are_too_large_run_alone_in_both_ways(asked):
    spinning = [(0, "none", "spin"), (2, "batch", "spin")]
    assert alone(asked("")) == spinning
    assert alone(asked()) == sorted([*spinning, (0, "implicit", "global-adaptive")])


def test_the_digest_knows_the_key_and_is_as_before_without_it(asked):
    assert asked("").digest == asked('dedicated = "spinning"').digest != asked().digest


def test_slowdowns_go_by_two_phase_times_and_those_by_spinning_are_shown_as_well(runs):
    experiment, records = runs
    results = results_document.results(experiment, records, 1.0)
    none, implicit = (row["measured"] for row in results.document()["rows"])
    # The imitation: 1.1 times as long under implicit, 2.8 under none; large jobs that spin, 10 times more.
    assert none["dedicated_s"] == pytest.approx((2 * 1.1 + 1) * 0.5, rel=0.02)
    assert none["against_spinning"]["dedicated_s"] == pytest.approx((2 * 10 * 2.8 + 1) * 0.5, rel=0.02)
    for side in (none, implicit):
        other = side["against_spinning"]
        ratio = side["workload_slowdown"]["median"] / other["workload_slowdown"]["median"]
        assert ratio == pytest.approx(other["dedicated_s"] / side["dedicated_s"], rel=0.01)
        assert other["workload_slowdown"]["n"] == 2
    shown = printed(text.render(results), 150)
    assert "alone, one after the other: 1.61 s, spinning: 28." in shown and "against" in shown


def test_two_phase_times_that_are_missing_are_not_replaced_by_others(runs):
    experiment, records = runs
    failed = [
        dataclasses.replace(record, failure="why")
        if record.kind == "dedicated" and record.scheduler["policy"] == "implicit"
        else record
        for record in records
    ]
    results = results_document.results(experiment, failed, 1.0)
    assert [row.measured.workload_slowdown.n for row in results.rows] == [0, 0]


def test_an_experiment_rebuilt_from_records_has_the_key(runs):
    experiment, records = runs
    assert experiment_of(records).dedicated == experiment.dedicated == "two-phase"
    spinning = [record for record in records if record.scheduler["policy"] != "implicit"]
    assert experiment_of(spinning).dedicated == "spinning"


def test_without_the_key_there_is_nothing_of_it_in_the_results(asked, tmp_path):
    records = measured(asked(""), tmp_path / "results")
    results = results_document.results(asked(""), records, 1.0)
    assert not any("against_spinning" in row["measured"] for row in results.document()["rows"])


def test_commands_that_wait_as_their_mpi_does_and_other_values_are_refused(tmp_path, asked):
    (tmp_path / "command.toml").write_text(COMMAND)
    with pytest.raises(InputError, match=r"dedicated.*jobs\[0\] has 4 processes.*waits = \"two-phase\""):
        load(str(tmp_path / "command.toml"))
    assert load(str(tmp_path / "command.toml"), settings=["jobs.0.waits=two-phase"]).dedicated == "two-phase"
    assert load(str(tmp_path / "command.toml"), settings=["processors=4"]).processors == 4
    with pytest.raises(InputError, match="must be one of spinning, two-phase"):
        asked('dedicated = "fair"')
