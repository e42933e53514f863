"""``lockstep show POLICY``: what a policy decides as jobs come and go."""

import argparse
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from coordinator import policies
from coordinator.policies import Policy
from harness.commands import SCHEMA, Answer, shared
from harness.measure.session import Watcher
from harness.predict.scenes import MOST, Show, adapts
from harness.report import scenes as drawing
from harness.spec import events, overrides
from harness.spec.experiment_source import text_of
from workloads.validation import InputError

SIZES, UNIT_MS, LONGEST_MS = (4, 2, 4, 3), 100.0, 1e7
"""Jobs without ``--jobs``, their step of time under policies without one, and its upper bound."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("policy", metavar="POLICY", help="show a policy that lockstep policies lists")
    add("--jobs", dest="sizes", metavar="SIZES", help="let jobs of these sizes come, e.g. 4,2,2,1")
    add("--processors", type=int, default=8, metavar="N", help="give the machine this many processors")
    add(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="set a parameter of the policy, e.g. packing=continuous",
    )
    add(
        "--events",
        type=Path,
        metavar="FILE",
        help="read events, not --jobs: lines such as 0 arrive A 4 300; 90 end A; 95 lose 7; 99 owner 2 1",
    )
    shared.output(parser, "write a page to step through, for a browser (default with --open: show.html)")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    settings = {".".join(map(str, one.steps)): one.value for one in map(overrides.parse, options.settings)}
    policy = policies.create(options.policy, settings)
    events.PROCESSORS.check("--processors", options.processors)
    lines = _of_sizes(policy, options)
    place = f"--jobs {options.sizes}"
    if options.events is not None:
        if options.sizes is not None:
            raise InputError(
                "--jobs",
                options.sizes,
                "cannot be combined with --events, which has the jobs",
                "leave one of the two out",
            )
        lines = iter(text_of(str(options.events), "--events").splitlines())
        place = str(options.events)
    show = Show(policy, options.processors, events.read(lines, place, options.processors))
    playing = show.scenes()
    scenes = list(islice(playing, MOST))
    more = next(playing, None) is not None
    notes = (f"these are the first {MOST} scenes: give jobs less work to see the end",) if more else ()
    drawn: Iterable[Any] = drawing.text(scenes, show.names)
    if options.output or options.open:
        path = options.output or Path("show.html")
        shared.write("--output", path, drawing.page(scenes, name=options.policy, show=show))
        drawn = [f"{path}: {options.policy}, {len(scenes)} scenes"]
        if options.open:
            shared.show(path)
    document = {"schema": SCHEMA, "policy": options.policy, "parameters": vars(policy)}
    content = {**document, "processors": options.processors, "scenes": [asdict(scene) for scene in scenes]}
    return Answer(content, drawn, notes=notes, verbatim=True)


def _of_sizes(policy: Policy, options: argparse.Namespace) -> Iterator[str]:
    """Lines of events that show the policy: jobs come every half quantum, or what is as long for it.

    If the policy chooses the sizes of jobs, all can use the whole machine. Where owners matter, one comes.
    """
    parameters = vars(policy)
    processors = options.processors
    lengths_ms = (parameters.get("quantum_ms"), parameters.get("hold_ms"), *parameters.get("quanta_ms", ()))
    unit_ms = min(LONGEST_MS, next(filter(None, (*lengths_ms, 1000 * parameters.get("grace_s", 0))), UNIT_MS))
    usual = [processors if adapts(policy, processors) else min(size, processors) for size in SIZES]
    sizes = ",".join(map(str, usual)) if options.sizes is None else options.sizes
    if not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", sizes):
        raise InputError("--jobs", sizes, "must be sizes with commas between", "write 4,2,2,1, say")
    for number, size in enumerate(sizes.split(",")):
        name = chr(65 + number % 26) + str(number // 26 or "")
        yield f"{number * unit_ms / 2:.9g} arrive {name} {size} {3 * unit_ms:.9g}"
    if policy.uses_owner_load:
        yield from (f"{2 * unit_ms:.9g} owner 0 1", f"{4 * unit_ms:.9g} owner 0 0")
