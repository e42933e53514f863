"""Two experiments at once on the same processors and in the same store, one of them with real ranks."""

import re
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pytest
from lives import EXPERIMENT
from places import ROOT, SUPPORT
from runs import eventually, needs_two, spawned, two_processors

from coordinator.host.processor_claims import rivals
from harness.measure import plan
from harness.spec.experiment import load
from harness.store.database import Store

pytestmark = [pytest.mark.slow, needs_two]

RANKS = 'program = { pattern = "NEWS", processes = 2, granularity_us = 100, phases = 300 }'
LONGEST_S = 240


class Series:
    """An experiment that ``lockstep run`` measures, and what it prints."""

    def __init__(self, folder, number, program, *options):
        file = folder / f"{number}.toml"
        file.write_text(
            EXPERIMENT.replace("repeats = 1", f"repeats = 2\nseed = {number}").replace(RANKS, program)
        )
        self.experiment = load(str(file))
        self.output = folder / f"{number}.txt"
        self.words = [
            sys.executable,
            "-P",
            SUPPORT / "among_others.py",
            "run",
            file,
            "--no-simulate",
            *options,
        ]

    @contextmanager
    def started(self, folder):
        with self.output.open("w") as output:
            streams = {"stdout": output, "stderr": subprocess.STDOUT, "cwd": folder}
            with spawned(*self.words, marks={"PYTHONPATH": str(ROOT)}, **streams) as self.process:
                yield self

    def text(self):
        return self.output.read_text()

    def measures(self):
        """Wait until it has its processors."""
        word = f"(process {self.process.pid})"
        return eventually(lambda: any(word in rival.name for rival in rivals(two_processors())), LONGEST_S)

    def says(self, words):
        return eventually(lambda: words in self.text(), LONGEST_S)

    def ends(self):
        assert self.process.wait(LONGEST_S) == 0, self.text()

    def runs(self, folder):
        """Its runs; each that is planned is there once."""
        with Store(folder / "lockstep-results", existing=True) as store:
            runs = store.runs(self.experiment.digest)
        planned = Counter(task.key for task in plan.plan(self.experiment))
        assert Counter(map(plan.key_of, runs)) == planned and not any(run.failure for run in runs)
        return runs


def two(folder, *options):
    """An experiment whose programs wait for the file ``gate``, and one of ranks."""
    wait = f"until [ -e {folder}/gate ]; do sleep 0.02; done"
    command = f'command = ["{{launcher}}", "-n", "1", "sh", "-c", "{wait}"]'
    return Series(folder, 1, command, *options), Series(folder, 2, RANKS, *options)


def test_of_two_experiments_one_waits_for_the_other_and_both_record_all_their_runs(tmp_path):
    first, second = two(tmp_path)
    with first.started(tmp_path):
        assert first.measures()
        with second.started(tmp_path):
            assert second.says(f"(process {first.process.pid})"), second.text()
            (tmp_path / "gate").touch()
            first.ends()
            second.ends()
    last = max(run.recorded_at for run in first.runs(tmp_path))
    begin = min(run.recorded_at for run in second.runs(tmp_path))
    assert last < begin
    assert f"(process {second.process.pid})" not in first.text()


def test_two_experiments_that_do_not_wait_record_all_their_runs_and_say_that_they_disturb_each_other(
    tmp_path,
):
    first, second = two(tmp_path, "--no-wait")
    with first.started(tmp_path):
        assert first.measures()
        with second.started(tmp_path):
            second.ends()
        (tmp_path / "gate").touch()
        first.ends()
    assert re.search(rf"\(process {first.process.pid}\).* so the runs disturb each other", second.text())
    first.runs(tmp_path)
    warnings = [told for run in second.runs(tmp_path) for told in run.conditions.warnings]
    assert any("also uses processors" in told for told in warnings)
