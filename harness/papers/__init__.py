"""The papers whose results Lockstep reproduces: sweeps of simulations, and figures and claims about them.

A paper is a module ``harness.papers.NAME`` with a ``PAPER``, which declares the simulation of a cell, the
cells and the drawing of each figure, and the paper's sentences about the figures, each with its check.
"""

import importlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.measure.time_left import Guess, alike
from harness.predict.pool import Progress, compute, compute_apart, forget
from harness.predict.replicate import Mean
from workloads.bounds import within
from workloads.validation import InputError, one_of

if TYPE_CHECKING:
    from matplotlib import axes, figure

    from harness.papers.kept import KeptCells

    Axes = axes.Axes
    Picture = figure.Figure
else:  # slow to load, and needed only after simulations
    Axes = Picture = Any

PAPERS: Mapping[str, str] = {
    "anastasiadis97": (
        "Anastasiadis and Sevcik 1997, Parallel Application Scheduling on Networks of Workstations"
    ),
    "dusseau96": "Dusseau, Arpaci, Culler 1996, Effective Distributed Scheduling of Parallel Workloads",
    "hori96": "Hori et al. 1996, Time Space Sharing Scheduling and Architectural Support",
    "survey": "Markatos and LeBlanc 1999, Multiprogramming Multiprocessors (a survey)",
    "zhou97": "Zhou, Brent, Qu 1997, An Efficient Scheduling Algorithm for Multiprogramming",
}

HOLDS = "holds"
FAILS = "does not hold"
OPEN = "not significant"
CONTRADICTED = "contradicts the paper itself"
"""The sentence does not hold here, and the paper's own result elsewhere, which does, excludes it."""
ARITHMETIC = "arithmetic"
"""It follows from definitions and constants that were put in, so that nothing was tested."""


class Cell(SimpleNamespace):
    """One simulation of a sweep: its parameters by name. It does not change."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(vars(self).items()))

    def but(self, **parameters: Any) -> "Cell":
        return Cell(**vars(self) | parameters)

    def has(self, **parameters: Any) -> bool:
        """Whether it has these values of parameters; a collection allows each of its elements."""
        return all(
            getattr(self, name, None) in (value if isinstance(value, list | tuple) else (value,))
            for name, value in parameters.items()
        )


def sweep(**parameters: Iterable[Any]) -> list[Cell]:
    """The cells with all combinations of the parameters' values; the last parameter changes first."""
    return [Cell(**dict(zip(parameters, values, strict=True))) for values in product(*parameters.values())]


class Results(dict[Cell, Any]):
    """The outcome of every cell; all simulations had the same seed."""

    def __init__(self, outcomes: Iterable[tuple[Cell, Any]] = (), seed: int = 1) -> None:
        super().__init__(outcomes)
        self.seed = seed

    def where(self, **parameters: Any) -> "Results":
        return Results(((cell, value) for cell, value in self.items() if cell.has(**parameters)), self.seed)

    def column(self, name: str) -> list[Any]:
        return [getattr(outcome, name) for outcome in self.values()]


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, what the simulations gave, and whether it holds."""

    text: str
    found: str
    verdict: str
    places: tuple[str, ...] = ()  # the two places of the paper that contradict each other

    def __post_init__(self) -> None:
        one_of("verdict", self.verdict, (HOLDS, FAILS, OPEN, CONTRADICTED, ARITHMETIC))
        if len(self.places) != (2 if self.verdict == CONTRADICTED else 0):
            raise InputError(
                "places",
                self.places,
                f"a claim that {self.verdict} has {2 if self.verdict == CONTRADICTED else 0}",
                "name both places of the paper",
            )


Finding = tuple[str, str | bool] | tuple[str, str, tuple[str, ...]]
"""What the simulations gave, in words, and a verdict, or whether the sentence holds; and a claim's places."""

Check = Callable[..., Finding | Iterable[Finding]]


@dataclass(frozen=True)
class PaperFigure:
    """A figure: its caption, its picture, and the cells that it shows."""

    caption: str
    draw: Callable[[Results], Picture]
    cells: Sequence[Cell] = ()
    besides: Sequence[Cell] = ()  # what claims about the figure need, too


@dataclass(frozen=True)
class Paper:
    """How to reproduce a paper."""

    figures: Mapping[str, PaperFigure]  # by their numbers
    quick: str  # the effect of quick mode
    # Makes the outcome of a cell; it has the parameters ``cell``, ``quick`` and ``seed``.
    simulate: Callable[..., Any]
    # Rows of plain values for the JSON document, from the results and the figures wanted.
    rows: Callable[[Results, Sequence[str]], Iterable[dict[str, Any]]]
    # About how long a cell takes; it has the parameters ``cell`` and ``quick``.
    guess: Callable[..., Guess] = lambda cell, quick: alike(cell)
    # A key that sorts cells; by default they stay in the order of the figures.
    order: Callable[[Cell], Any] = lambda cell: 0
    # Whether simulations are in Python, so that several at a time need several processes.
    apart: bool = False
    # By figure sentences, their checks and the values for both; see ``claim``.
    checks: defaultdict[str, list[tuple[list[str], Check, tuple[Any, ...]]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def claim(self, figure: str, *texts: str, each: Iterable[Any] = ((),)) -> Callable[[Check], Check]:
        """Decorates the check of a sentence about a figure, or of several: ``check(results)``.

        It gives a finding for each sentence. There are such sentences for ``each`` value or tuple of values:
        their texts have places for the values, and ``check(results, *values)`` receives them.
        """

        def added(check: Check) -> Check:
            for one in each:
                values = one if isinstance(one, tuple) else (one,)
                self.checks[figure].append(([text.format(*values) for text in texts], check, values))
            return check

        return added

    def claims(self, figures: Iterable[str], results: Results) -> Iterator[tuple[str, Claim]]:
        """Every sentence about the figures, checked on the results: pairs of figure and claim."""
        for figure in figures:
            for texts, check, values in self.checks[figure]:
                answers = check(results, *values)
                findings = [answers] if isinstance(answers, tuple) else answers
                for text, (text_found, holds, *places) in zip(texts, findings, strict=True):
                    yield (
                        figure,
                        Claim(text, text_found, holds if isinstance(holds, str) else verdict(holds), *places),
                    )

    def results(
        self,
        figures: Iterable[str],
        quick: bool,
        seed: int,
        progress: Progress,
        kept: "KeptCells | None" = None,
    ) -> Results:
        """The outcomes of all cells of ``figures``; those that are not ``kept`` are simulated, and kept."""
        shown = [self.figures[figure] for figure in figures]
        cells = [cell for figure in shown for cell in figure.cells]
        cells += [cell for figure in shown for cell in figure.besides]
        cells = sorted(dict.fromkeys(cells), key=self.order)
        values_of = {
            cell: value for cell in cells if kept is not None and (value := kept.of(cell)) is not None
        }
        missing = [cell for cell in cells if cell not in values_of]
        work = partial(_with_cell, partial(self.simulate, quick=quick, seed=seed))
        run = compute_apart if self.apart else compute
        keep = (lambda pair: kept.add(*pair)) if kept is not None else forget
        if missing:
            values_of |= run(missing, work, progress, keep=keep, guess=partial(self.guess, quick=quick))
        return Results(((cell, values_of[cell]) for cell in cells), seed)


def _with_cell(simulate: Callable[[Cell], Any], cell: Cell) -> tuple[Cell, Any]:
    return cell, simulate(cell)


@dataclass(frozen=True)
class Reproduction:
    """A paper's ``figures``, the results for them, pairs of figure and claim, and a ``note`` for readers."""

    paper: str
    figures: Sequence[str]
    results: Results
    claims: Sequence[tuple[str, Claim]]
    note: str = ""

    def document(self) -> dict[str, Any]:
        """Everything but the pictures, as one JSON document."""
        return {
            "schema": 1,
            "paper": self.paper,
            "title": PAPERS[self.paper],
            "figures": list(self.figures),
            "note": self.note,
            "cells": list(of_name(self.paper).rows(self.results, self.figures)),
            "claims": [self._claim(*one) for one in self.claims],
        }

    def _claim(self, figure: str, claim: Claim) -> dict[str, Any]:
        """A claim, and the ``reason`` if it does not hold: the heading in our documentation; else empty."""
        failed = claim.verdict in (FAILS, CONTRADICTED)
        reason = f"docs/{self.paper}.md#figure-{figure}" if failed else ""
        return {"figure": figure, **vars(claim), "places": list(claim.places), "reason": reason}

    def draw(self, folder: Path) -> list[Path]:
        """Write every figure into ``folder`` as a picture; returns their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for figure in self.figures:
            path = folder / f"{self.paper}-{figure}.png"
            picture = of_name(self.paper).figures[figure].draw(self.results)
            picture.savefig(path, dpi=110, metadata={"Software": None})
            paths.append(path)
        return paths


def verdict(holds: bool, significant: bool = True) -> str:
    """HOLDS or FAILS; OPEN if the difference is not significant."""
    return (HOLDS if holds else FAILS) if significant else OPEN


def below(mean: Mean, bound: float) -> str:
    """Whether a mean is below a bound; OPEN if the difference is not significant."""
    return verdict(mean.mean < bound, mean.apart(bound))


def arithmetic(follows: bool) -> str:
    """ARITHMETIC, or FAILS if the computation itself is wrong."""
    return ARITHMETIC if follows else FAILS


def words(form: str, found: Mapping[Any, Any]) -> str:
    """What was found, each name and value in this form."""
    return ", ".join(form.format(name, value) for name, value in found.items())


def of_name(paper: str) -> Paper:
    paper_model: Paper = importlib.import_module(f"harness.papers.{paper}").PAPER
    return paper_model


def kept_cells(paper: str, results: Path, *, quick: bool, seed: int) -> "KeptCells":
    """The place in the directory for records where a reproduction keeps what it has simulated."""
    from harness.papers.kept import KeptCells  # noqa: PLC0415 - slow to load

    one_of("paper", paper, PAPERS)
    module = Path(__file__).with_name(f"{paper}.py")
    return KeptCells(results, {"paper": paper, "quick": quick, "seed": seed}, module)


def reproduce(
    paper: str,
    figures: Iterable[str] | None = None,
    *,
    quick: bool = False,
    seed: int = 1,
    progress: Progress = lambda *step: None,
    kept: "KeptCells | None" = None,
) -> Reproduction:
    """Reproduce ``paper``, or some of its figures; the same seed gives the same result.

    What is ``kept`` is not simulated again (:func:`kept_cells`).
    """
    one_of("paper", paper, PAPERS)
    within("seed", seed)
    model = of_name(paper)
    names = list(model.figures if figures is None else figures)
    for figure in names:
        one_of("figure", figure, model.figures)
    results = model.results(names, quick, seed, progress, kept)
    note = f"quick: {model.quick}" if quick else ""
    return Reproduction(paper, names, results, list(model.claims(names, results)), note)


def panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Picture, Any]:
    """A picture of that size in inches, and its panels: an array of rows of axes."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to load, and needed only after simulations

    picture = Figure(figsize=(width, height), layout="constrained")
    return picture, picture.subplots(rows, columns, squeeze=False, **options)


def grouped_bars(
    axes: Axes,
    groups: Sequence[str],
    heights: Mapping[str, Sequence[float]],
    colors: Sequence[str | None] = (),
    below: Mapping[str, Sequence[float]] | None = None,
    **style: Any,
) -> None:
    """In each group a bar for each label, on top of those ``below``."""
    width = 0.8 / len(heights)
    for index, (label, values) in enumerate(heights.items()):
        places = np.arange(len(groups)) + width * (index + 0.5) - 0.4
        bottom = below[label] if below else 0.0
        color = colors[index] if colors else None
        axes.bar(places, values, width, bottom, color=color, label=None if below else label, **style)
    axes.set_xticks(range(len(groups)), groups)
