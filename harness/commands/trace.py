"""``lockstep trace RESULTS``: a run and its simulation as a trace for Perfetto, or in OTF2."""

import argparse
import json
import math
from pathlib import Path

from harness.analyse import stored_runs
from harness.commands import SCHEMA, Answer, shared
from harness.measure.plan import label, plan
from harness.measure.session import Watcher, session_name
from harness.predict import goal_text, missing, recorded_programs, recorded_steps
from harness.report import otf2_archive, perfetto
from harness.store.database import Store, StoreError
from harness.store.payloads import reading
from harness.store.rebuild import experiment_of
from harness.store.records import POLICY, SIMULATED, RunRecord
from workloads.validation import InputError, any_of, one_of

FORMATS = {
    "perfetto": (Path("trace.json"), "open it at https://ui.perfetto.dev"),
    "otf2": (Path("trace"), "open traces.otf2 in it"),
    "goal": (Path("trace.goal"), "convert it with txt2bin"),
}
"""By name of a format: where a trace goes by default, and what opens it."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    shared.add(parser, "results", help="read the records of this directory, or for goal this recording")
    add(
        "--run",
        type=int,
        metavar="N",
        help="write the run with this number (default: the first with a timeline)",
    )
    add(
        "--format",
        default="perfetto",
        help=f"write {', '.join(FORMATS)} (default: perfetto)",
    )
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write to this file (default: trace.json, trace, trace.goal)",
    )
    add(
        "--window",
        type=float,
        nargs=2,
        metavar=("BEGIN", "END"),
        help="write only what happened between two times, in s after the start of the run (default: all)",
    )


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Write the trace of a measured run alongside its simulation, else of a simulated run."""
    one_of("--format", options.format, FORMATS)
    if options.format == "otf2":
        otf2_archive.package()
    if options.format == "goal":
        return _schedule(options)
    if options.window and not 0 <= options.window[0] < options.window[1] < math.inf:
        raise InputError(
            "--window",
            options.window,
            "must be two times, the second one later, both of at least 0",
            "write --window 0.5 1",
        )
    with Store(options.results, existing=True, warn=watcher.warn) as store:
        record = _chosen(store, options.run)
        twin = record
        sides = []
        if record.kind == POLICY:
            twin = _counterpart(store, record, watcher)
            spans = stored_runs.spans_of(store, record)
            messages = stored_runs.messages_of(store, record)
            measured = spans, messages, record.switches
            sides.append(perfetto.Side(perfetto.MEASURED, f"measured: run {record.id}", *measured))
        spans = stored_runs.spans_of(store, twin)
        sides.append(perfetto.Side(perfetto.SIMULATED, f"simulated: run {twin.id}", spans))
    time_lines = perfetto.document(sides)
    if options.window:
        begin_s, end_s = options.window
        time_lines["traceEvents"] = perfetto.windowed(time_lines["traceEvents"], begin_s * 1e6, end_s * 1e6)
    file, reader = FORMATS[options.format]
    path = options.output or file
    if options.format == "otf2":
        otf2_archive.write(path, time_lines["traceEvents"])
    else:
        shared.write("--output", path, json.dumps(time_lines))
    name = label(record.kind, record.scheduler, record.settings)
    count = len(time_lines["traceEvents"])
    document = {"schema": SCHEMA, "run": record.id, "simulated": twin.id, "file": str(path)}
    line = f"{path}: run {record.id} ({name}), {count} events; {reader}"
    return Answer(document, [line])


def _schedule(options: argparse.Namespace) -> Answer:
    """Write a recording as a schedule in GOAL, each of its stretches once."""
    for name in ("run", "window"):
        if (given := getattr(options, name)) is not None:
            raise InputError(
                f"--{name}",
                given,
                "cannot be combined with --format goal, which takes a whole recording",
                "leave it out",
            )
    if not options.results.is_file():
        raise InputError(
            "RESULTS",
            str(options.results),
            "must be the file of a recording for --format goal",
            "make one with lockstep record -o FILE",
        )
    held = recorded_programs.program_in(options.results)
    program = recorded_steps.replayed(held, copies=False)  # whose simulator has its own time for each byte
    path = options.output or FORMATS["goal"][0]
    schedule = goal_text.text(program)
    shared.write("--output", path, schedule)
    repeats = [part.times for part in program.parts]
    document = {"schema": SCHEMA, "recording": str(options.results), "file": str(path)}
    more = {"processes": program.processes, "stretches": len(repeats), "repeats": repeats}
    messages = sum(int(part.messages.sum()) for part in program.parts)
    line = f"{path}: {program.processes} ranks, {messages:,} messages; {FORMATS['goal'][1]}"
    lines = [line]
    if max(repeats) > 1:
        lines.append(f"written once each: {len(repeats)} stretches, which the program has {repeats} times")
    return Answer(document | more | {"messages": messages}, lines)


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
        raise InputError(
            "RESULTS",
            str(store.path),
            "holds no run with a timeline",
            "make some with lockstep run --timeline, or simulate --timeline -o DIR",
        )
    raise InputError(
        "--run",
        number,
        f"must be a {what} run with a timeline, {any_of([*map(str, usable)])}",
        f"write --run {usable[0]}",
    )


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
