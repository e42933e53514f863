"""``lockstep trace RESULTS``: a run and its simulation as a trace for Perfetto or Chrome."""

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.analyse import stored
from harness.commands import SCHEMA, Answer, shared
from harness.measure.plan import label, plan
from harness.measure.session import Watcher, session_name
from harness.predict import missing, recorded_programs
from harness.report import perfetto
from harness.store.database import Store, StoreError
from harness.store.rebuild import experiment_of
from harness.store.records import POLICY, SIMULATED, RunRecord
from workloads.validation import InputError

PROTOBUF = ".pftrace"  # the suffix of traces in Perfetto's own format


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    shared.add(parser, "results")
    add("--run", type=int, metavar="N", help="number of a run with a timeline (default: the first)")
    default = Path("trace.json")
    help_text = f"output file (default: %(default)s); with the suffix {PROTOBUF} in Perfetto's own format"
    add("-o", "--output", type=Path, default=default, metavar="FILE", help=help_text)
    help_text = "only what happened between two times, in seconds after the start of the run"
    add("--window", type=float, nargs=2, metavar=("BEGIN", "END"), help=help_text)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Write the trace of a measured run beside its simulation, else of a simulated run."""
    if options.window and not 0 <= options.window[0] < options.window[1] < math.inf:
        rule = "must be two times, the second one later, both of at least 0"
        raise InputError("--window", options.window, rule, "write --window 0.5 1")
    with Store(options.results, existing=True, warn=watcher.warn) as store:
        record = _chosen(store, options.run)
        twin, sides = record, []
        if record.kind == POLICY:
            twin = _counterpart(store, record, watcher)
            known = stored.spans_of(store, record), stored.messages_of(store, record), record.switches
            sides.append(perfetto.Side(perfetto.MEASURED, f"measured: run {record.id}", *known))
        spans = stored.spans_of(store, twin)
        sides.append(perfetto.Side(perfetto.SIMULATED, f"simulated: run {twin.id}", spans))
    made = perfetto.document(sides)
    if options.window:
        begin_s, end_s = options.window
        made["traceEvents"] = perfetto.windowed(made["traceEvents"], begin_s * 1e6, end_s * 1e6)
    shared.write("--output", options.output, _encoded(made, options.output))
    name = label(record.kind, record.scheduler, record.settings)
    count = len(made["traceEvents"])
    document = {"schema": SCHEMA, "run": record.id, "simulated": twin.id, "file": str(options.output)}
    line = f"{options.output}: run {record.id} ({name}), {count} events; open it at https://ui.perfetto.dev"
    return Answer(document, [line])


def _encoded(made: Mapping[str, Any], path: Path) -> str | bytes:
    if path.suffix != PROTOBUF:
        return json.dumps(made)
    try:
        return perfetto.protobuf(made["traceEvents"])
    except ImportError:
        rule = "needs the Python package perfetto, which is not installed"
        remedy = "pip install 'lockstep-scheduling[perfetto]', or write a .json file"
        raise InputError("--output", str(path), rule, remedy) from None


def _chosen(store: Store, number: int | None) -> RunRecord:
    traced = [run for digest, _ in store.experiments() for run in store.with_timelines(digest)]
    kinds = {run: store.run(run).kind for run in traced}
    ours = POLICY if POLICY in kinds.values() else SIMULATED
    usable = [run for run, kind in kinds.items() if kind == ours]
    number = usable[0] if number is None and usable else number
    if number is not None:
        found = store.run(number)  # complains of numbers that do not exist
        if number in usable:
            return found
    known = ", ".join(map(str, usable[:20])) or "none"
    what = "measured" if ours == POLICY else "simulated"
    rule = f"must be a {what} run with a timeline; the store has: {known}"
    raise InputError("--run", number, rule, "record timelines with --timeline of lockstep run and simulate")


def _counterpart(store: Store, record: RunRecord, watcher: Watcher) -> RunRecord:
    """The last simulation of ``record`` with a timeline; made and recorded if there is none."""
    for number in reversed(store.with_timelines(record.digest)):
        twin = store.run(number)
        if missing.imitates(twin, record):
            return twin
    watcher.note("simulating the measured run")
    experiment = experiment_of([record])
    tasks = (task for task in plan(experiment) if task.kind == POLICY and task.repeat == record.repeat)
    (task,) = (task.counterpart for task in tasks)
    recorded = recorded_programs.of(experiment, store.runs(record.digest), store.path.parent)
    back_end = missing.back_end({task.key: record}, session_name(), recorded, timeline=True)
    added = store.add_run(back_end.run(task))
    if added is None:
        raise StoreError(f"{store.path} is in use, so the simulated run cannot be recorded: try again")
    return store.run(added)
