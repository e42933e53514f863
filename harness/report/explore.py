"""The page of ``lockstep explore``: jobs under three schedulers in slow motion, in one file."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from markupsafe import Markup

from harness.analyse.lanes import STATES, lanes
from harness.analyse.timelines import Span, spans
from harness.predict.neighbourhood import Neighbourhood
from harness.report.rendering import rendered
from harness.spec.naming import scheduler_name
from harness.store.records import SIMULATED, RunRecord
from workloads.work import duration_name

MOST_BYTES = 2_700_000
"""Most bytes of the data of a page, which has at most 3 MB."""

PANELS = {"none": "none", "implicit": "two-phase", "gang": "gang"}
"""The policies that stand side by side, with the headings of their panels."""

COLOURS = ("computing", "communicating", "synchronizing", "switching", "muted", "grid")
LOOKS = dict(zip(STATES, zip(COLOURS, (1.0, 0.75, 0.6, 0.4, 0.12, 0.12), strict=True), strict=True))
"""Colour and height of each state, so that no state needs a colour to be told from others."""

Measured = Mapping[str, tuple[RunRecord, Sequence[Span]]]
"""Measured runs by their policies, each with the states of its ranks."""


def html(around: Neighbourhood, simulated: Sequence[RunRecord], measured: Measured, machine: str) -> str:
    """The page; ``machine`` says whose constants the simulations have."""
    cell = around.experiment.cells[around.own[1]]
    order: list[Mapping[str, Any]] = [one.table for one in around.experiment.schedulers]
    about = {
        "sliders": around.values,
        "own": around.own,
        "looks": LOOKS,
        "measured": [[*PANELS].index(policy) for policy in measured],
        "processes": [(job.number, rank) for job in cell.jobs() for rank in range(job.program.processes)],
    }
    ours = [one for one in simulated if one.kind == SIMULATED]
    ours.sort(key=lambda one: (one.cell, order.index(one.scheduler)))
    runs = [(one, [*_spans(one)], 0) for one in ours]
    for record, found in measured.values():
        runs.append((record, [*found], max(rank["start_ns"] for rank in record.ranks)))
    window_ns = around.window_ns
    while len(text := json.dumps(about | _lanes(runs, about["processes"], window_ns))) > MOST_BYTES:
        window_ns = window_ns * 2 // 3
    return rendered(
        "explore",
        name=around.experiment.name,
        jobs=len(cell.jobs()),
        processors=cell.processors,
        program="; ".join(dict.fromkeys(group.program.label for group in cell.groups)),
        machine=machine,
        window=duration_name(window_ns / 1e3),
        panels=PANELS.values(),
        data=Markup(text.replace("<", "\\u003c")),
        script=Markup(resources.files("harness.report").joinpath("explore.js").read_text(encoding="utf-8")),
        **about,
    )


def _lanes(
    runs: Sequence[tuple[RunRecord, Sequence[Span], int]], processes: Any, window_ns: int
) -> dict[str, Any]:
    """All runs, each from its time on; ``packed``: begins of states in 4 bytes, then codes in 2 or 4."""
    told, every = [], []
    for record, found, begin_ns in runs:
        made = lanes(found, processes, record.processors, (begin_ns, begin_ns + window_ns))
        name, counts = scheduler_name(record.scheduler), [len(lane.codes) for lane in made]
        told.append({"name": name, "lanes": counts, "failure": record.failure})
        every += made
    begins, codes = map(np.concatenate, zip(*every, strict=True))
    codes = codes.astype("<u4" if codes.max() >> 16 else "<u2")
    packed = base64.b64encode(begins.astype("<u4").tobytes() + codes.tobytes()).decode()
    return {"runs": told, "window": window_ns, "width": codes.itemsize, "packed": packed}


def _spans(record: RunRecord) -> Iterator[Span]:
    for rank in record.ranks:
        yield from spans(rank, base64.b64decode(rank["timeline"])) if "timeline" in rank else ()
