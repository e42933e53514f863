"""What is emphasized on a terminal."""

from dataclasses import replace

import fake_records
import pytest
from runs import needs_two

from harness.analyse import results_document
from harness.analyse.summary import TAU_S
from harness.report import documents, text
from harness.spec import experiment
from harness.store.rebuild import experiment_of

pytestmark = needs_two
SURE = {"best": True, "fastest": "gang 10 ms", "dedicated_s": {"n": 0}, "unavailable": []}


@pytest.fixture(scope="module")
def results():
    job = {"program": {"pattern": "BARRIER", "processes": 2, "dedicated_s": 0.5}}
    schedulers = [{"policy": "gang", "quantum_ms": 10}]
    records = fake_records.records(
        experiment.load({"name": "x", "processors": 2, "repeats": 2, "jobs": [job], "schedulers": schedulers})
    )
    found = results_document.results(experiment_of(records), records, TAU_S)
    rows = [replace(row, scheduler=row.scheduler | {"lines": []}) for row in found.rows]
    return replace(found, rows=rows, warnings=[], notice="")


def style_of(words, parts):
    (found,) = (part.style for part in parts if str(part).startswith(words))
    return found


def test_what_makes_results_worthless_stands_out(results):
    parts = [*text.render(replace(results, notice="measured under load"))]
    assert style_of("measured under load", parts) == "bold yellow"


def test_the_best_setting_stands_out_unless_there_are_warnings(results):
    assert style_of("Best: ", documents.tune(results, SURE)) == "bold"
    assert style_of("Best: ", documents.tune(replace(results, warnings=["busy"]), SURE)) == ""
