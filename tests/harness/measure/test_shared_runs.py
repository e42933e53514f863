"""Runs of programs alone that another experiment has measured."""

import fake_runs

from harness import application
from harness.application import RunOptions
from harness.measure import plan
from harness.spec.experiment import load


def test_a_run_taken_from_another_experiment_is_counted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: fake_runs.TOOLS)
    three, two = (load("three-jobs", settings=[f"jobs.0.count={n}", "repeats=1"]) for n in (3, 2))
    other = application.run(three, tmp_path, fake_runs.Quiet(), RunOptions(simulate=False))
    options = RunOptions(simulate=False, resume=True, known=other.made)
    ran = application.run(two, tmp_path, fake_runs.Quiet(), options)
    keys = [plan.key_of(record) for record in (*ran.resumed, *ran.made)]
    assert len(keys) == len(set(keys)) > len(ran.results.rows) and ran.earlier == 0
