"""The survey's sentences about Ousterhout's packings, checked."""

from __future__ import annotations

import numpy as np

from harness.papers import Claim, verdict
from harness.papers.ousterhout82.model import (
    DISTRIBUTIONS,
    POPULATIONS,
    PackingCell,
    Results,
    idle,
    most_idle,
)

ABOUT = 0.05
"""The survey's "about 80 %" and "about half" are whole tenths."""


def _packings(results: Results) -> list[Claim]:

    def values(system: str) -> list[float]:
        return [packed.busy.mean for cell, packed in results.items() if cell.system == system]

    def mean(system: str) -> float:
        return float(np.mean(values(system)))

    matrix = mean("matrix")
    halves = [packed.busy.half or 0.0 for cell, packed in results.items() if cell.system == "matrix"]
    half = float(np.linalg.norm(halves)) / len(halves)
    span = f"{min(values('matrix')):.0%} to {max(values('matrix')):.0%}"
    better = sum(
        results[PackingCell("continuous", c.distribution, c.population)].busy.mean >= m.busy.mean - 0.005
        for c, m in results.items()
        if c.system == "matrix"
    )
    cells = len(DISTRIBUTIONS) * len(POPULATIONS)
    return [
        Claim(
            "under the matrix algorithm about 80 % of the processors run coscheduled processes on average",
            f"{matrix:.1%} +- {half:.1%} on average, {span} by workload",
            verdict(abs(matrix - 0.8) <= ABOUT, abs(abs(matrix - 0.8) - ABOUT) > half),
        ),
        *_worst(results),
        Claim(
            "the continuous algorithm packs better than the matrix algorithm",
            f"{mean('continuous'):.0%} against {matrix:.0%}; not worse in {better} of {cells} workloads",
            verdict(mean("continuous") > matrix, abs(mean("continuous") - matrix) > 0.005),
        ),
        Claim(
            "the undivided algorithm reduces the fragmentation that arises in the continuous one",
            f"{mean('undivided'):.0%} against {mean('continuous'):.0%}",
            verdict(
                mean("undivided") > mean("continuous"), abs(mean("undivided") - mean("continuous")) > 0.005
            ),
        ),
        _balance(results),
        Claim(
            "filling holes with other jobs and unifying slots use more of the machine",
            f"{mean('matrix, holes filled'):.0%} and {mean('matrix, unified'):.0%} against {matrix:.0%}",
            verdict(min(mean("matrix, holes filled"), mean("matrix, unified")) > matrix),
        ),
    ]


def _worst(results: Results) -> list[Claim]:
    """The survey's example has jobs of 4 and 5 on 8 processors: 7 of 16 slots are empty."""
    example = idle((4, 5), 8)
    most, sizes = most_idle(8, 4)
    shown = " and ".join(map(str, sizes))
    lowest = min(packed.lowest for cell, packed in results.items() if cell.system == "matrix")
    return [
        Claim(
            "in the worst case the matrix algorithm leaves about half of the processors idle, as jobs come",
            f"{example:.0%} in the survey's example; at most {most:.0%} with up to 4 jobs ({shown}; P = 8)",
            verdict(example == 7 / 16 and abs(most - 0.5) <= 0.5 / 8),
        ),
        Claim(
            "in the worst case the matrix algorithm leaves about half of them idle, as jobs come and leave",
            f"up to {1 - lowest:.0%} between two decisions",
            verdict(1 - lowest <= 0.5 + ABOUT),
        ),
    ]


def _balance(results: Results) -> Claim:
    """Processes per processor: the difference between the most and the fewest, powers of two."""
    pairs = [
        [results[PackingCell(system, "powers of two", n)].spread for n in POPULATIONS]
        for system in ("hierarchical control", "matrix")
    ]
    words = ", ".join(
        f"{ours.mean:.2f} against {theirs.mean:.2f} ({n} jobs)"
        for n, ours, theirs in zip(POPULATIONS, *pairs, strict=True)
    )
    apart = [
        abs(theirs.mean - ours.mean) > (ours.half or 0) + (theirs.half or 0)
        for ours, theirs in zip(*pairs, strict=True)
    ]
    lower = [ours.mean < theirs.mean for ours, theirs in zip(*pairs, strict=True)]
    worse = any(far and not low for far, low in zip(apart, lower, strict=True))
    return Claim(
        "where sizes are powers of two, hierarchical control balances the load across processors",
        f"processes per processor, most minus fewest, against the matrix: {words}",
        verdict(not worse, worse or any(apart)),
    )


CLAIMS = {"1": _packings}
