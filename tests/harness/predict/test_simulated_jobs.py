"""Sequential and interactive jobs of an experiment file beside parallel ones, simulated."""

import pytest

from harness.analyse import summary
from harness.predict import process_level
from harness.spec.experiment import load
from workloads.validation import InputError

EXPERIMENT = """
processors = 2
repeats = 2

[[jobs]]
count = 2
program = { granularity_us = 1000, phases = 300 }

[[jobs]]
kind = "sequential"
work_s = 0.1

[[jobs]]
kind = "interactive"
burst_ms = 2
think_ms = 20
bursts = 20

[[schedulers]]
policy = "none"

[[schedulers]]
policy = "implicit"
"""


def rows(folder, text):
    file = folder / "mixed.toml"
    file.write_text(text)
    experiment = load(str(file))
    records = process_level.predict(experiment, None, lambda *step: None)
    return summary.rows(experiment, records, 0.1, experiment.cells)


@pytest.mark.slow
def test_mixed_jobs_finish_and_tell_the_response_times_of_bursts(tmp_path):
    for row in rows(tmp_path, EXPERIMENT):
        found = row.simulated
        assert found.failures == 0
        assert found.responses.n == 2 * 20
        assert 2 <= found.responses.mean_ms <= found.responses.p99_ms
        assert found.slowdown.mean >= 1


@pytest.mark.slow
def test_without_interactive_jobs_there_are_no_responses(tmp_path):
    some = EXPERIMENT.replace('kind = "interactive"\nburst_ms = 2\nthink_ms = 20\nbursts = 20', "")
    some = some.replace("[[jobs]]\n\n\n", "")
    assert all(row.simulated.responses is None for row in rows(tmp_path, some))


def test_a_command_without_a_recording_cannot_be_simulated(tmp_path):
    text = '[[jobs]]\ncommand = ["mpiexec", "-n", "2", "./app"]\n[[schedulers]]\npolicy = "none"\n'
    with pytest.raises(InputError, match="by a recording, and it has none"):
        rows(tmp_path, "processors = 2\n" + text)
