"""``lockstep demo``: its sentences hold for whatever was measured, also by real processes."""

import json
import re
import webbrowser
from functools import partial
from pathlib import Path

import among_others
import pytest
from fake_runs import TOOLS, ImitatedSimulator, failing
from runs import needs_two

from harness import application, cli
from harness.analyse import summary
from harness.analyse.rows import JobRow, Row, Summary
from harness.analyse.statistics import estimate
from harness.commands import explore
from harness.predict import missing
from harness.report.text import CHANCE, conclusion
from harness.spec import experiment
from harness.spec.jobs import described
from harness.store.database import Store
from harness.store.rebuild import experiment_of
from workloads.program import Program

ALONE = [JobRow(0.0, described(Program(processes=2, phases=1)))] * 3


def row(policy, measured, simulated=()):
    sides = [Summary(estimate(side)) if side is not None else None for side in (measured, simulated or None)]
    return Row(tuple(ALONE), {}, {"policy": policy}, *sides)


def said(none, gang, implicit, simulated=((), (), ())):
    ways = zip(("none", "gang", "implicit"), (none, gang, implicit), simulated, strict=True)
    return conclusion([row(*way) for way in ways])


SLOW = (2.7, 2.8, 2.9)
FAST = (1.02, 1.03, 1.05)
LIKE = (0.97, 1.0, 1.04)


def test_a_great_effect_and_two_remedies():
    first, second, third = said(SLOW, FAST, (1.1, 1.11, 1.12), ((2.7,), (1.0,), (1.1,)))
    begin = "3 jobs of 2 processes each at the same time took 2.80 (2.56 to 3.06) times as long as one after"
    assert first.startswith(begin) and CHANCE not in first + second
    assert re.fullmatch(r"Taking turns took 1.03 \(.*\), which is faster; .* 1.11 .* faster\.", second)
    ways = "2.70 at the same time, 1.00 taking turns, 1.10 waiting politely"
    assert third == f"The simulator says {ways}: at most 4 % off."


@pytest.mark.parametrize(
    "none, gang, implicit, chances, words",
    [
        (LIKE, LIKE, FAST, (1, 2), "one after the other"),  # no effect
        ((0.4, 2.8, 9.0), FAST, FAST, (1, 2), ""),  # an interval that is wide
        (SLOW[:1], FAST, FAST, (1, 2), "one repeat)"),
        (SLOW[:2], FAST, FAST, (1, 2), "2 repeats)"),
        ((0.7, 0.71, 0.72), FAST, (0.4, 0.41, 0.42), (0, 0), "took 0.71"),  # turns are slower
    ],
)
def test_only_what_is_beyond_chance_is_called_a_difference(none, gang, implicit, chances, words):
    first, second, _ = said(none, gang, implicit)
    assert (first.count(CHANCE), second.count(CHANCE)) == chances and words in first
    if not any(chances):
        assert "which is slower; waiting" in second and second.endswith("which is faster.")


def test_what_failed_is_not_known():
    first, second, third = said((), FAST, ())
    assert first.endswith("at the same time take is not known: no run succeeded.")
    assert "faster" not in second and second.endswith("; waiting politely is not known: no run succeeded.")
    assert third == "The simulator says nothing: no simulation succeeded."
    *_, third = said((), (), (), (SLOW, (), ()))
    assert third.startswith("The simulator says 2.80 at the same time, and there is nothing to compare")


@pytest.fixture
def imitated(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(missing, "back_end", ImitatedSimulator)
    among_others.allow(monkeypatch.setattr)

    def use(tools):
        monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: tools)

    use(TOOLS)
    return use


@needs_two
def test_the_command_tells_what_the_store_holds_below_its_warnings(imitated, capsys):
    assert cli.main(["demo", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    with Store(Path("lockstep-results"), existing=True) as store:
        ((digest, name),) = store.experiments()
        records = store.runs(digest)
    assert name == "demo"
    assert document["conclusion"] == conclusion(summary.rows(experiment_of(records), records))
    assert cli.main(["demo"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.index(document["conclusion"][0]) > out.find("Warning: ")
    assert all(sentence in out for sentence in document["conclusion"])


@needs_two
def test_a_page_that_no_browser_shows_costs_no_sentence(imitated, monkeypatch, capsys):
    monkeypatch.setattr(explore, "write", lambda path, *_: path.write_text("a page"))
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert cli.main(["demo", "--open"]) == 0
    out, err = capsys.readouterr()
    assert "The simulator says" in " ".join(out.split()) and "there is no browser" in " ".join(err.split())
    assert Path("explore.html").exists()


@needs_two
def test_a_failed_run_is_told(imitated, capsys):
    imitated(failing(lambda workload: type(workload.policy).__name__ == "Gang"))
    assert cli.main(["demo"]) == 1
    out, err = capsys.readouterr()
    assert "Taking turns is not known: no run succeeded" in " ".join(out.split())
    assert "5 runs failed: job 0: rank 1 has gone" in " ".join(err.split())


def test_a_host_with_one_processor_cannot_show_it(imitated, monkeypatch, capsys):
    monkeypatch.setattr("harness.spec.experiment.usable_processors", lambda: (0,))
    assert cli.main(["demo"]) == 2
    assert "processors" in capsys.readouterr().err


@needs_two
@pytest.mark.slow
@pytest.mark.usefixtures("uncalibrated")
def test_real_processes(monkeypatch, tmp_path, capsys):
    among_others.allow(monkeypatch.setattr)
    short = ["repeats=1", "program.dedicated_s=0.2"]
    monkeypatch.setattr(experiment, "load", partial(experiment.load, settings=short))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--quick", "--no-wait", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    first, second, third = document["conclusion"]
    known = {row["scheduler"]["policy"]: row for row in document["rows"]}
    assert len(known) == 3
    for sentence, policy in ((first, "none"), (second, "gang"), (second, "implicit")):
        assert f" {known[policy]['measured']['workload_slowdown']['median']:.2f} (" in sentence
        assert f" {known[policy]['simulated']['workload_slowdown']['median']:.2f} " in third
