"""The figure for Ousterhout 1982."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from harness.papers.ousterhout82.model import Results


def draw(figure: str, results: Results) -> Figure:
    """Share of the processors that run coscheduled processes, by packing, sizes and number of jobs."""
    systems = list(dict.fromkeys(cell.system for cell in results))
    distributions = list(dict.fromkeys(cell.distribution for cell in results))
    populations = sorted({cell.population for cell in results})
    picture = Figure(figsize=(12, 4.5), layout="constrained")
    for axes, distribution in zip(
        picture.subplots(1, len(distributions), sharey=True), distributions, strict=True
    ):
        width = 0.8 / len(systems)
        for index, system in enumerate(systems):
            heights = [
                next(
                    mean.mean
                    for cell, mean in results.items()
                    if (cell.system, cell.distribution, cell.population) == (system, distribution, population)
                )
                for population in populations
            ]
            places = np.arange(len(populations)) + width * (index + 0.5) - 0.4
            axes.bar(places, heights, width, label=system)
        axes.set_xticks(range(len(populations)), [str(population) for population in populations])
        axes.set(title=distribution, xlabel="jobs in the system", ylim=(0, 1))
        axes.axhline(0.8, color="grey", linewidth=0.6)
    picture.axes[0].set_ylabel("processors that run coscheduled processes")
    handles, labels = picture.axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=len(systems), fontsize=8)
    return picture
