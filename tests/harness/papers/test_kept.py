"""Reproductions that are interrupted keep what they have simulated, and go on from there."""

import math
import random
from types import SimpleNamespace

import pytest

from harness import cli, papers
from harness.papers import Cell, Paper, PaperFigure, kept
from harness.predict.replicate import Mean, Replications
from harness.simulator.jobs.metrics import Metrics
from workloads.validation import InputError

METRICS = Metrics(1, 2.5, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, math.inf)
OUTCOMES = [
    SimpleNamespace(makespans_s=[1.0, 2.0], breakdown={"computing": 0.5}, name="x", none=None),
    SimpleNamespace(mean=Mean(1.0, None, 3, saturated=True), pair=(1, "a")),
    Replications((METRICS, METRICS), stuck=1),
]
CELLS = [Cell(number=number, policy="gang", sizes=(1, 2)) for number in range(6)]


@pytest.fixture
def simulated(monkeypatch):
    """The numbers of the cells that a paper has simulated; more than ``limit`` interrupt it."""
    numbers = []

    def simulate(cell, quick, seed):
        if len(numbers) == simulate.limit:
            raise KeyboardInterrupt
        numbers.append(cell.number)
        return OUTCOMES[cell.number % len(OUTCOMES)]

    simulate.limit = 3
    numbers_of = Paper({"1": PaperFigure("a", lambda results: None, CELLS)}, "quick", simulate, lambda *_: [])
    monkeypatch.setattr(papers, "of_name", lambda paper: numbers_of)
    monkeypatch.setattr("harness.predict.pool.os.sched_getaffinity", lambda pid: {0})
    return SimpleNamespace(numbers=numbers, simulate=simulate)


def test_an_interrupted_reproduction_goes_on_and_leaves_nothing_at_its_end(
    simulated, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "zhou97", "--json"]
    assert cli.main(command) == 130
    file = tmp_path / "lockstep-results" / kept.FOLDER / "zhou97.jsonl"
    assert f"3 simulations are kept in {file.relative_to(tmp_path)}" in capsys.readouterr().err
    simulated.simulate.limit = 100
    assert cli.main([*command, "--resume", "--seed", "2"]) == 2
    assert "simulations with other options" in capsys.readouterr().err
    assert cli.main([*command, "--resume"]) == 0
    assert sorted(simulated.numbers) == [cell.number for cell in CELLS]
    assert not file.exists()


def test_what_is_kept_is_what_was_simulated(simulated, tmp_path):
    place = papers.kept_cells("zhou97", tmp_path, quick=False, seed=1)
    for cell, outcome in zip(CELLS, OUTCOMES, strict=False):
        place.add(cell, outcome)
    again = papers.kept_cells("zhou97", tmp_path, quick=False, seed=1)
    again.read()
    assert [again.of(cell) for cell in CELLS] == [*OUTCOMES, None, None, None]
    simulated.simulate.limit = 3
    reproduction = papers.reproduce("zhou97", kept=again).results
    assert list(reproduction.items()) == [(cell, OUTCOMES[cell.number % 3]) for cell in CELLS]


def test_a_line_of_lists_in_lists_is_no_cell(tmp_path):
    first = papers.kept_cells("zhou97", tmp_path, quick=False, seed=1)
    first.add(CELLS[0], OUTCOMES[0])
    first.path.write_text(first.path.read_text() + "[" * 100_000)
    again = papers.kept_cells("zhou97", tmp_path, quick=False, seed=1)
    again.read()
    assert len(again) == 1
    first.path.write_text("[" * 100_000)
    again.read()


def test_whatever_the_file_holds_it_is_read_or_refused(tmp_path):
    def place():
        return papers.kept_cells("zhou97", tmp_path, quick=False, seed=1)

    first = place()
    for cell, outcome in zip(CELLS, OUTCOMES, strict=False):
        first.add(cell, outcome)
    whole = first.path.read_bytes()
    known = dict(zip(CELLS, OUTCOMES, strict=False))
    ends = set()
    for seed in range(200):
        chance = random.Random(seed)
        copy = bytearray(whole)
        for _ in range(chance.choice([1, 1, 10])):
            copy[chance.randrange(len(copy))] = chance.randrange(256)
        first.path.write_bytes(copy[: chance.randrange(len(copy))] if seed % 4 == 0 else copy)
        try:
            (again := place()).read()
            ends.add(len(again))
            assert all(again.of(cell) in (None, known.get(cell)) for cell in CELLS), seed
        except InputError as error:
            ends.add("refused")
            assert "--resume" in str(error)
    assert {"refused", 1, 2} <= ends
