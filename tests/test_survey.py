"""The survey: its page names what is there, and its sentences about allocation are checked."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator import policies
from harness import papers
from harness.papers.survey import claims, model
from harness.predict.replicate import Replications
from harness.simulator.jobs.metrics import Metrics
from harness.spec.experiment import load
from workloads.patterns import PATTERNS

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "survey.md").read_text()
OPEN, NOT_HERE = "open", "no scheduling system"


def rows():
    """The cells of each row of the page's inventory: system, where it is, real, simulated."""
    tables = re.findall(r"^\| system \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
    lines = "".join(tables).splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_row_is_here_or_open_or_says_why_it_is_no_scheduling_system(row):
    system, where, real, simulated = row
    assert system
    if where.startswith((OPEN, NOT_HERE)):
        assert (real, simulated) == ("", "")
        assert where == OPEN or where.partition(": ")[2], "it says what is missing, or why"
        return
    assert "R" in (real, simulated) or "S" in (real, simulated)
    assert real in ("R", "") and simulated in ("S", "")
    named = re.findall(r"(policy|pattern) `([^`]+)`", where)
    assert named or re.search(r"`[^`]+`", where), "it names something that a user can write"
    for kind, name in named:
        assert name in (policies.known() if kind == "policy" else PATTERNS), name
    for key, name in re.findall(r"parameter `(\w+)` of `([\w-]+)`", where):
        assert key in policies.parameters(name)


def test_the_page_has_all_parts_of_the_survey():
    headings = re.findall(r"^### (.+)$", PAGE, flags=re.MULTILINE)
    assert headings == [
        "Shared memory: time sharing and coscheduling",
        "Shared memory: what kernels and thread libraries tell each other",
        "Shared memory: space sharing",
        "Kinds of applications",
        "Distributed memory",
        "Networks of workstations",
    ]
    assert len(rows()) >= 50


def metrics(response_s):
    return Metrics(1, response_s, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0)


def verdicts(factors, saturated=()):
    """Verdicts if every rule takes the time of equal shares by its factor; some cells cannot keep up."""
    cells = {}
    for variance in model.VARIANCES:
        for at in model.LOADS:
            for rule in model.RULES:
                cell = model.RuleCell(variance, at, rule)
                factor = factors.get((rule, at), factors.get(rule, 1.0))
                runs = Replications(tuple(metrics(chance * factor) for chance in (9, 10, 11)))
                cells[cell] = replace(runs, stuck=1) if (rule, at) in saturated else runs
    return {claim.text: claim.verdict for claim in claims.CLAIMS["1"](model.RuleResults(cells))}


ROOT = "shares by the square root of work give shorter response times than equal shares"
LOW = "when the load is low, jobs should receive their maximum parallelism, not the average"
HIGH = "when the load is high, jobs should receive less than their average parallelism"
ROBUST = "rules may do worse than those without knowledge if the jobs are known only approximately"
RANGE = "range of parallelism"


@pytest.mark.parametrize(
    ("text", "factors", "saturated", "verdict"),
    [
        (ROOT, {"square root of work": 0.9}, (), papers.HOLDS),
        (ROOT, {"square root of work": 0.9, ("square root of work", 0.8): 1.1}, (), papers.FAILS),
        (ROOT, {}, (), papers.OPEN),
        (ROOT, {"square root of work": 0.9}, {("square root of work", 0.8)}, papers.FAILS),
        (LOW, {(RANGE, 0.2): 0.9}, (), papers.HOLDS),
        (LOW, {(RANGE, 0.8): 0.9}, (), papers.OPEN),
        (HIGH, {}, {("average parallelism", 0.8)}, papers.HOLDS),
        (ROBUST, {("square root of guessed work", 0.5): 1.1}, (), papers.HOLDS),
        (ROBUST, {"square root of guessed work": 0.9}, (), papers.FAILS),
    ],
)
def test_claims_about_allocation_follow_their_values(text, factors, saturated, verdict):
    assert verdicts(factors, saturated)[text] == verdict


def test_the_square_root_of_work_is_optimal_for_jobs_of_perfect_speedup():
    for variance in model.VARIANCES:
        sums = model.summed_times(variance, jobs=8, seed=1)
        assert sums["square root of work"] < 1 == pytest.approx(sums["equal time"], rel=1e-4)


def test_the_experiment_on_real_ranks_leaves_no_rule_out():
    wanted = {policy for policy, _, _ in model.RULES.values()} - {"equipartition"}
    assert {scheduler.name for scheduler in load("allocation-rules").schedulers} == wanted


@pytest.mark.slow
def test_the_rules_of_allocation_give_what_the_survey_reports(tmp_path):
    made = papers.reproduce("survey", quick=True)
    found = {claim.text: claim.verdict for _, claim in made.claims}
    (half,) = [text for text in found if "half of its best speedup" in text]
    (optimal,) = [text for text in found if "is optimal" in text]
    assert [found[text] for text in (HIGH, ROBUST, half, optimal)] == [papers.HOLDS] * 4
    assert len(made.cells) == len(model.VARIANCES) * len(model.LOADS) * len(model.RULES)
    (picture,) = made.draw(tmp_path)
    assert picture.stat().st_size > 1000
