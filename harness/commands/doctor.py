"""``lockstep doctor``: what on this host disturbs measurements, and what to do about it."""

import os
import shlex
import time
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coordinator.host import bindings
from coordinator.topology import ranges
from harness.analyse.comparison import AaCheck, aa_check, aa_pairs
from harness.analyse.missing_rank import examined
from harness.analyse.rank_report import Report, with_stacks
from harness.analyse.statistics import FEWEST
from harness.commands import SCHEMA, Answer, shared
from harness.measure import command_check, host_check, stacks, trust
from harness.measure.host_check import Finding
from harness.measure.rank_watch import RankWatch
from harness.measure.session import MeasurementSession, Watcher
from harness.report import listing
from harness.spec.experiment import usable_processors
from harness.store import conditions
from harness.store.database import FILE_NAME, Store
from harness.store.records import Calibration
from workloads.bounds import within
from workloads.validation import InputError
from workloads.work import processes_name

PAIRS = 10

LOOK_S = 1.0
"""For how long ranks are watched."""


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--processors",
        type=int,
        default=0,
        metavar="N",
        help="check only the first N processors that this process may use (default: all)",
    )
    add(
        "--self-test",
        action="store_true",
        help=(
            "also measure one scheduler as if it were two (about a minute), to learn what this host can tell"
        ),
    )
    add(
        "--pairs",
        type=int,
        metavar="N",
        help=f"measure this many pairs of runs in --self-test (default: {PAIRS})",
    )
    help_text = (
        "check instead whether running jobs share processors while others idle, and where the ranks under "
        "lockstep exec are; name a launcher of each"
    )
    add("--pid", type=int, action="append", default=[], metavar="P", help=help_text)
    add(
        "--results",
        dest="kept_in",
        type=Path,
        metavar="DIR",
        help="keep the runs of --self-test in this directory (default: they are not kept)",
    )
    add(
        "--report",
        action="store_true",
        help="print what a report of a fault should say of this host, with nothing personal in it",
    )
    shared.add(parser, "--no-wait")
    parser.add_argument(
        "program",
        nargs=REMAINDER,
        metavar="[-- COMMAND ...]",
        help="check instead what will hurt this command here, without starting anything of it",
    )


def execute(options: Namespace, watcher: Watcher) -> Answer:
    """Check the host; the status is 1 if something has a remedy."""
    within("processors", options.processors, "--processors")
    if options.pairs is not None and not options.self_test:
        raise InputError(
            "--pairs",
            options.pairs,
            "needs --self-test, whose runs it counts",
            "add --self-test, or leave it out",
        )
    options.pairs = PAIRS if options.pairs is None else options.pairs
    if options.pairs < FEWEST:
        raise InputError("--pairs", options.pairs, f"must be at least {FEWEST} for an interval", "write 10")
    if options.pid and not options.program:
        return _of_jobs(options.pid)
    processors = usable_processors()[: options.processors or None]
    if options.program:
        return _of_command(options.program[options.program[0] == "--" :], processors, options)
    if options.self_test and len(processors) < host_check.AA_PROCESSORS:
        raise InputError(
            "--processors",
            len(processors),
            f"must be at least {host_check.AA_PROCESSORS} for --self-test, which runs two jobs",
            "allow this process a second one (taskset)",
        )
    watcher.note("watching the processors")
    findings = list(host_check.check(processors))
    if options.report:
        findings = [*host_check.shared(processors, findings, _calibrations())]
    document: dict[str, Any] = {"schema": SCHEMA, "findings": [asdict(finding) for finding in findings]}
    if options.report:
        return Answer(document, [f"- {one.subject}: {one.found}" for one in findings], verbatim=True)
    failures: list[str] = []
    if options.self_test:
        checked, failures = _aa(options, processors, watcher)
        document["self_test"] = checked and {**asdict(checked), "false_positives": checked.false_positives}
        document["failures"] = failures
    wrong = failures or any(finding.remedy for finding in findings)
    return Answer(document, listing.findings(document), status=1 if wrong else 0)


def _of_command(command: Sequence[str], processors: Sequence[int], options: Namespace) -> Answer:
    """What will hurt a command; the status is 1 if something does."""
    if not command:
        raise InputError(
            "COMMAND", None, "a command must follow --", "write lockstep doctor -- mpiexec -n 4 ./app"
        )
    for name in ("pid", "self_test", "report"):
        if getattr(options, name):
            raise InputError(
                f"--{name.replace('_', '-')}", True, "is not for a command", "write one of the two"
            )
    findings = command_check.check(command, os.environ, command_check.Host.here(processors))
    document = {"schema": SCHEMA, "findings": [asdict(finding) for finding in findings]}
    lines = [f"{one.found}: {one.remedy}" for one in findings]
    nothing = f"Nothing is seen here that will hurt {shlex.join(command)}."
    return Answer(document, lines or [nothing], status=1 if findings else 0, verbatim=True)


def _of_jobs(pids: Sequence[int]) -> Answer:
    """How the jobs with these launchers are bound; the status is 1 if some share processors without need."""
    jobs = []
    for pid in dict.fromkeys(pids):
        jobs.append(binding := bindings.job(f"job {pid}", pid))
        if not binding.masks:
            raise InputError(
                "--pid", pid, "is no running process", "name a launcher, or the root of a program"
            )
    counts = [(one, processes_name(len(one.masks))) for one in jobs]
    findings = [Finding(one.name, f"{count} on processors {ranges(one.processors)}") for one, count in counts]
    every = range(os.cpu_count() or 1)
    findings += [Finding("bindings", one.sentence, one.remedy) for one in bindings.overlaps(jobs, every)]
    reports = with_stacks([one for pid in dict.fromkeys(pids) for one in _of_ranks(pid)], stacks.read)
    findings += [Finding("ranks", line) for one in reports for line in (*one.lines, one.verdict)]
    document = {
        "schema": SCHEMA,
        "findings": [asdict(finding) for finding in findings],
        "ranks": [one.document for one in reports],
    }
    wrong = any(finding.remedy for finding in findings)
    return Answer(document, listing.findings(document), status=1 if wrong else 0)


def _of_ranks(pid: int) -> list[Report]:
    """Where the ranks are that a running ``exec`` watches above or below a process; it takes LOOK_S."""
    with closing(RankWatch.around(pid)) as watch:
        watch.sample(time.monotonic())
        if not watch.jobs():
            return []
        time.sleep(LOOK_S)
        watch.sample(time.monotonic())
        return [one.report() for one in examined(watch.jobs())]


def _aa(options: Namespace, processors: Sequence[int], watcher: Watcher) -> tuple[AaCheck | None, list[str]]:
    from harness import application  # noqa: PLC0415 - other checks start nothing

    folder, used = options.kept_in, tuple(processors[: host_check.AA_PROCESSORS])
    with nullcontext(folder) if folder else TemporaryDirectory() as place, Store(Path(place)) as store:
        session = MeasurementSession.begin(used, application.real_tools(), store)
        with session.reserved(watcher, no_wait=options.no_wait):
            records = host_check.aa_records(options.pairs, session, watcher)
    failures = [record.failure for record in records if record.failure]
    return aa_check(aa_pairs(records)), failures


def _calibrations() -> Sequence[Calibration]:
    """The last good calibration in the usual results directory, if there is one."""
    folder = shared.OPTIONS["--results"]["default"]
    if not (folder / FILE_NAME).is_file():
        return []
    with Store(folder, existing=True) as store:
        here = conditions.of_session(usable_processors(), "")
        return trust.chosen(store.calibrations(), here, folder).calibration
