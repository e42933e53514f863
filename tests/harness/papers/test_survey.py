"""The survey: its page names what is there, and its sentences about allocation are checked."""

import paper_results
import pytest
from places import ROOT

from coordinator import migration
from coordinator.policies import allocation
from coordinator.policies.adaptive import SquareRoot
from harness import papers
from harness.papers import survey as model
from harness.spec.experiment import load

PAGE = (ROOT / "docs" / "survey.md").read_text()


HIGH = "when the load is high, jobs should receive less than their average parallelism"


@pytest.mark.parametrize(("rule", "verdict"), [(None, papers.HOLDS), (allocation.TARGET_ALL, papers.FAILS)])
def test_the_square_root_of_work_is_optimal_only_if_its_shares_are_not_rounded_up(monkeypatch, rule, verdict):
    if rule is not None:
        monkeypatch.setattr(SquareRoot, "rule", rule)
    claims = papers.of_name("survey").claims(["1"], paper_results.read("survey")[0])
    (claim,) = (one for _, one in claims if "is optimal" in one.text)
    assert claim.verdict == verdict, claim.found


def test_the_experiment_on_real_ranks_leaves_no_rule_out():
    wanted = {policy for policy, _, _ in model.RULES.values()} - {"equipartition"}
    assert {scheduler.name for scheduler in load("allocation-rules").schedulers} == wanted


@pytest.mark.slow
def test_the_rules_of_allocation_give_what_the_survey_reports(tmp_path):
    made = papers.reproduce("survey", quick=True)
    found = {claim.text: claim.verdict for _, claim in made.claims}
    (half,) = [text for text in found if "half of its best speedup" in text]
    (optimal,) = [text for text in found if "is optimal" in text]
    assert [found[text] for text in (HIGH, half, optimal)] == [papers.HOLDS] * 3
    cells = made.document()["cells"]
    assert len(cells) == len(model.VARIANCES) * len(model.LOADS) * len(model.RULES) + len(model.MOVES)
    assert all(picture.stat().st_size > 1000 for picture in made.draw(tmp_path))


def moving(technique, **options):
    """What it costs to move 8 MB at 2 MB/s."""
    return migration.Migration(technique, 8.0, 2.0, **options).cost()


@pytest.mark.parametrize(("dirty", "rounds"), [(0.1, 1), (0.1, 2), (0.5, 3), (0.0, 2)])
def test_pre_copy_stops_for_what_was_written_during_the_last_copy(dirty, rounds):
    cost = moving("pre-copy", fixed_ms=250.0, dirty_mb_s=2.0 * dirty, rounds=rounds)
    assert cost.stopped_s == pytest.approx(0.25 + 8.0 * dirty**rounds / 2.0)
    assert cost.moved_mb == pytest.approx((cost.total_s - 0.25) * 2.0)


def test_pre_copy_ends_when_another_copy_would_not_help():
    """A process that writes faster than it is copied is copied once, and then stopped for all of it."""
    cost = moving("pre-copy", dirty_mb_s=3.0, rounds=9)
    assert cost == migration.MoveCost(4.0, 0.0, 8.0, 16.0, 0.0)


def test_pages_that_are_not_used_stay_behind():
    cost = moving("on-reference", fixed_ms=500.0, touched=0.25, fault_ms=10.0)
    assert (cost.stopped_s, cost.moved_mb, cost.residual_mb) == (0.5, 2.0, 6.0)
    assert cost.slowed_s == pytest.approx(1.0 + 512 * 0.01), "512 faults for 2 MB of 4 KiB"


def test_a_flush_stops_for_the_modified_pages_and_leaves_nothing_behind():
    cost = moving("flush", fixed_ms=500.0, modified=0.75, touched=0.25)
    assert (cost.stopped_s, cost.slowed_s, cost.moved_mb, cost.residual_mb) == (3.5, 1.0, 8.0, 0.0)
