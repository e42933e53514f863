"""The papers whose results Lockstep reproduces: ``harness.papers.NAME`` for each.

Each package has three modules:

- ``model``: ``FIGURES``, a caption for each figure by its number; ``QUICK``, the effect of quick mode;
  ``simulate_figures(figures, quick, seed, progress)``, which makes the results for the figures; and
  ``rows(results, figures)``, one row of plain values for every point.
- ``claims``: ``CLAIMS``, for each figure the function that checks the paper's sentences on the results.
- ``figures``: ``draw(figure, results)``, a picture.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.predict.pool import Progress
from workloads.bounds import within
from workloads.validation import InputError, one_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPERS: Mapping[str, str] = {
    "anastasiadis97": (
        "Anastasiadis and Sevcik 1997, Parallel Application Scheduling on Networks of Workstations"
    ),
    "dusseau96": "Dusseau, Arpaci, Culler 1996, Effective Distributed Scheduling of Parallel Workloads",
    "hori96": "Hori et al. 1996, Time Space Sharing Scheduling and Architectural Support",
    "ousterhout82": "Ousterhout 1982, Scheduling Techniques for Concurrent Systems (as told in a survey)",
    "survey": "Markatos and LeBlanc 1999, Multiprogramming Multiprocessors (a survey)",
    "zhou97": "Zhou, Brent, Qu 1997, An Efficient Scheduling Algorithm for Multiprogramming",
}

HOLDS, FAILS, OPEN = "holds", "does not hold", "not significant"
CONTRADICTED = "contradicts the paper itself"
"""The sentence does not hold here, and the paper's own result elsewhere, which does, excludes it."""
ARITHMETIC = "arithmetic"
"""It follows from definitions and constants that were put in, so that nothing was tested."""


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, what the simulations gave, and whether it holds.

    ``places`` are the two places of the paper that contradict each other; empty for other verdicts.
    """

    text: str
    found: str
    verdict: str
    places: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        one_of("verdict", self.verdict, (HOLDS, FAILS, OPEN, CONTRADICTED, ARITHMETIC))
        if len(self.places) != (2 if self.verdict == CONTRADICTED else 0):
            rule = f"a claim that {self.verdict} has {2 if self.verdict == CONTRADICTED else 0}"
            raise InputError("places", self.places, rule, "name both places of the paper")


@dataclass(frozen=True)
class Reproduction:
    """The results for a paper.

    Attributes:
        paper: its name here.
        figures: the figures that were made.
        cells: one row of plain values for every point that was simulated.
        claims: pairs of figure and claim.
        drawings: for each figure the function that draws it.
        note: for readers, such as that quick mode was used; may be empty.
    """

    paper: str
    figures: Sequence[str]
    cells: Sequence[Mapping[str, Any]]
    claims: Sequence[tuple[str, Claim]]
    drawings: Mapping[str, Callable[[], Figure]]
    note: str = ""

    def document(self) -> dict[str, Any]:
        """Everything but the pictures, as one JSON document."""
        return {
            "schema": 1,
            "paper": self.paper,
            "title": PAPERS[self.paper],
            "figures": list(self.figures),
            "note": self.note,
            "cells": [dict(cell) for cell in self.cells],
            "claims": [
                {
                    "figure": figure,
                    **vars(claim),
                    "places": list(claim.places),
                    "why": self.explanation(figure, claim),
                }
                for figure, claim in self.claims
            ],
        }

    def explanation(self, figure: str, claim: Claim) -> str:
        """The heading in our documentation on a claim that does not hold; empty for other claims."""
        return f"docs/{self.paper}.md#figure-{figure}" if claim.verdict in (FAILS, CONTRADICTED) else ""

    def draw(self, folder: Path) -> list[Path]:
        """Write every figure into ``folder`` as a picture; returns their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        made = []
        for figure, drawing in self.drawings.items():
            path = folder / f"{self.paper}-{figure}.png"
            drawing().savefig(path, dpi=110, metadata={"Software": None})
            made.append(path)
        return made


def verdict(holds: bool, significant: bool = True) -> str:
    """HOLDS or FAILS; OPEN if the difference is not significant."""
    return (HOLDS if holds else FAILS) if significant else OPEN


def arithmetic(follows: bool) -> str:
    """ARITHMETIC, or FAILS if the computation itself is wrong."""
    return ARITHMETIC if follows else FAILS


def reproduce(
    paper: str,
    figures: Iterable[str] | None = None,
    *,
    quick: bool = False,
    seed: int = 1,
    progress: Progress = lambda *step: None,
) -> Reproduction:
    """Reproduce ``paper``, or some of its figures; the same seed gives the same result.

    Raises:
        InputError: for a paper or figure that is not known.
    """
    one_of("paper", paper, PAPERS)
    within("seed", seed)
    model = _module(paper, "model")
    wanted = list(model.FIGURES if figures is None else figures)
    for figure in wanted:
        one_of("figure", figure, model.FIGURES)
    results = model.simulate_figures(wanted, quick, seed, progress)
    draw = _module(paper, "figures").draw  # after the simulations: matplotlib is slow to load
    return Reproduction(
        paper,
        wanted,
        list(model.rows(results, wanted)),
        [(figure, claim) for figure in wanted for claim in _module(paper, "claims").CLAIMS[figure](results)],
        {figure: partial(draw, figure, results) for figure in wanted},
        f"quick: {model.QUICK}" if quick else "",
    )


def _module(paper: str, name: str) -> Any:
    return importlib.import_module(f"harness.papers.{paper}.{name}")
