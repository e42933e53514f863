"""The page of ``lockstep explore``: jobs under three schedulers in slow motion, in one file."""

import base64
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from markupsafe import Markup

from harness.analyse.timelines import STATES, Span, lanes, spans
from harness.predict.parameter_grid import PANELS, ParameterGrid
from harness.report.rendering import rendered
from harness.spec.naming import scheduler_name
from harness.store.records import SIMULATED, RunRecord

MOST_BYTES = 2_700_000  # most bytes of the data of a page, which has at most 3 MB

COLOURS = ("computing", "communicating", "synchronizing", "switching", "muted", "grid")
LOOKS = dict(zip(STATES, zip(COLOURS, (1.0, 0.75, 0.6, 0.4, 0.12, 0.12), strict=True), strict=True))
"""Colour and height of each state, so that no state needs a colour to be told from others."""


Traced = tuple[RunRecord, Sequence[Span]]  # a run, and the spans of its timeline


def html(
    grid: ParameterGrid, simulated: Sequence[RunRecord], measured: Mapping[str, Traced], machine: str
) -> str:
    """The page, with measured runs by their policies; ``machine`` says whose constants simulations have."""
    cell = grid.experiment.cells[grid.own[1]]
    order: list[Mapping[str, Any]] = [one.table for one in grid.experiment.schedulers]
    about = {
        "sliders": grid.values,
        "own": grid.own,
        "looks": LOOKS,
        "measured": [[*PANELS].index(policy) for policy in measured],
        "processes": [(job.number, rank) for job in cell.jobs() for rank in range(job.program.processes)],
    }
    ours = [one for one in simulated if one.kind == SIMULATED]
    ours.sort(key=lambda one: (one.cell, order.index(one.scheduler)))
    runs = []
    for one in ours:
        traced = ((rank, rank.timeline) for rank in one.ranks if rank.timeline)
        runs.append((one, [span for rank, text in traced for span in spans(rank, base64.b64decode(text))], 0))
    for record, measurement in measured.values():
        runs.append((record, [*measurement], max(rank.start_ns for rank in record.ranks)))
    window_ns = grid.window_ns
    while len(text := _lanes(about, runs, window_ns)) > MOST_BYTES:
        window_ns = window_ns * 2 // 3
    return rendered(
        "explore",
        name=grid.experiment.name,
        cell=cell,
        machine=machine,
        window=f"{window_ns / 1e6:.3g} ms",
        panels=PANELS.values(),
        data=Markup(text.replace("<", "\\u003c")),
        script=Markup(resources.files("harness.report").joinpath("explore.js").read_text(encoding="utf-8")),
        **about,
    )


def _lanes(
    about: Mapping[str, Any], runs: Sequence[tuple[RunRecord, Sequence[Span], int]], window_ns: int
) -> str:
    """The data of a page with all runs, each from its time on: of each state its length and its code."""
    runs_shown = []
    for record, traced_run, begin_ns in runs:
        run_lanes = lanes(traced_run, about["processes"], record.processors, (begin_ns, begin_ns + window_ns))
        shown = [(np.diff(begins, append=window_ns).tolist(), codes.tolist()) for begins, codes in run_lanes]
        runs_shown.append(
            {"name": scheduler_name(record.scheduler), "lanes": shown, "failure": record.failure}
        )
    return json.dumps({**about, "runs": runs_shown, "window": window_ns}, separators=(",", ": "))
