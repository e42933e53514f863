"""The [[jobs]] tables of an experiment, and facts about the jobs that the harness needs."""

import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from coordinator.host.launcher_options import accepted
from coordinator.host.launchers import Launcher, is_launcher, kinds_of
from coordinator.view import UNKNOWN, After, ExecutionTime, Submitter
from coordinator.workload import KINDS, ParallelJob
from harness.spec.table_checks import Table, as_table, field_names
from workloads.bounds import PROCESSES as MOST_PROCESSES
from workloads.locks.lock_program import LockProgram
from workloads.parameters import Bounds, Checked, build
from workloads.patterns import LOCK, PATTERNS
from workloads.program import Program
from workloads.validation import InputError, known_keys, one_of, under
from workloads.work import COPY, SINGLE, Command, CommandLine, Work

LAUNCHER = "{launcher}"
PROCESSES = "{processes}"
"""Placeholders in a command for our launcher and for the number of processes."""

OF_SUBMITTER = field_names(Submitter)
OF_GROUPS = ("count", "arrival_s", "estimate_s")
SHARED = (*OF_GROUPS, *OF_SUBMITTER)
"""Keys of every [[jobs]] table."""


@dataclass(frozen=True)
class JobGroup(Checked):
    """``count`` identical jobs: their program and their time of arrival."""

    program: Work
    count: Annotated[int, Bounds(1, 1000)] = 1
    arrival_s: Annotated[float, Bounds(0, 1e6)] = 0.0
    # The execution time that the user asks for; None: policies get the times of earlier runs.
    estimate_s: Annotated[float, Bounds(1e-6, 1e9)] | None = None
    submitter: Submitter = UNKNOWN  # its fields are keys of the table
    after: After | None = None  # of a job of a log, and no key: the one that it follows

    @property
    def identity(self) -> dict[str, Any]:
        """What results depend on."""
        # As in versions that did not know these.
        unsaid = (("estimate_s", None), ("submitter", asdict(UNKNOWN)), ("after", None))
        return {key: value for key, value in asdict(self).items() if (key, value) not in unsaid}

    @property
    def estimate(self) -> ExecutionTime | None:
        """What policies get for ``estimate_s``: the same work on any number of processors."""
        return None if self.estimate_s is None else ExecutionTime(self.estimate_s * self.program.width)


OF_COMMANDS = ("dedicated_s", "waits", "record", "recording", "environment", "threads")
"""Keys of tables with a ``command``."""

NUMBER = re.compile("[0-9]{1,9}")

ADDED: Table = {
    "checkpoint_phases": 0,
    "record": False,
    "recording": "",
    "parallelism": [],
    "environment": {},
    "launcher_options": [],
    "threads": 1,
}
"""Keys of programs that records leave out where they have these values."""


def job_group(job: Any, key: str) -> JobGroup:
    job = as_table(job, key)
    shared = {name: job[name] for name in OF_GROUPS if name in job}
    submitter = {name: job[name] for name in OF_SUBMITTER if name in job}
    rest = {name: value for name, value in job.items() if name not in SHARED}
    what = [name for name in ("program", "command", "kind") if name in rest]
    if not what:
        raise InputError(
            f"{key}.program",
            None,
            "each [[jobs]] table needs a program, a command or a kind",
            'write program = { pattern = "NEWS", processes = 2, dedicated_s = 2.0 }',
        )
    if len(what) > 1:
        raise InputError(
            f"{key}.{what[1]}",
            rest[what[1]],
            f"cannot be combined with {what[0]}: a job has a program, a command or a kind",
            "write two [[jobs]] tables",
        )
    work = {"program": _program, "command": _command, "kind": _single}[what[0]](rest, key)
    of_job = {"program": work, "submitter": build(Submitter, submitter, key)}
    return build(JobGroup, {**shared, **of_job}, key)


def _program(table: Table, key: str) -> Work:
    known_keys(table, ("program", *SHARED), key)
    return program_of(as_table(table["program"], f"{key}.program"), f"{key}.program")


def program_of(table: Table, where: str) -> Work:
    """The program that a table describes; errors name its place in the file, ``where``."""
    program = dict(table)
    pattern = program.get("pattern", Program.pattern)
    if isinstance(pattern, str):
        pattern = program["pattern"] = pattern.upper()
    with under(where):
        one_of("pattern", pattern, PATTERNS)
        for name in program.keys() - field_names(Program) if pattern != LOCK else ():
            if name in field_names(LockProgram):
                raise InputError(
                    name,
                    program[name],
                    f"needs the pattern {LOCK}, and this one is {pattern}",
                    f'remove it, or write pattern = "{LOCK}"',
                )
    return build(LockProgram if pattern == LOCK else Program, program, where)


def _single(table: Table, key: str) -> Work:
    kind = table["kind"]
    with under(key):
        one_of("kind", kind, SINGLE)
    work = {name: value for name, value in table.items() if name != "kind"}
    return build(SINGLE[kind], work, key)


def _command(table: Table, key: str) -> Work:
    known_keys(table, ("command", "processes", *OF_COMMANDS, *SHARED), key)
    words, where = table["command"], f"{key}.command"
    remedy = f'write ["{LAUNCHER}", "-n", "4", "./my_app"]'
    _check_words(where, words, remedy)
    if not words or not (words[0] == LAUNCHER or is_launcher(words[0])):
        raise InputError(where, words, "must begin with a launcher, as mpiexec and srun are", remedy)
    if "processes" in table:
        MOST_PROCESSES.check(f"{key}.processes", table["processes"])
    count = str(table.get("processes", PROCESSES))
    words = [word.replace(PROCESSES, count) for word in words]
    launcher = "" if words[0] == LAUNCHER else words[0]
    with under(key):
        options, counted, argv = accepted(words[1:], kinds_of(launcher or Launcher.programs[0]))
    if not NUMBER.fullmatch(counted) or not argv:
        raise InputError(
            where, words, "must have -n, a number and the program behind the launcher and its options", remedy
        )
    if "processes" in table and counted != count:
        raise InputError(
            f"{key}.processes",
            table["processes"],
            f"must be {counted}, which the command starts",
            f"write {PROCESSES} in the command",
        )
    values = {name: table[name] for name in OF_COMMANDS if name in table}
    fields = {"argv": argv, "processes": int(counted), "launcher": launcher, "launcher_options": options}
    return build(Command, fields | values, key)


def _check_words(where: str, words: Any, remedy: str, *, empty: bool = False) -> None:
    """Refuse what are no words of a command; ``empty``: words behind the first may be."""
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError(where, words, "must be a list of words", remedy)
    if not all(words[:1] if empty else words):
        raise InputError(where, words, "must be a list of words", remedy)
    if any("\0" in word for word in words):
        raise InputError(where, words, "must not contain a NUL character", remedy)


def as_started(job: Any, key: str) -> JobGroup:
    """A job of an experiment with settings: a command as its user starts it, at once with all others."""
    job = as_table(job, key)
    if "program" not in job and "kind" not in job:
        known_keys(job, ("command", "count"), key)
    words, remedy = job.get("command"), 'write command = ["mpiexec", "-n", "2", "./my_app"]'
    if not words:
        raise InputError(
            f"{key}.command", words or None, "with settings each [[jobs]] table needs a command", remedy
        )
    _check_words(f"{key}.command", words, remedy, empty=True)
    rest = {name: value for name, value in job.items() if name != "command"}
    return build(JobGroup, {**rest, "program": CommandLine(tuple(words))}, key)


def check_here(group: JobGroup, key: str) -> None:
    match group.program:
        # Options of the launcher may change the PATH and the directory.
        case Command(argv=words, launcher_options=(), environment=variables):
            path = dict(variables).get("PATH")
        case CommandLine(words=words) if COPY not in words[0]:
            path = None
        case _:
            return
    if shutil.which(words[0], path=path) is None:
        raise InputError(
            f"{key}.command",
            list(words),
            f"needs a program {words[0]!r} on the PATH or below the current directory",
            "check its name, its path and its mode",
        )


def described(program: Work) -> dict[str, Any]:
    """The program of a job as plain values for :func:`rebuilt`, without what ADDED says."""
    table = asdict(program)
    if "launcher_options" in table:
        table["launcher_options"] = list(table["launcher_options"])
    if "parallelism" in table:
        table["parallelism"] = [list(phase) for phase in table["parallelism"]]
    if "environment" in table:
        table["environment"] = dict(table["environment"])
    return {key: value for key, value in table.items() if (key, value) not in ADDED.items()}


def rebuilt(table: Table) -> Work:
    """The program of a job, from the table in its record."""
    kind = next((kind for kind in KINDS if kind.sign in table), Program)
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()})


def working_sets(jobs: Iterable[ParallelJob]) -> set[int]:
    return {job.program.working_set_bytes for job in jobs if job.program.moldable}
