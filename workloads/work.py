"""The work of a job: a class for each kind. Sequential, interactive, and any command are here.

``workloads.program`` has synthetic patterns, ``workloads.locks`` critical sections. Source of the first two:
Dusseau, Arpaci, Culler 1996, sections 1 and 8, which ask what coscheduling and implicit scheduling do to
interactive jobs in addition to parallel ones.
"""

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, ClassVar

from workloads.bounds import ALONE_S, PROCESSES, WORK_S
from workloads.parameters import Bounds, Checked, OneOf
from workloads.validation import InputError


@dataclass(frozen=True)
class Work(Checked, ABC):
    """The common base of all kinds of work, with the values of a kind that says nothing else.

    Attributes:
        kind: the tag of the kind; experiment files name kinds of one process by it.
        sign: a key that the tables of this kind have, and no others.
        moldable: whether its number of processes can be chosen at its start.
        processes: how many there are.
        threads: how many processors each process gets.
        adapts: whether the number of processes that work on it can change while it runs.
        working_set_bytes: memory that each process walks; 0 for none.
        checkpoint_phases: phases from one checkpoint to the next; 0 for none.
        launcher: its own launcher, if the run's does not start it.
        launcher_options: further words for its launcher.
        argv: what each rank executes; empty for our programs.
        waits: how a command waits; empty for programs that wait by the rule of the run.
        environment: variables of a command and their values, in addition to those of the shell.
        malleable: whether processes come and go between its phases.
        record: whether it is recorded alone, in further runs.
        recording: a file with a recording of it.
    """

    kind: ClassVar[str]
    sign: ClassVar[str]
    moldable: ClassVar[bool] = False
    processes = threads = 1
    working_set_bytes = checkpoint_phases = 0
    argv = launcher_options = tuple[str, ...]()
    environment = tuple[tuple[str, str], ...]()
    launcher = waits = recording = ""
    malleable = record = False

    @property
    def width(self) -> int:
        """The number of processors that a policy gives it at once."""
        return self.processes * self.threads

    @property
    def adapts(self) -> bool:
        return False

    @property
    def partners(self) -> tuple[tuple[int, ...], ...]:
        """The processes from which each process reads in a phase, where they are known."""
        return ()

    @property
    def simulable(self) -> bool:
        """Whether the simulator can carry it out without a recording."""
        return not self.malleable

    @property
    def needs_constants(self) -> bool:
        """Whether its waits, or simulations of it, rest on the constants of the machine."""
        return True

    @property
    def needs_launcher(self) -> bool:
        """Whether the launcher of an MPI has to start it, and the command does not name one."""
        return True

    @property
    @abstractmethod
    def alone_s(self) -> float:
        """About how long it takes alone, in seconds."""

    @property
    def short_name(self) -> str:
        """In a word, for people."""
        return self.kind

    @property
    @abstractmethod
    def label(self) -> str:
        """In a few words, for people."""


def duration_name(time_us: float) -> str:
    return f"{time_us / 1000:g} ms" if time_us >= 1000 else f"{time_us:g} us"


def processes_name(count: int) -> str:
    return f"{count} process{'es' if count > 1 else ''}"


@dataclass(frozen=True)
class SequentialWork(Work):
    """One process that computes."""

    kind: ClassVar[str] = "sequential"
    sign: ClassVar[str] = "work_s"

    work_s: Annotated[float, WORK_S]  # its CPU time

    @property
    def alone_s(self) -> float:
        return self.work_s

    @property
    def label(self) -> str:
        return f"sequential, {self.work_s:g} s"


@dataclass(frozen=True)
class InteractiveWork(Work):
    """One process that answers a user: it alternates between think times and bursts of computation.

    A burst's *response time* runs from the end of the think time before it to the end of the burst.
    The next think time begins then.
    """

    kind: ClassVar[str] = "interactive"
    sign: ClassVar[str] = "burst_ms"

    burst_ms: Annotated[float, Bounds(0.001, 1e9)]  # CPU time of a burst
    think_ms: Annotated[float, Bounds(0, 1e7)]  # how long the process sleeps before each burst
    bursts: Annotated[int, Bounds(1, 100_000)]  # how many there are

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bursts * (self.burst_ms + self.think_ms) / 1e3 > ALONE_S:
            raise InputError(
                "bursts",
                self.bursts,
                f"that many bursts take longer than {ALONE_S:g} s alone",
                "give fewer, or shorter ones",
            )

    @property
    def alone_s(self) -> float:
        return self.bursts * (self.burst_ms + self.think_ms) / 1e3

    @property
    def label(self) -> str:
        return f"interactive, {self.burst_ms:g} ms after {self.think_ms:g} ms of think time"


VARIABLE = re.compile("(?!LOCKSTEP_)[A-Za-z_][A-Za-z0-9_]*")
"""The names of variables that a command may be given."""


def check_environment(variables: Mapping[str, Any]) -> None:
    """Raise InputError for names or values that no variable of a command can have."""
    for name, value in variables.items():
        key = f"environment.{name}"
        if not VARIABLE.fullmatch(name):
            raise InputError(
                key,
                value,
                "a name has letters, digits and _, and begins neither with a digit nor with LOCKSTEP_",
                "choose another name",
            )
        if not isinstance(value, str) or "\0" in value:
            raise InputError(key, value, "must be a text in quotes, without NUL", f'write {name} = "4"')


SINGLE = {work.kind: work for work in (SequentialWork, InteractiveWork)}
"""The kinds of one process without messages, by their tags."""


@dataclass(frozen=True)
class Command(Work):
    """Any unmodified MPI program."""

    kind: ClassVar[str] = "command"
    sign: ClassVar[str] = "argv"

    argv: tuple[str, ...]  # what each rank executes
    processes: Annotated[int, PROCESSES] = 1  # how many ranks there are
    launcher: str = ""  # the mpiexec that starts them; empty for the launcher of the run
    dedicated_s: Annotated[float, WORK_S] = 60.0  # approximate run time alone; it determines time-outs
    # "mpi", as its MPI waits, or "two-phase", by the run's rule (``workloads.native``).
    waits: Annotated[str, OneOf(("mpi", "two-phase"))] = "mpi"
    record: bool = False  # whether it is recorded alone, in further runs
    # A file with a recording of it, by which it is simulated; empty: the one of a recorded run.
    recording: str = ""
    # Variables and their values, in addition to those of the shell; a table becomes such pairs.
    environment: tuple[tuple[str, str], ...] = ()
    # How many threads each rank has, and OMP_NUM_THREADS unless the environment names it.
    threads: Annotated[int, PROCESSES] = 1
    launcher_options: tuple[str, ...] = ()  # further words for the launcher

    def __post_init__(self) -> None:
        if not self.argv or not all(isinstance(word, str) and word for word in self.argv):
            raise InputError("argv", self.argv, "must be a program and its arguments", 'write ["./my_app"]')
        super().__post_init__()
        if not isinstance(self.recording, str) or "\0" in self.recording:
            raise InputError(
                "recording",
                self.recording,
                "must be the name of a file",
                "write what lockstep record -o has written",
            )
        if not isinstance(self.environment, tuple | Mapping):
            raise InputError(
                "environment",
                self.environment,
                "must be a table of variables",
                'write { OMP_NUM_THREADS = "4" }',
            )
        check_environment(dict(self.environment))
        variables = {"OMP_NUM_THREADS": str(self.threads)} if self.threads > 1 else {}
        object.__setattr__(self, "environment", tuple(sorted((variables | dict(self.environment)).items())))

    @property
    def simulable(self) -> bool:
        return False

    @property
    def needs_constants(self) -> bool:
        return self.waits != "mpi" or self.record or bool(self.recording)

    @property
    def needs_launcher(self) -> bool:
        return self.needs_constants or (self.processes > 1 and not self.launcher)

    @property
    def alone_s(self) -> float:
        return self.dedicated_s

    @property
    def short_name(self) -> str:
        return PurePath(self.argv[0]).name

    @property
    def label(self) -> str:
        words = *(f"{name}={value}" for name, value in self.environment), *self.argv
        options = f", started with {' '.join(self.launcher_options)}" if self.launcher_options else ""
        return f"{' '.join(words)}, {processes_name(self.processes)}{options}"


COPY = "{copy}"
"""Placeholder in a command line for its number among all, so that each copy can write its own files."""


@dataclass(frozen=True)
class CommandLine(Work):
    """A command as its user starts it, for whose processes their number, places and launcher are its affair.

    ``COPY`` in a word stands for the number of the job.
    """

    kind: ClassVar[str] = "command line"
    sign: ClassVar[str] = "words"
    waits = "mpi"

    words: tuple[str, ...]

    @property
    def argv(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.words

    @property
    def simulable(self) -> bool:
        return False

    @property
    def needs_constants(self) -> bool:
        return False

    @property
    def needs_launcher(self) -> bool:
        return False

    @property
    def alone_s(self) -> float:
        return Command.dedicated_s

    @property
    def short_name(self) -> str:
        return PurePath(self.words[0]).name

    @property
    def label(self) -> str:
        return shlex.join(self.words)


OF_USERS = (Command, CommandLine)
"""The kinds of third-party programs."""
