"""Experiments that are rebuilt from their records."""

import pytest
from fake_runs import measured

from harness.predict import process_level
from harness.spec import experiment
from harness.store.rebuild import experiment_of
from harness.store.records import POLICY

PROGRAM = {"pattern": "BARRIER", "processes": 1, "dedicated_s": 0.05}
FILE = {
    "processors": 2,
    "repeats": 2,
    "jobs": [{"program": PROGRAM, "estimate_s": 3.5}, {"program": {**PROGRAM, "processes": 2}}],
    "schedulers": [{"policy": "easy"}],
}


def estimates_s(records):
    (cell,) = experiment_of(records).cells
    return [group.estimate_s for group in cell.groups]


def test_the_estimates_of_users_come_back_and_those_of_earlier_runs_do_not(tmp_path):
    records = measured(experiment.load(FILE), tmp_path)
    *_, last = (record for record in records if record.kind == POLICY)
    assert [job.execution_time is not None for job in last.jobs] == [True, True]
    assert estimates_s(records) == [pytest.approx(3.5), None]


@pytest.mark.slow
def test_simulated_runs_have_the_estimates_too():
    records = process_level.predict(experiment.load(FILE), None, lambda *_: None)
    assert estimates_s(records) == [pytest.approx(3.5), None]
