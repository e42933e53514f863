"""The survey's sentences about Ousterhout's packings, checked."""

from __future__ import annotations

import numpy as np

from harness.papers import Claim, verdict
from harness.papers.ousterhout82.model import DISTRIBUTIONS, POPULATIONS, PackingCell, Results


def _packings(results: Results) -> list[Claim]:

    def values(system: str) -> list[float]:
        return [mean.mean for cell, mean in results.items() if cell.system == system]

    def mean(system: str) -> float:
        return float(np.mean(values(system)))

    matrix = mean("matrix")
    span = f"{min(values('matrix')):.0%} to {max(values('matrix')):.0%}"
    better = sum(
        results[PackingCell("continuous", c.distribution, c.population)].mean >= m.mean - 0.005
        for c, m in results.items()
        if c.system == "matrix"
    )
    cells = len(DISTRIBUTIONS) * len(POPULATIONS)
    buddy = [
        results[PackingCell(s, "powers of two", n)].mean for s in ("buddy", "matrix") for n in POPULATIONS
    ]
    return [
        Claim(
            "under the matrix algorithm about 80 % of the processors run coscheduled processes on average",
            f"{matrix:.0%} on average, {span} by workload",
            verdict(0.7 <= matrix <= 0.9),
        ),
        Claim(
            "in the worst case about half of the processors are idle under the matrix algorithm",
            f"lowest mean {min(values('matrix')):.0%}",
            verdict(min(values("matrix")) >= 0.5),
        ),
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
        Claim(
            "where sizes are powers of two, a buddy hierarchy balances the load as well as the matrix",
            f"{np.mean(buddy[:4]):.0%} against {np.mean(buddy[4:]):.0%}",
            verdict(bool(np.mean(buddy[:4]) >= np.mean(buddy[4:]) - 0.02)),
        ),
        Claim(
            "filling holes with other jobs and unifying slots use more of the machine",
            f"{mean('matrix, holes filled'):.0%} and {mean('matrix, unified'):.0%} against {matrix:.0%}",
            verdict(min(mean("matrix, holes filled"), mean("matrix, unified")) > matrix),
        ),
    ]


CLAIMS = {"1": _packings}
