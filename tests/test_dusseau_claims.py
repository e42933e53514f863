"""The claims of Dusseau et al. 1996 on results that are made up: when do they hold?"""

import pytest

from harness.papers import CONTRADICTED, FAILS, HOLDS, OPEN, Claim
from harness.papers.dusseau96 import model
from harness.papers.dusseau96.claims import CLAIMS
from workloads.validation import InputError

SHARES = dict.fromkeys(("computing", "communicating", "synchronizing", "switching", "idle"), 0.2)


def claims(figure, slowdown, responses_s=(1.0, 1.0, 1.0)):
    """By text, if every point of the figure and of those it is compared with is ``slowdown(point)`` slow."""
    shown = [p for name in (figure, *model.COMPARED.get(figure, ())) for p in model.points(name)]
    shown += model.BESIDES.get(figure, ())
    made = {
        point: model.PointOutcome((value,), responses_s, SHARES, 1.0, 1.0, 1.0)
        for known in shown
        for point, value in ((known, slowdown(known)), (known.coscheduled(), 1.0))
    }
    return {claim.text: claim for claim in CLAIMS[figure](model.PointResults(made, 1))}


def at_5_ms(slowdown):
    return lambda point: slowdown if point.granularity_us == 5000 and point.pattern == "NEWS" else 0.9


@pytest.mark.parametrize(("slowdown", "verdict"), [(0.9, HOLDS), (1.27, CONTRADICTED), (1.6, FAILS)])
def test_a_sentence_contradicts_the_paper_only_where_its_other_place_is_met(slowdown, verdict):
    found = claims("3", at_5_ms(slowdown))
    (claim,) = (claim for text, claim in found.items() if "5 ms to 500 ms" in text)
    assert claim.verdict == verdict
    assert bool(claim.places) == (verdict == CONTRADICTED)


@pytest.mark.parametrize(("verdict", "places"), [(CONTRADICTED, ()), (HOLDS, ("here", "there"))])
def test_a_contradiction_has_two_places(verdict, places):
    with pytest.raises(InputError):
        Claim("text", "found", verdict, places)


@pytest.mark.parametrize(("worst_of_all", "verdict"), [(3.3, HOLDS), (4.3, FAILS)])
def test_the_worst_of_round_robin_is_told_for_each_pattern(worst_of_all, verdict):
    worst = {"BARRIER": 1.5, "NEWS": 2.1, "TRANSPOSE": worst_of_all}
    found = claims("12", lambda point: worst[point.pattern] if point.local == "round-robin" else 1.2)
    (claim,) = (claim for text, claim in found.items() if "3.4 times" in text)
    assert claim.verdict == verdict
    assert all(f"{value:.2f} ({pattern}" in claim.found for pattern, value in worst.items())
    (gain,) = (claim for text, claim in found.items() if "two to three times" in text)
    assert gain.verdict == verdict


@pytest.mark.parametrize(("imbalance", "verdict"), [(2.0, HOLDS), (0.25, FAILS)])
def test_spikes_are_just_above_the_spin(imbalance, verdict):
    """At 2 switches the worst program has v = 2 g = 800 us; it is 100 us where it should not be."""

    def slowdown(point):
        place = {2: (400, imbalance), 4: (1000, 1.5), 8: (1000, 2.0)}[point.spin_switches]
        return 1.5 if (point.granularity_us, point.imbalance) == place else 1.1

    (claim,) = (claim for text, claim in claims("6", slowdown).items() if "slightly greater" in text)
    assert claim.verdict == verdict


@pytest.mark.parametrize(("elsewhere", "verdict"), [(1.2, HOLDS), (1.226, OPEN), (1.3, FAILS)])
def test_another_place_is_the_worst_only_if_it_is_so_for_sure(elsewhere, verdict):
    def slowdown(point):
        if point.granularity_us != 1000:
            return 1.0
        return {2.0: 1.22, 1.5: elsewhere}.get(point.imbalance, 1.0)

    (claim,) = (claim for text, claim in claims("10", slowdown).items() if "largest slowdown" in text)
    assert claim.verdict == verdict


@pytest.mark.parametrize(("gain", "verdict"), [(1.0, HOLDS), (0.9, FAILS)])
def test_longer_spins_than_ten_switches_must_not_improve(gain, verdict):
    found = claims("8", lambda point: gain if point.spin_switches == 20 else 1.0)
    (claim,) = (claim for text, claim in found.items() if "no improvement" in text)
    assert claim.verdict == verdict


@pytest.mark.parametrize(("fine_s", "verdict"), [(3.0, HOLDS), (1.9, FAILS)])
def test_a_fine_grained_job_that_ends_first_is_not_given_less(fine_s, verdict):
    found = claims("13", lambda point: 1.0, responses_s=(fine_s, 2.0, 1.5))
    (claim,) = (claim for text, claim in found.items() if "section 8" in text)
    assert claim.verdict == verdict
