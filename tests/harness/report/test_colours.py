"""Categories of a chart can be told apart, also by people who see two of the three primary colours."""

from itertools import combinations

import numpy as np
import pytest

from harness.analyse.breakdown import PARTS
from harness.report.style import HATCHES, JOBS, PALETTE

LEAST = 22
"""The distance in CIELAB that two categories must have."""

GROUPS = {
    "parts": PARTS,
    "jobs": ("surface", *(f"job{number}" for number in range(JOBS))),
    "sides": ("surface", "measured", "simulated"),
    "verdicts": ("surface", "within", "outside"),
}

VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
"""What linear RGB becomes. Source: Machado, Oliveira, Fernandes 2009, "A Physiologically-based Model for
Simulation of Color Vision Deficiency", table 1, severity 1."""

TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
"""Linear sRGB to XYZ, white point D65 (IEC 61966-2-1)."""


def seen(colour, vision):
    """The CIELAB coordinates of ``#rrggbb`` as somebody sees it; ``vision`` is a key of VISION."""
    coded = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    ratio = TO_XYZ @ np.clip(VISION[vision] @ linear, 0, 1) / TO_XYZ.sum(axis=1)
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("group", GROUPS)
def test_two_categories_of_a_chart_never_look_alike(group, vision):
    for page in (0, 1):  # light, dark
        colours = {name: seen(PALETTE[name][page], vision) for name in GROUPS[group]}
        pairs = combinations(colours, 2)
        assert not [pair for pair in pairs if np.linalg.norm(np.subtract(*map(colours.get, pair))) < LEAST]


def test_every_colour_has_one_name_and_processor_time_without_progress_is_hatched():
    lights = [light for light, _ in PALETTE.values()]
    assert len(set(lights)) == len(lights)
    assert len({HATCHES[part] for part in ("communicating", "synchronizing", "switching")}) == 3
    assert not {"computing", "idle"} & set(HATCHES)
