"""The page of ``lockstep explore``: jobs under three schedulers in slow motion, in one file."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from markupsafe import Markup

from harness.analyse.lanes import STATES, Lane, lanes
from harness.analyse.timelines import Span, spans
from harness.predict.neighbourhood import RULES, Neighbourhood
from harness.report.rendering import rendered
from harness.spec.naming import program_name, scheduler_name
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


@dataclass(frozen=True)
class Measured:
    """A measured run with a timeline: its record, and the states of its ranks."""

    record: RunRecord
    spans: Sequence[Span]


def html(
    around: Neighbourhood, simulated: Sequence[RunRecord], measured: Mapping[str, Measured], machine: str
) -> str:
    """The page; ``measured`` has runs by their policies, and ``machine`` says whose constants there are."""
    window_ns = around.window_ns
    while len(text := _data(around, simulated, measured, window_ns)) > MOST_BYTES:
        window_ns = window_ns * 2 // 3
    jobs = around.experiment.cells[0].jobs()
    return rendered(
        "explore",
        name=around.experiment.name,
        jobs=len(jobs),
        processors=around.experiment.cells[0].processors,
        program=program_name(simulated[0].jobs[0].program),
        machine=machine,
        window=duration_name(window_ns / 1e3),
        panels=PANELS.values(),
        states=[(state, *look) for state, look in LOOKS.items()],
        measured=bool(measured),
        data=Markup(text),
        script=Markup(resources.files("harness.report").joinpath("explore.js").read_text(encoding="utf-8")),
    )


def _data(
    around: Neighbourhood,
    simulated: Sequence[RunRecord],
    measured: Mapping[str, Measured],
    window_ns: int,
) -> str:
    """All runs as JSON: those of the grid in the order of its cells and schedulers, then the measured ones.

    ``packed`` holds when each state of each lane begins, in 4 bytes, and then all codes of states, in 2.
    """
    experiment = around.experiment
    jobs, processors = experiment.cells[0].jobs(), range(experiment.cells[0].processors)
    processes = [(job.number, rank) for job in jobs for rank in range(job.program.processes)]
    tables = [one.table for one in experiment.schedulers]
    places = {(one.cell, json.dumps(one.scheduler)): one for one in simulated if one.kind == SIMULATED}
    runs: list[tuple[str, list[Lane], str]] = []
    for cell in experiment.cells:
        for table in tables:
            one = places[cell.index, json.dumps(table)]
            slots = table["policy"] == "gang"
            made = lanes(_spans(one), processes, processors, (0, window_ns), slots=slots)
            runs.append((scheduler_name(table), made, one.failure))
    for policy, run in measured.items():
        begin_ns = max((rank["start_ns"] for rank in run.record.ranks), default=0)
        window = begin_ns, begin_ns + window_ns
        made = lanes(run.spans, processes, run.record.processors, window, slots=policy == "gang")
        runs.append((scheduler_name(run.record.scheduler), made, run.record.failure))
    every = [lane for _, made, _ in runs for lane in made]
    begins = np.concatenate([lane.begins_ns for lane in every]).astype("<u4")
    codes = np.concatenate([lane.codes for lane in every]).astype("<u2")
    return json.dumps(
        {
            "states": STATES,
            "looks": [LOOKS[state] for state in STATES],
            "panels": list(PANELS.values()),
            "processes": processes,
            "window": window_ns,
            "barriers": all(
                job.program.pattern == "BARRIER" for job in jobs if hasattr(job.program, "pattern")
            ),
            "sliders": _sliders(around),
            "own": [*around.own, 0, len(RULES) - 1],
            "rows": len(codes),
            "runs": [
                {"name": name, "lanes": [len(lane.codes) for lane in made], "failure": failure}
                for name, made, failure in runs
            ],
            "measured": [[*PANELS].index(policy) for policy in measured],
            "packed": base64.b64encode(begins.tobytes() + codes.tobytes()).decode(),
        }
    ).replace("<", "\\u003c")


def _sliders(around: Neighbourhood) -> list[dict[str, Any]]:
    return [
        {"name": "granularity", "values": [duration_name(g_us) for g_us in around.granularities_us]},
        {"name": "imbalance", "values": [f"{v:g} g" for v in around.imbalances]},
        {"name": "quantum", "values": [f"{quantum_ms:g} ms" for quantum_ms in around.quanta_ms]},
        {"name": "spin", "values": list(RULES)},
    ]


def _spans(record: RunRecord) -> Iterator[Span]:
    for rank in record.ranks:
        if "timeline" in rank:
            yield from spans(rank, base64.b64decode(rank["timeline"]))
