"""``lockstep log FILE``: what a job log holds, before jobs of it are simulated."""

import argparse
import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.analyse import job_log
from harness.commands import SCHEMA, Answer, shared
from harness.measure.session import Watcher
from harness.predict import trace
from harness.report import batsim
from harness.report import job_log as shown
from harness.spec import overrides, scheduler
from workloads.bounds import SIMULATED_PROCESSORS
from workloads.parameters import Bounds
from workloads.validation import InputError, one_of

PICTURES = ("svg", "png")
WORKLOADS = {f"batsim-{version}": version for version in batsim.DELAYS}
AS_OPTIONS = {
    "trace": "FILE",
    "policy": "--policy",
    "scheduler.tiers": "--policy",
    "processors": "--processors",
}
PROCESSORS = Bounds(1, SIMULATED_PROCESSORS, whole=True)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "log",
        type=Path,
        metavar="FILE",
        help="describe this job log, in the Standard Workload Format or as sacct prints it",
    )
    parser.add_argument(
        "--processors",
        type=int,
        metavar="N",
        help="take this many processors for the machine (default: the log's, else the largest job's)",
    )
    parser.add_argument(
        "--policy",
        metavar="POLICY",
        help='compare recorded waits with those under this policy of the site, e.g. "easy"',
    )
    parser.add_argument(
        "--format",
        help=f"draw loads and sizes as {', '.join(PICTURES)}, or write the jobs as {', '.join(WORKLOADS)}"
        " (default: by the suffix of FILE)",
    )
    shared.output(parser, "write to this file (default: log.svg, or batsim.json)")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Describe the log; the status is 1 if it has lines that cannot be read."""
    if options.processors is not None:
        PROCESSORS.check("--processors", options.processors)
    if options.format is not None:
        one_of("--format", options.format, [*PICTURES, *WORKLOADS])
    if options.format in WORKLOADS:
        return _workload(options, WORKLOADS[options.format])
    path = _picture(options)
    site = scheduler.of_jobs(overrides.scheduler(options.policy)) if options.policy is not None else None
    with _as_options():
        described = job_log.describe(options.log, options.processors, site)
    text: Iterable[Any] = shown.render(described, options.log.name)
    if path:
        from harness.report import rendering, style  # noqa: PLC0415 - matplotlib is slow to import

        figure = style.drawn(lambda: shown.picture(described, rendering.WIDE))
        shared.write("--output", path, style.file(figure, options.format or path.suffix[1:]))
        text = [f"{path}: {options.log.name}, {described.jobs:,} jobs"]
        if options.open:
            shared.show(path)
    document = {"schema": SCHEMA, "file": str(options.log), **dataclasses.asdict(described)}
    return Answer(document, text, status=1 if described.faults else 0)


def _picture(options: argparse.Namespace) -> Path | None:
    """The file that a picture goes to; None if there is to be none."""
    wanted = options.open or options.format
    path: Path | None = options.output or (Path(f"log.{options.format or 'svg'}") if wanted else None)
    if path:
        if not options.format and path.suffix.removeprefix(".") not in PICTURES:
            raise InputError(
                "--output", str(path), "must end in .svg or .png", "write -o log.svg, or name a --format"
            )
        shared.check_writable("--output", path)
    return path


def _workload(options: argparse.Namespace, version: int) -> Answer:
    """Write the jobs that a simulation takes as a workload of this version of Batsim."""
    for name, given in (("--policy", options.policy), ("--open", options.open or None)):
        if given is not None:
            raise InputError(
                name, given, f"cannot be combined with --format {options.format}", "leave one of them out"
            )
    path: Path = options.output or Path("batsim.json")
    shared.check_writable("--output", path)
    with _as_options():
        jobs = trace.read(options.log)
        processors = options.processors or jobs.processors or int(jobs.jobs.max_processes.max())
        jobs.check(processors, 0)
    shared.write("--output", path, batsim.workload(jobs, processors, version))
    counts = {"jobs": len(jobs.numbers), "skipped": jobs.skipped, "assumed": jobs.assumed}
    document = {"schema": SCHEMA, "file": str(options.log), "format": options.format, "output": str(path)}
    line = f"{path}: {options.log.name}, {len(jobs.numbers):,} jobs on {processors:,} processors"
    left_out = [f"left out: {count} {reason}" for reason, count in jobs.skipped.items()]
    assumed = [f"assumed: {count} {reason}" for reason, count in jobs.assumed.items()]
    return Answer(document | {"processors": processors} | counts, [line, *left_out, *assumed])


@contextmanager
def _as_options() -> Iterator[None]:
    """Name the arguments of this command, and not keys of an experiment file, in errors of the log."""
    try:
        yield
    except InputError as error:
        key = AS_OPTIONS.get(error.key, error.key)
        raise InputError(key, error.value, error.rule, error.remedy) from None
