"""Figures and rows of papers on stored results."""

import json
from itertools import pairwise

import paper_results
import pytest

from harness import papers
from harness.papers import dusseau96


@pytest.mark.parametrize("paper", ["anastasiadis97", "hori96"])  # of others not all columns are stored
def test_numbers_without_end_are_no_numbers_of_the_document(paper):
    results, _ = paper_results.read(paper)
    document = papers.Reproduction(paper, [*papers.of_name(paper).figures], results, []).document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def drawn(paper, figure):
    results, _ = paper_results.read(paper)
    return papers.of_name(paper).figures[figure].draw(results), results


def test_a_curve_has_one_value_for_each_load():
    picture, _ = drawn("hori96", [*papers.of_name("hori96").figures][-1])
    curves = [line.get_xdata() for axes in picture.axes for line in axes.lines if line.get_marker() != "None"]
    assert len(curves) > 3
    assert all(before < after for loads in curves for before, after in pairwise(loads))


@pytest.mark.parametrize("figure", ["2", "3"])
def test_bars_are_as_high_as_the_slowdown_or_shares_of_one(figure):
    picture, results = drawn("dusseau96", figure)
    heights = [
        sum(parts[place].get_height() for parts in axes.containers)
        for axes in picture.axes
        for place in range(len(axes.containers[0]))
    ]
    slowdowns = [dusseau96.slowdown(results, cell).mean for cell in dusseau96.PAPER.figures[figure].cells]
    assert heights == pytest.approx(slowdowns if figure == "3" else [1.0] * len(slowdowns), rel=1e-3)
