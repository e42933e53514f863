"""``lockstep log FILE``: what a job log holds, before jobs of it are simulated."""

import argparse
import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.analyse import job_log
from harness.commands import SCHEMA, Answer, shared
from harness.measure.session import Watcher
from harness.report import job_log as shown
from workloads.bounds import SIMULATED_PROCESSORS
from workloads.parameters import Bounds
from workloads.validation import InputError

PICTURES = ("svg", "png")
PROCESSORS = Bounds(1, SIMULATED_PROCESSORS, whole=True)


def arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "describe this job log, in the Standard Workload Format or as sacct prints it"
    parser.add_argument("log", type=Path, metavar="FILE", help=help_text)
    help_text = "take this many processors for the machine (default: the log's, else the largest job's)"
    parser.add_argument("--processors", type=int, metavar="N", help=help_text)
    shared.output(parser, f"draw loads and sizes in this file (.{' or .'.join(PICTURES)})")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Describe the log; the status is 1 if it has lines that cannot be read."""
    if options.processors is not None:
        PROCESSORS.check("--processors", options.processors)
    path: Path | None = options.output or (Path("log.svg") if options.open else None)
    if path:
        if path.suffix.removeprefix(".") not in PICTURES:
            raise InputError("--output", str(path), "must end in .svg or .png", "write -o log.svg")
        shared.check_writable("--output", path)
    try:
        described = job_log.describe(options.log, options.processors)
    except InputError as error:
        key = "FILE" if error.key == "trace" else error.key
        raise InputError(key, error.value, error.rule, error.remedy) from None
    text: Iterable[Any] = shown.render(described, options.log.name)
    if path:
        from harness.report import rendering, style  # noqa: PLC0415 - matplotlib is slow to import

        figure = style.drawn(lambda: shown.picture(described, rendering.WIDE))
        shared.write("--output", path, style.file(figure, path.suffix[1:]))
        text = [f"{path}: {options.log.name}, {described.jobs:,} jobs"]
        if options.open:
            shared.show(path)
    document = {"schema": SCHEMA, "file": str(options.log), **dataclasses.asdict(described)}
    return Answer(document, text, status=1 if described.faults else 0)
