"""The documents that --json prints, byte for byte as they are stored here."""

import dataclasses
import json

import pytest
from fake_runs import TOOLS, ImitatedSimulator, Quiet, measure
from places import ROOT, SUPPORT

from coordinator.workload import Switch
from harness.analyse import results_document, rows
from harness.analyse.stored import Found
from harness.analyse.verdicts import judged
from harness.commands import compare
from harness.measure.calibrate import Constants
from harness.measure.session import MeasurementSession
from harness.predict import missing
from harness.spec.experiment import load
from harness.store.database import Store

STORED = SUPPORT / "stored"
EXPERIMENT = """
name = "stored"
processors = 2
repeats = 3
[[jobs]]
count = 2
program = { pattern = "NEWS", dedicated_s = 0.5 }
[[jobs]]
arrival_s = 0.25
kind = "interactive"
burst_ms = 2
think_ms = 3
bursts = 7
[[schedulers]]
policy = "gang"
[[schedulers]]
policy = "implicit"
[[schedulers]]
policy = "none"
[sweep]
"program.imbalance" = [0.25]
"""
CONDITIONS = {
    **{"host": "here", "kernel": "6.18", "cpu_model": "any", "cores": 2, "processors": [0, 1]},
    **{"launcher": "mpich", "steal": 0.02, "load_before": 0.1},
}


def settled(record):
    """The record as if it had been made at one time on one host; gang runs on two nodes, ``none`` fails."""
    changes = {"session": "s", "conditions": CONDITIONS}
    if record.switches:
        switches = [Switch(n, n // 2 * 10**7, 50_000 + n, 10_000 + n, n % 2) for n in range(8)]
        nodes = {"nodes_after": [{"uncertainty_ns": 700}, {"uncertainty_ns": 900}]}
        changes |= {"switches": tuple(switches), "conditions": CONDITIONS | nodes}
    if record.scheduler["policy"] == "none" and record.repeat == 1:
        changes["failure"] = "job 0: rank 1 has gone"
    ranks = [
        rank | ({"responses_ns": [2_100_000, 2_500_000]} if rank["job"] == 2 else {}) for rank in record.ranks
    ]
    return dataclasses.replace(record, ranks=tuple(ranks), **changes)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """An experiment with measured and simulated runs that are always the same."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "x.toml").write_text(EXPERIMENT)
    experiment = load(str(folder / "x.toml"))
    with pytest.MonkeyPatch.context() as patch, Store(folder / "results") as store:
        patch.setattr(missing, "back_end", ImitatedSimulator)
        here = MeasurementSession.here((0, 1), TOOLS, store)
        measured = [
            settled(record)
            for record in measure(
                experiment, here, Constants(remote_wakeup_us=5.0, local_switch_us=3.0, latency_us=2.0)
            )
        ]
        simulated = missing.complete(experiment, measured, "s", store, Quiet())
    return Found(experiment, [*measured, *simulated])


def test_the_document_of_run(found):
    document = results_document.results(found.experiment, found.records, 1.0).document()
    assert json.dumps(document, indent=2) + "\n" == (STORED / "run.json").read_text()


def test_the_document_of_compare(found):
    known = results_document.results(found.experiment, found.records, 1.0)
    document = compare.document([judged(known, found.records, 0.15)], 0.15)
    assert json.dumps(document, indent=2) + "\n" == (STORED / "compare.json").read_text()


def test_the_documents_have_the_columns():
    text = (ROOT / "docs" / "formats.md").read_text().partition(COLUMN_HEADINGS)[2]
    assert text.partition("\n\n")[0].splitlines() == [documented(one) for one in rows.COLUMNS]


COLUMN_HEADINGS = (
    "| value | terminal | CSV, Markdown | frame | page | unit | meaning |\n|---|---|---|---|---|---|---|\n"
)


def documented(column):
    """A column's line in docs/formats.md."""
    heading = " ".join(column.heading.replace("-\n", "").split())
    meaning = column.meaning or rows.GROUPS[column.group]
    named = (f"`{name}`" if name else "" for name in (column.csv, column.frame))
    return " | ".join((f"| `{column.path}`", heading, *named, column.page, column.unit, f"{meaning} |"))
