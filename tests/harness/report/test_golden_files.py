"""Whole outputs as they are stored: documents, tables and the page of one experiment, and the help."""

import dataclasses
import json
import sys

import pytest
from fake_runs import ImitatedSimulator, Quiet, measured
from golden import printed, without_pictures

from coordinator.workload import Switch
from harness.analyse import results_document, rows
from harness.analyse.verdicts import judged
from harness.cli import parser
from harness.commands import COMMANDS, compare
from harness.predict import missing
from harness.report import page, rendering, tables, text
from harness.spec.experiment import load
from harness.store.conditions import Conditions
from harness.store.database import Store

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
CONDITIONS = Conditions(
    host="here",
    kernel="6.18",
    cpu_model="any",
    cores=2,
    processors=[0, 1],
    launcher="mpich",
    steal=0.02,
    load_before=0.1,
)


def settled(record):
    """The record as if it had been made at one time on one host; gang runs on two nodes, ``none`` fails."""
    changes = {"session": "s", "conditions": CONDITIONS, "recorded_at": "2026-01-01T00:00:00.000+00:00"}
    if record.switches:
        switches = [Switch(n, n // 2 * 10**7, 50_000 + n, 10_000 + n, n % 2) for n in range(8)]
        nodes = [{"uncertainty_ns": 700}, {"uncertainty_ns": 900}]
        conditions = dataclasses.replace(CONDITIONS, nodes_after=nodes)
        changes |= {"switches": tuple(switches), "conditions": conditions}
    if record.scheduler["policy"] == "none" and record.repeat == 1:
        changes["failure"] = "job 0: rank 1 has gone"
    ranks = [
        dataclasses.replace(rank, responses_ns=(2_100_000, 2_500_000)) if rank.job == 2 else rank
        for rank in record.ranks
    ]
    return dataclasses.replace(record, ranks=tuple(ranks), **changes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """An experiment with measured and simulated runs that are always the same."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "x.toml").write_text(EXPERIMENT)
    experiment = load(str(folder / "x.toml"))
    real = [settled(record) for record in measured(experiment, folder)]
    with pytest.MonkeyPatch.context() as patch, Store(folder) as store:
        patch.setattr(missing, "back_end", ImitatedSimulator)
        return experiment, [*real, *missing.complete(experiment, real, "s", store, Quiet())]


@pytest.fixture(scope="module")
def results(runs):
    return results_document.results(*runs, 1.0)


@pytest.fixture(scope="module")
def verdicts(results, runs):
    return judged(results, runs[1], 0.15)


def test_run(golden, results):
    golden("run.json", json.dumps(results.document(), indent=2) + "\n")
    golden("run.txt", printed(text.render(results), 80))
    golden("run-wide.txt", printed(text.render(results), wide=True))
    golden("run.csv", tables.comma_separated(results))
    golden("run.md", tables.markdown(results))


def test_compare(golden, verdicts):
    golden("compare.json", json.dumps(compare.document([verdicts], 0.15), indent=2) + "\n")
    golden("compare.txt", printed(text.compared([verdicts], 0.15)))


@pytest.mark.usefixtures("undrawn")
def test_the_page(golden, verdicts, runs):
    content = page.page_of(page.Content(verdicts, runs[1]))
    golden("report.html", without_pictures(rendering.html(content)))


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse writes help in another way")
def test_help(golden, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    found = "\n".join(one.format_help() for one in (parser(), *parser().get_default("whole")()[1]))
    golden("help.txt", found)
    assert all(f"usage: lockstep {command} " in found for command in COMMANDS)


def test_the_documents_have_the_columns(golden):
    heading = "| value | terminal | CSV, Markdown | frame | page | unit | meaning |"
    golden.table("reference/columns.md", heading, map(documented, rows.COLUMNS))


def documented(column):
    """A column's line in docs/reference/columns.md."""
    heading = " ".join(column.heading.replace("-\n", "").split())
    meaning = column.meaning or rows.GROUPS[column.group]
    named = (f"`{name}`" if name else "" for name in (column.csv, column.frame))
    return " | ".join((f"| `{column.path}`", heading, *named, column.page, column.unit, f"{meaning} |"))
