"""Two experiments at once on the same processors and in the same store, with real ranks."""

import subprocess
import sys
from collections import Counter

import pytest
from lives import EXPERIMENT
from places import SUPPORT
from runs import needs_two

from harness.measure import plan
from harness.spec.experiment import load
from harness.store.database import Store

pytestmark = [pytest.mark.slow, needs_two]


def both(folder, *options):
    """Run two experiments at once into one store; returns what each prints, and its experiment."""
    begun = []
    for number in (1, 2):
        file = folder / f"{number}.toml"
        file.write_text(EXPERIMENT.replace("repeats = 1", f"repeats = 2\nseed = {number}"))
        lockstep = [sys.executable, "-P", SUPPORT / "among_others.py"]
        words = [*lockstep, "run", str(file), "--no-simulate", *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        begun.append((subprocess.Popen(words, cwd=folder, **pipes), load(str(file))))
    said = [(process.communicate(timeout=120)[0], experiment) for process, experiment in begun]
    assert [process.returncode for process, _ in begun] == [0, 0], said
    return said


def runs(folder, experiment):
    """The runs of an experiment; each that is planned is there once."""
    with Store(folder / "lockstep-results", existing=True) as store:
        found = store.runs(experiment.digest)
    wanted = Counter(task.key for task in plan.plan(experiment))
    assert Counter(map(plan.key_of, found)) == wanted and not any(run.failure for run in found)
    return found


def test_of_two_experiments_one_waits_for_the_other_and_both_record_all_their_runs(tmp_path):
    said = both(tmp_path)
    assert sorted(text.count("waiting: Lockstep of user") for text, _ in said) == [0, 1], said
    first, second = sorted(
        (sorted(run.recorded_at for run in runs(tmp_path, experiment)) for _, experiment in said), key=min
    )
    assert first[-1] < second[0]


def test_two_experiments_that_do_not_wait_record_all_their_runs_and_say_that_they_disturb_each_other(
    tmp_path,
):
    said = both(tmp_path, "--no-wait")
    assert any("so the runs disturb each other" in text for text, _ in said), said
    found = [run for _, experiment in said for run in runs(tmp_path, experiment)]
    assert any("also uses processors" in told for run in found for told in run.conditions.warnings)
