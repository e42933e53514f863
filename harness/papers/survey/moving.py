"""What it costs to move a process with the settings of systems that the survey names.

Numbers as they are cited, the papers are not at hand: Artsy and Finkel 1989 (Charlotte: about 45 ms and
12.2 ms for each 2 KB; 242 ms for a process of 32 KB); Theimer, Lantz and Cheriton 1985 (V: 3 s for a MB; two
copies, then 0.5 to 70 KB, for which programs stopped 5 to 210 ms); Zayas 1987 (Accent: up to a thousand times
faster than copying, 58 % fewer bytes); Douglis and Ousterhout 1991 (Sprite: 76 ms, and 660 ms for a MB of
modified pages).
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.migration import Migration

FAST_ETHERNET_MB_S = 12.5
KB = 1 / 1024
TECHNIQUES = ("eager", "pre-copy", "on-reference", "flush")

CHARLOTTE = Migration("eager", 32 * KB, 2 * KB / 0.0122, fixed_ms=45.0)
V_EAGER = Migration("eager", 1.0, 1 / 3)


def v(dirty: float) -> Migration:
    """V at a dirty rate that is this share of the bandwidth."""
    return Migration("pre-copy", 1.0, 1 / 3, dirty_mb_s=dirty / 3, rounds=2)


V_LITTLE, V_MUCH = v(0.0221), v(0.2615)
"""The dirty rates are those that leave 0.5 and 70 KB after two copies."""


def accent(size_mb: float) -> Migration:
    """Accent moves a process of that size."""
    return Migration("on-reference", size_mb, 1 / 3, touched=0.42, fixed_ms=150.0)


def here(technique: str, size_mb: float = 50.0) -> Migration:
    """Each technique on the same network, with a dirty rate of a tenth of the bandwidth."""
    return Migration(technique, size_mb, FAST_ETHERNET_MB_S, dirty_mb_s=FAST_ETHERNET_MB_S / 10)


MOVES: Mapping[str, tuple[Migration, str]] = {
    "Charlotte": (CHARLOTTE, "0.242 s"),
    "V, eager copy": (V_EAGER, "3 s"),
    "V, little is written": (V_LITTLE, "0.005 s"),
    "V, much is written": (V_MUCH, "0.21 s"),
    "Accent, small": (accent(0.1), ""),
    "Accent, large": (accent(100.0), "a thousandth of copying"),
    "Sprite": (Migration("flush", 2.0, 1 / 0.66, modified=0.5, fixed_ms=76.0), "0.74 s"),
    **{f"Fast Ethernet, {technique}": (here(technique), "") for technique in TECHNIQUES},
}
"""Moves in these systems, and the time for which they stop the process as published."""
