"""``lockstep trace RESULTS``: a run and its simulation as a trace for Perfetto or Chrome."""

import argparse
import json
import math
from pathlib import Path

from harness.analyse import stored_runs
from harness.commands import SCHEMA, Answer, shared
from harness.measure.plan import label, plan
from harness.measure.session import Watcher, session_name
from harness.predict import missing, recorded_programs
from harness.report import perfetto
from harness.store.database import Store, StoreError
from harness.store.payloads import reading
from harness.store.rebuild import experiment_of
from harness.store.records import POLICY, SIMULATED, RunRecord
from workloads.validation import InputError, any_of


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    shared.add(parser, "results")
    add(
        "--run",
        type=int,
        metavar="N",
        help="write the run with this number (default: the first with a timeline)",
    )
    help_text = "write to this file"
    add("-o", "--output", type=Path, default=Path("trace.json"), metavar="FILE", help=help_text)
    help_text = "write only what happened between two times, in s after the start of the run (default: all)"
    add("--window", type=float, nargs=2, metavar=("BEGIN", "END"), help=help_text)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Write the trace of a measured run alongside its simulation, else of a simulated run."""
    if options.window and not 0 <= options.window[0] < options.window[1] < math.inf:
        rule = "must be two times, the second one later, both of at least 0"
        raise InputError("--window", options.window, rule, "write --window 0.5 1")
    with Store(options.results, existing=True, warn=watcher.warn) as store:
        record = _chosen(store, options.run)
        twin, sides = record, []
        if record.kind == POLICY:
            twin = _counterpart(store, record, watcher)
            spans, messages = stored_runs.spans_of(store, record), stored_runs.messages_of(store, record)
            measured = spans, messages, record.switches
            sides.append(perfetto.Side(perfetto.MEASURED, f"measured: run {record.id}", *measured))
        spans = stored_runs.spans_of(store, twin)
        sides.append(perfetto.Side(perfetto.SIMULATED, f"simulated: run {twin.id}", spans))
    time_lines = perfetto.document(sides)
    if options.window:
        begin_s, end_s = options.window
        time_lines["traceEvents"] = perfetto.windowed(time_lines["traceEvents"], begin_s * 1e6, end_s * 1e6)
    shared.write("--output", options.output, json.dumps(time_lines))
    name = label(record.kind, record.scheduler, record.settings)
    count = len(time_lines["traceEvents"])
    document = {"schema": SCHEMA, "run": record.id, "simulated": twin.id, "file": str(options.output)}
    line = f"{options.output}: run {record.id} ({name}), {count} events; open it at https://ui.perfetto.dev"
    return Answer(document, [line])


def _chosen(store: Store, number: int | None) -> RunRecord:
    traced = [run for digest, _ in store.experiments() for run in store.with_timelines(digest)]
    kinds = {run: store.run(run).kind for run in traced}
    ours = POLICY if POLICY in kinds.values() else SIMULATED
    usable = [run for run, kind in kinds.items() if kind == ours]
    number = usable[0] if number is None and usable else number
    if number is not None:
        record = store.run(number)  # complains of numbers that do not exist
        if number in usable:
            return record
    what = "measured" if ours == POLICY else "simulated"
    if not usable:
        remedy = "make some with lockstep run --timeline, or simulate --timeline -o DIR"
        raise InputError("RESULTS", str(store.path), "holds no run with a timeline", remedy)
    rule = f"must be a {what} run with a timeline, {any_of([*map(str, usable)])}"
    raise InputError("--run", number, rule, f"write --run {usable[0]}")


def _counterpart(store: Store, record: RunRecord, watcher: Watcher) -> RunRecord:
    """The last simulation of ``record`` with a timeline; made and recorded if there is none."""
    for number in reversed(store.with_timelines(record.digest)):
        twin = store.run(number)
        if missing.imitates(twin, record):
            return twin
    watcher.note("simulating the measured run")
    with reading(store.path):
        experiment = experiment_of([record])
    tasks = (task for task in plan(experiment) if task.kind == POLICY and task.repeat == record.repeat)
    (task,) = (task.counterpart for task in tasks)
    recorded = recorded_programs.of(experiment, store.runs(record.digest), store.path.parent)
    back_end = missing.back_end({task.key: record}, session_name(), recorded, timeline=True)
    added = store.add_run(back_end.run(task))
    if added is None:
        raise StoreError(f"{store.path} is in use, so the simulated run cannot be recorded: try again")
    return store.run(added)
