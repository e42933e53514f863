"""How programs fare beside each other, two at a time: a matrix as a table, as values, and as a heat map."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from harness.analyse.columns import UNKNOWN, fixed
from harness.analyse.results_document import ResultsDocument
from harness.analyse.sharing import advice
from harness.report.cells import Table, table
from harness.report.style import LIGHT


@dataclass(frozen=True)
class Pairs:
    """Results of pairs of programs."""

    names: Sequence[str]  # of all programs
    found: Mapping[tuple[int, int], ResultsDocument]  # by the numbers of both programs, the lower one first

    def slowdown(self, program: int, beside: int) -> float | None:
        """The slowdown of a program beside another one, under no policy; None for itself, or without runs."""
        first, second = sorted((program, beside))
        if first == second or (pair := self.found[first, second].rows[0].measured) is None:
            return None
        return pair.slowdown.per_job[0 if program == first else 1] if pair.slowdown else None

    def lines(self) -> Iterator[dict[str, Any]]:
        """A line for each program alongside each other one, with the workload slowdown of the two."""
        for one, other in permutations(range(len(self.names)), 2):
            pair = self.found[min(one, other), max(one, other)]
            sentence = advice(pair.rows)
            row = pair.rows[0]
            yield {
                "program": self.names[one],
                "beside": self.names[other],
                "slowdown": self.slowdown(one, other),
                "workload_slowdown": row.median("measured"),
                "n": row.repeats,
                "way": sentence and sentence.best.kind,
            }


def of(results: Mapping[tuple[int, int], ResultsDocument]) -> Pairs:
    """The pairs with names for their programs: short ones, with the numbers of jobs."""
    jobs = {}
    for (first, second), pair in results.items():
        jobs[first], jobs[second] = (job.work for job in pair.rows[0].jobs)
    return Pairs([f"{number} {jobs[number].short_name}" for number in sorted(jobs)], results)


def text(pairs: Pairs) -> Table:
    """The matrix: the slowdown of the program of a line alongside the program of a column."""
    report_table = table(["slowdown of\nbeside"], [name.replace(" ", "\n", 1) for name in pairs.names])
    every = range(len(pairs.names))
    for one in every:
        report_table.add_row(pairs.names[one], *(fixed(pairs.slowdown(one, other)) for other in every))
    return report_table


def heat_map(pairs: Pairs) -> Figure:
    every = range(len(pairs.names))
    matrix = [[pairs.slowdown(one, other) for other in every] for one in every]
    side = 1.6 + 0.9 * len(pairs.names)
    figure = Figure(figsize=(side + 0.6, side), layout="constrained")
    axes = figure.subplots()
    values = [[float("nan") if value is None else value for value in line] for line in matrix]
    colours = LinearSegmentedColormap.from_list("slowdown", [LIGHT["band"], LIGHT["outside"]])
    most = max([2.0, *(value for line in matrix for value in line if value)])
    axes.imshow(values, cmap=colours, vmin=1.0, vmax=most)
    for one, other in product(every, repeat=2):
        value = matrix[one][other]
        dark = value is not None and value > (1 + most) / 2
        shown = UNKNOWN if value is None else fixed(value)
        axes.text(other, one, shown, ha="center", va="center", color=LIGHT["surface" if dark else "ink"])
    axes.set_xticks(list(every), pairs.names, rotation=45, ha="right")
    axes.set_yticks(list(every), pairs.names)
    axes.grid(visible=False)
    axes.set_title("Slowdown of a program (line) beside another (column)", loc="left")
    return figure
