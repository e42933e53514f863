"""The figure for Ousterhout 1982."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from harness.papers.ousterhout82.model import PackingCell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from harness.papers.ousterhout82.model import Results


def draw(figure: str, results: Results) -> Figure:
    """Processors that run coscheduled processes, and the spread of processes, by packing, sizes and jobs."""
    distributions = list(dict.fromkeys(cell.distribution for cell in results))
    picture = Figure(figsize=(12, 7.5), layout="constrained")
    every = picture.subplots(2, len(distributions), sharey="row")
    for column, distribution in enumerate(distributions):
        _bars(every[0, column], results, distribution, "busy")
        _bars(every[1, column], results, distribution, "spread")
        every[0, column].set(title=distribution, ylim=(0, 1))
        every[0, column].axhline(0.8, color="grey", linewidth=0.6)
        every[1, column].set_xlabel("jobs in the system")
    every[0, 0].set_ylabel("processors that run coscheduled processes")
    every[1, 0].set_ylabel("processes per processor, most minus fewest")
    handles, labels = every[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    return picture


def _bars(axes: Axes, results: Results, distribution: str, value: str) -> None:
    systems = list(dict.fromkeys(cell.system for cell in results))
    populations = sorted({cell.population for cell in results})
    width = 0.8 / len(systems)
    for index, system in enumerate(systems):
        cells = [PackingCell(system, distribution, population) for population in populations]
        heights = [getattr(results[cell], value).mean for cell in cells]
        axes.bar(np.arange(len(populations)) + width * (index + 0.5) - 0.4, heights, width, label=system)
    axes.set_xticks(range(len(populations)), [str(population) for population in populations])
