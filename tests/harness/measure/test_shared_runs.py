"""Runs that a store has already: of programs alone, by another experiment, and of the same experiment."""

import fake_runs
import pytest

from harness import application
from harness.application import RunOptions
from harness.measure import plan
from harness.spec.experiment import load
from harness.store import database


def test_a_run_taken_from_another_experiment_is_counted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: fake_runs.TOOLS)
    three, two = (load("three-jobs", settings=[f"jobs.0.count={n}", "repeats=1"]) for n in (3, 2))
    other = application.run(three, tmp_path, fake_runs.Quiet(), RunOptions(simulate=False))
    options = RunOptions(simulate=False, resume=True, known=other.made)
    ran = application.run(two, tmp_path, fake_runs.Quiet(), options)
    keys = [plan.key_of(record) for record in (*ran.resumed, *ran.made)]
    assert len(keys) == len(set(keys)) > len(ran.results.rows) and ran.earlier == 0


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_of_the_store_is_read_once_if_it_is_extended_and_else_never(tmp_path, monkeypatch, resume):
    """A series of many invocations would read each of its runs in each of them."""
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: fake_runs.TOOLS)
    wanted = load("three-jobs", settings=["repeats=2", "schedulers=[{policy='gang'}]"])
    for _ in range(2):
        application.run(wanted, tmp_path, fake_runs.Quiet(), RunOptions(simulate=False))
    read = []
    run_record = database.run_record

    def reading(connection, number):
        read.append(number)
        return run_record(connection, number)

    monkeypatch.setattr(database, "run_record", reading)
    ran = application.run(wanted, tmp_path, fake_runs.Quiet(), RunOptions(simulate=False, resume=resume))
    assert len(read) == len(set(read)) == (ran.earlier if resume else 0)
    assert ran.earlier == 2 * len(plan.plan(wanted))
