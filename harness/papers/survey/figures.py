"""The pictures of the survey's rules that allocate processors, and of the costs of moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from harness.papers.survey.model import EQUAL, LOADS, RULES, VARIANCES, RuleCell
from harness.papers.survey.moving import MOVES

if TYPE_CHECKING:
    from harness.papers.survey.model import RuleResults

TOP = 3.0
"""Where the axis ends; bars of rules that cannot keep up reach it."""


def draw(figure: str, results: RuleResults) -> Figure:
    """Response times over those of equal shares by variance, rule and load; or times of moves by system."""
    return _moves() if figure == "2" else _rules(results)


def _moves() -> Figure:
    picture = Figure(figsize=(9, 5), layout="constrained")
    axes = picture.subplots()
    places = np.arange(len(MOVES))
    for shift, name, label in (
        (-0.2, "stopped_s", "stopped"),
        (0.2, "total_s", "until nothing more must come"),
    ):
        axes.barh(places + shift, [getattr(move.cost, name) for move in MOVES], 0.4, label=label)
    axes.set_yticks(places, [f"{move.system}, {move.migration.size_mb:.3g} MB" for move in MOVES], fontsize=8)
    axes.set(xscale="log", xlabel="seconds")
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    return picture


def _rules(results: RuleResults) -> Figure:
    rules = [rule for rule in RULES if rule != EQUAL]
    picture = Figure(figsize=(12, 7.5), layout="constrained")
    every = picture.subplots(len(VARIANCES), 1, sharex=True)
    width = 0.8 / len(LOADS)
    for axes, variance in zip(every, VARIANCES, strict=True):
        for index, load in enumerate(LOADS):
            ratios = [results.over(EQUAL, RuleCell(variance, load, rule)) for rule in rules]
            places = np.arange(len(rules)) + width * (index + 0.5) - 0.4
            axes.bar(places, [min(TOP, one.mean) for one in ratios], width, label=f"load {load:.0%}")
        axes.axhline(1, color="black", linewidth=0.6)
        axes.set(title=f"{variance} variance of work", ylim=(0, TOP), ylabel="response time / equal shares'")
    every[-1].set_xticks(range(len(rules)), [rule.replace(" of ", "\nof ") for rule in rules], fontsize=8)
    every[0].legend(fontsize=8)
    return picture
