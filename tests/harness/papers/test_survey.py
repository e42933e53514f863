"""The survey: its page names what is there, and its sentences about allocation are checked."""

import paper_results
import pytest

from coordinator import migration
from coordinator.policies import allocation
from coordinator.policies.adaptive import SquareRoot
from harness import papers
from harness.papers import survey as model
from harness.spec.experiment import load

HIGH = "when the load is high, jobs should receive less than their average parallelism"


@pytest.mark.parametrize(
    "rule, share, verdict",
    [
        (allocation.LEAST_SUM, allocation.BY_ROOT, papers.HOLDS),
        (allocation.TARGET_ALL, allocation.EQUAL, papers.FAILS),
    ],
)
def test_the_square_root_of_work_is_optimal_and_equal_shares_are_not(monkeypatch, rule, share, verdict):
    monkeypatch.setattr(SquareRoot, "rule", rule)
    monkeypatch.setattr(SquareRoot, "share", share)
    claims = papers.of_name("survey").claims(["1"], paper_results.read("survey")[0])
    (claim,) = (one for _, one in claims if "is optimal" in one.text)
    assert claim.verdict == verdict, claim.found


def test_the_experiment_on_real_ranks_leaves_no_rule_out():
    wanted = {policy for policy, _, _ in model.RULES.values()} - {"equipartition"}
    assert {scheduler.name for scheduler in load("allocation-rules").schedulers} == wanted


@pytest.mark.slow
def test_the_rules_of_allocation_give_what_the_survey_reports(tmp_path):
    reproduction = papers.reproduce("survey", quick=True)
    verdicts = {claim.text: claim.verdict for _, claim in reproduction.claims}
    (half,) = [text for text in verdicts if "half of its best speedup" in text]
    (optimal,) = [text for text in verdicts if "is optimal" in text]
    assert [verdicts[text] for text in (HIGH, half, optimal)] == [papers.HOLDS] * 3
    cells = reproduction.document()["cells"]
    rules = len(model.VARIANCES) * len(model.LOADS) * len(model.RULES)
    packings = len(model.POPULATIONS) * len(model.DISTRIBUTIONS) * len(model.PACKINGS)
    assert len(cells) == rules + packings + len(model.MOVES)
    assert all(picture.stat().st_size > 1000 for picture in reproduction.draw(tmp_path))


@pytest.mark.parametrize(
    "technique, options, costs",
    [
        # A round moves what was written in the one before; it helps only if pages are copied faster.
        ("pre-copy", {"fixed_ms": 250.0, "dirty_mb_s": 0.2, "rounds": 1}, (0.65, 0.0, 4.65, 8.8, 0.0)),
        ("pre-copy", {"fixed_ms": 250.0, "dirty_mb_s": 0.2, "rounds": 2}, (0.29, 0.0, 4.69, 8.88, 0.0)),
        ("pre-copy", {"fixed_ms": 250.0, "dirty_mb_s": 1.0, "rounds": 3}, (0.75, 0.0, 7.75, 15.0, 0.0)),
        ("pre-copy", {"fixed_ms": 250.0, "dirty_mb_s": 0.0, "rounds": 2}, (0.25, 0.0, 4.25, 8.0, 0.0)),
        ("pre-copy", {"dirty_mb_s": 3.0, "rounds": 9}, (4.0, 0.0, 8.0, 16.0, 0.0)),
        # 512 faults for 2 MB of 4 KiB; pages that are not used stay behind.
        ("on-reference", {"fixed_ms": 500.0, "touched": 0.25, "fault_ms": 10.0}, (0.5, 6.12, 6.62, 2.0, 6.0)),
        # A flush stops for the modified pages and leaves nothing behind.
        ("flush", {"fixed_ms": 500.0, "modified": 0.75, "touched": 0.25}, (3.5, 1.0, 4.5, 8.0, 0.0)),
    ],
)
def test_what_it_costs_to_move_8_mb_at_2_mb_a_second(technique, options, costs):
    assert migration.Migration(technique, 8.0, 2.0, **options).cost() == pytest.approx(costs)
