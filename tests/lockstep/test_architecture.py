"""The page about the architecture is true: its files are there, and its policy works in both worlds."""

import os
import re
import subprocess
import sys

import fake_records
import pytest
from places import ROOT, SUPPORT

from harness.analyse import results_document, rows
from harness.report import page, plain, tables, text
from harness.spec import experiment
from harness.store import load

PAGE = (ROOT / "docs" / "architecture.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

EXPERIMENT = """
name = "toy"
processors = 2
repeats = 1
[[jobs]]
count = 2
program = { pattern = "BARRIER", processes = 2, granularity_us = 1000, dedicated_s = 0.1 }
[[schedulers]]
policy = "newest"
"""


NEWEST = """
import among_others, runpy
among_others.settle()
runpy.run_path("newest.py", run_name="__main__")
"""
"""Program text: the page's command."""


def test_the_pages_ring_takes_as_long_as_a_token_goes_round():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    line = [sys.executable, "-c", PROGRAMS[1]]
    result = subprocess.run(line, env=environment, capture_output=True, text=True, check=True, timeout=300)
    (_, alone_ms), (_, two_ms) = (map(float, row.split()) for row in result.stdout.splitlines())
    assert alone_ms == pytest.approx(100 * 4 * 0.1, rel=0.001)  # compute 90 us and a message of 10 us
    assert alone_ms < two_ms < 2 * alone_ms


def test_every_file_and_room_that_the_page_names_is_there():
    named = set(re.findall(r"`?((?:[a-z0-9_]+/)*[a-z0-9_]+\.py)\b", PAGE)) - {"newest.py"}
    places = [ROOT, *(ROOT / room for room in ("harness", "harness/simulator", "coordinator", "workloads"))]
    assert {name for name in named if not any((place / name).is_file() for place in places)} == set()
    rooms = set(re.findall(r"^\| .*`([a-z_]+)/`", PAGE, flags=re.MULTILINE))
    assert {room for room in rooms if not any((place / room).is_dir() for place in places)} == set()


@pytest.fixture
def more_columns():
    kept = list(rows.COLUMNS)
    yield
    rows.COLUMNS[:] = kept


@pytest.mark.slow
def test_the_pages_column_is_in_all_outputs(more_columns, tmp_path):
    (tmp_path / "toy.toml").write_text(EXPERIMENT.replace("newest", "none"))
    wanted = experiment.load(str(tmp_path / "toy.toml"))
    results = results_document.results(wanted, fake_records.records(wanted), 1.0)
    exec(PROGRAMS[2], {})
    (summary,) = (row["measured"] for row in results.document()["rows"])
    largest = summary["slowdown"]["bounded_max"]
    shown = "".join(plain.shown(part, wide=True) for part in text.render(results))
    assert "bounded" in shown and f"{largest:.2f}" in shown
    assert "bounded_max" in tables.comma_separated(results) and str(largest) in tables.comma_separated(
        results
    )
    assert "| bounded_max |" in tables.markdown(results)
    assert results_document.frame_of_rows(results.rows).bounded_max[0] == largest
    (main, *_) = page.tables(page.Content(results, []))
    assert [one.cell(results.rows[0]) for one in main.columns if one.page == "bounded"] == [f"{largest:.2f}"]


def test_a_policy_from_outside_runs_for_real(tmp_path):
    """tests/lockstep/test_interface.py has it simulated."""
    (tmp_path / "newest.py").write_text(PROGRAMS[0])
    (tmp_path / "toy.toml").write_text(EXPERIMENT)
    words = ["run", "toy.toml", "--no-wait", "--no-simulate", "--quick", "--results", "results"]
    line = [sys.executable, "-c", NEWEST, *words]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    result = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    jobs = load(tmp_path / "results").jobs
    shared = jobs[jobs.groupby("run")["job"].transform("nunique") == 2]
    ends_ns = shared.pivot(index="run", columns="job", values="finish_ns")
    assert len(ends_ns) and (ends_ns[1] < ends_ns[0]).all(), "the newest job has the processors first"
