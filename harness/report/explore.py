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
from harness.predict.neighbourhood import RULES, Neighbourhood
from harness.report.rendering import rendered
from harness.spec.experiment import Cell
from harness.spec.naming import scheduler_name
from harness.store.records import SIMULATED, RunRecord
from workloads.work import duration_name

MOST_BYTES = 2_700_000
"""Most bytes of the data of a page, which has at most 3 MB."""

PANELS = {"none": "none", "implicit": "two-phase", "gang": "gang"}
"""The policies that stand side by side, with the headings of their panels."""


LOOKS = {
    "computing": ("computing", 1.0),
    "spinning": ("communicating", 0.75),
    "spinning in vain": ("synchronizing", 0.6),
    "switching": ("switching", 0.4),
    "blocked": ("muted", 0.12),
    "idle": ("grid", 0.12),
}
"""Colour and height of each state, so that no state needs a colour to be told from others."""


Measured = Mapping[str, tuple[RunRecord, Sequence[Span]]]
"""Measured runs by their policies, each with the states of its ranks."""


def html(around: Neighbourhood, simulated: Sequence[RunRecord], measured: Measured, machine: str) -> str:
    """The page; ``machine`` says whose constants the simulations have."""
    cell = around.experiment.cells[around.own[1]]
    about = {
        "sliders": {
            "granularity": [duration_name(g_us) for g_us in around.granularities_us],
            "imbalance": [f"{v:g} g" for v in around.imbalances],
            "quantum": [f"{quantum_ms:g} ms" for quantum_ms in around.quanta_ms],
            "spin": list(RULES),
        },
        "own": [*around.own, len(RULES) - 1],
        "states": STATES,
        "looks": [LOOKS[state] for state in STATES],
        "measured": [[*PANELS].index(policy) for policy in measured],
    }
    of_points = {(one.cell, json.dumps(one.scheduler)): one for one in simulated if one.kind == SIMULATED}
    points = [
        (one.index, json.dumps(it.table))
        for one in around.experiment.cells
        for it in around.experiment.schedulers
    ]
    runs = [(of_points[point], list(_spans(of_points[point])), 0) for point in points]
    for record, spans_of_ranks in measured.values():
        runs.append((record, list(spans_of_ranks), max(rank["start_ns"] for rank in record.ranks)))
    window_ns = around.window_ns
    while len(text := json.dumps(about | _lanes(runs, cell, window_ns))) > MOST_BYTES:
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
    runs: Sequence[tuple[RunRecord, Sequence[Span], int]], cell: Cell, window_ns: int
) -> dict[str, Any]:
    """All runs, each from its time on; ``packed``: begins of states in 4 bytes, then codes in 2 or 4."""
    processes = [(job.number, rank) for job in cell.jobs() for rank in range(job.program.processes)]
    told, every = [], []
    for record, spans_of_ranks, begin_ns in runs:
        made = lanes(spans_of_ranks, processes, record.processors, (begin_ns, begin_ns + window_ns))
        name, counts = scheduler_name(record.scheduler), [len(lane.codes) for lane in made]
        told.append({"name": name, "lanes": counts, "failure": record.failure})
        every += made
    begins = np.concatenate([lane.begins_ns for lane in every]).astype("<u4")
    codes = np.concatenate([lane.codes for lane in every])
    codes = codes.astype("<u4" if codes.max() >> 16 else "<u2")
    packed = base64.b64encode(begins.tobytes() + codes.tobytes()).decode()
    return {
        "runs": told,
        "processes": processes,
        "window": window_ns,
        "width": codes.itemsize,
        "packed": packed,
    }


def _spans(record: RunRecord) -> Iterator[Span]:
    for rank in record.ranks:
        yield from spans(rank, base64.b64decode(rank["timeline"])) if "timeline" in rank else ()
