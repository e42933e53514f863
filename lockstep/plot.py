"""The report's pictures of :class:`lockstep.Results`, as figures of matplotlib."""

from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.figure import Figure

from harness.analyse.rows import Row
from harness.report import charts, style
from lockstep.results import Results
from workloads.validation import InputError

WIDTH = 1000


def slowdowns(results: Results, width: int = WIDTH) -> Figure:
    """The workload slowdown under each scheduler, measured and simulated; ``width`` in pixels."""
    return _drawn(charts.slowdowns, results, width)


def breakdowns(results: Results, width: int = WIDTH) -> Figure:
    """The breakdown of the CPU time under each scheduler."""
    return _drawn(charts.breakdowns, results, width)


def maps(results: Results, width: int = WIDTH) -> Figure:
    """The slowdown over granularity and imbalance.

    Raises:
        InputError: unless a sweep varies both.
    """
    return _drawn(charts.maps, results, width)


def _drawn(draw: Callable[[Sequence[Row], int], Figure | None], results: Results, width: int) -> Figure:
    figure = style.drawn(partial(draw, results.found.rows, width))
    if figure is None:
        raise InputError(
            "results",
            results.experiment,
            "the results have no data for this picture",
            "record more, or choose another picture",
        )
    return figure
