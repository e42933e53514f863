"""How different two colours look, also to people whose cones lack a pigment."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Colour = NDArray[np.float64]

VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""What linear RGB becomes. Source: Machado, Oliveira, Fernandes 2009, "A Physiologically-based Model for
Simulation of Color Vision Deficiency", table 1, severity 1."""

TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
"""Linear sRGB to XYZ, white point D65 (IEC 61966-2-1)."""

WHITE = TO_XYZ.sum(axis=1)


def seen(colour: str, vision: str) -> Colour:
    """The CIELAB coordinates of ``#rrggbb`` as somebody sees it; ``vision`` is a key of VISION."""
    coded = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    ratio = TO_XYZ @ np.clip(VISION[vision] @ linear, 0, 1) / WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def delta_e(one: Colour, other: Colour) -> float:
    """The colour difference CIEDE2000 of two CIELAB colours.

    Source: Sharma, Wu, Dalal 2005, "The CIEDE2000 Color-Difference Formula", equations 2 to 22.
    """
    chroma7 = ((np.hypot(*one[1:]) + np.hypot(*other[1:])) / 2) ** 7
    stretch = 1.5 - 0.5 * math.sqrt(chroma7 / (chroma7 + 25.0**7))
    (c1, h1), (c2, h2) = (
        (math.hypot(stretch * a, b), math.degrees(math.atan2(b, stretch * a)) % 360)
        for _, a, b in (one, other)
    )
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    dl, dc, dh = other[0] - one[0], c2 - c1, 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2))
    lightness, chroma = (one[0] + other[0]) / 2, (c1 + c2) / 2
    hue = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    t = (
        1
        - 0.17 * math.cos(math.radians(hue - 30))
        + 0.24 * math.cos(math.radians(2 * hue))
        + 0.32 * math.cos(math.radians(3 * hue + 6))
        - 0.20 * math.cos(math.radians(4 * hue - 63))
    )
    of_l = 1 + 0.015 * (lightness - 50) ** 2 / math.sqrt(20 + (lightness - 50) ** 2)
    of_c, of_h = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    bend = 2 * math.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    turned = -math.sin(math.radians(60 * math.exp(-(((hue - 275) / 25) ** 2)))) * bend
    lx, cx, hx = dl / of_l, dc / of_c, dh / of_h
    return math.sqrt(max(0.0, lx * lx + cx * cx + hx * hx + turned * cx * hx))
