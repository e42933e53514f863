"""Categories of a chart can be told apart, also by people who see two of the three primary colours."""

from itertools import combinations

import numpy as np
import pytest
from colour_vision import VISION, delta_e, seen

from harness.analyse.breakdown import PARTS
from harness.report.style import HATCHES, JOBS, PALETTE

LEAST = 20
GROUPS = {
    "parts": PARTS,
    "jobs": ("surface", *(f"job{number}" for number in range(JOBS))),
    "sides": ("surface", "measured", "simulated"),
    "verdicts": ("surface", "within", "outside"),
}


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [  # from Sharma, Wu, Dalal 2005, table 1
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((61.2901, 3.7196, -5.3901), (61.4292, 2.2480, -4.9620), 1.8731),
    ],
)
def test_the_difference_is_ciede2000(one, other, difference):
    assert delta_e(np.array(one), np.array(other)) == pytest.approx(difference, abs=1e-4)


@pytest.mark.parametrize("page", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("group", GROUPS)
def test_two_categories_of_a_chart_never_look_alike(group, vision, page):
    colours = {name: seen(PALETTE[name][page], vision) for name in GROUPS[group]}
    near = {
        (one, other): round(delta_e(colours[one], colours[other]), 1)
        for one, other in combinations(colours, 2)
        if delta_e(colours[one], colours[other]) < LEAST
    }
    assert not near


def test_processor_time_without_progress_is_hatched():
    assert set(HATCHES) >= {"communicating", "synchronizing", "switching"}
    assert len({HATCHES[part] for part in ("communicating", "synchronizing", "switching")}) == 3
    assert not {"computing", "idle"} & set(HATCHES)


def test_every_colour_has_one_name():
    lights = [light for light, _ in PALETTE.values()]
    assert len(set(lights)) == len(lights)
