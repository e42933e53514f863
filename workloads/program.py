"""The bulk-synchronous SPMD program: validated numbers, and each process's compute times.

A program alternates between local computation and a communication phase: an opening barrier, reads separated
by short gaps of computation, a closing barrier. Source: Dusseau, Arpaci, Culler, SIGMETRICS 1996, sections
3.1 and 3.2. Its section 8 asks for the variants beyond the uniform imbalance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from workloads import patterns
from workloads.bounds import ALONE_S, PROCESSES, WORK_S
from workloads.late import Late
from workloads.parameters import Bounds, OneOf
from workloads.patterns import TASKS
from workloads.validation import InputError, whole
from workloads.work import Work, duration_name, processes_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = Late("numpy")


IMBALANCE_KINDS = ("uniform", "exponential")
READ_KINDS = ("message", "rma")
PHASES = Bounds(1, 1_000_000_000, whole=True)

NOMINAL_LATENCY_US = 10.0
"""One-way latency assumed when the number of phases is estimated from ``dedicated_s``.

It is a constant, not a measurement, so that one experiment file means the same number of
phases on every machine and in the simulator.
"""


@dataclass(frozen=True)
class Program(Work):
    """A validated program. The name of each time carries its unit."""

    locks = 0
    lock = ""
    section_us = 0.0  # of programs without critical sections

    kind: ClassVar[str] = "pattern"
    sign: ClassVar[str] = "pattern"
    moldable: ClassVar[bool] = True

    # BARRIER (the opening barrier only), NEWS, TRANSPOSE, or TASKS: a central queue of tasks
    # (``workloads.tasks``). Each task is a phase, which one of the processes executes.
    pattern: Annotated[str, OneOf((*patterns.BULK_SYNCHRONOUS, TASKS))] = "BARRIER"
    processes: Annotated[int, PROCESSES] = 2  # P, one process per processor
    # G, mean computation between communication phases, or of a task.
    granularity_us: Annotated[float, Bounds(0.001, 1e12)] = 1000.0
    # V / g, from 0 to 2; v is the full width of the uniform interval.
    imbalance: Annotated[float, Bounds(0, 2)] = 0.0
    # "uniform": g - v/2 to g + v/2. "exponential": g - v/2 plus an exponential variate of mean v/2, which
    # has the same mean g and a long tail.
    imbalance_kind: Annotated[str, OneOf(IMBALANCE_KINDS)] = "uniform"
    read_gap_us: Annotated[float, Bounds(0, 1e8)] = 8.0  # c, mean computation before each read
    # W / c, from 0 to 2: each process's gap is drawn again in each phase from uniform(c - w/2, c + w/2), an
    # imbalance inside the communication phase.
    read_imbalance: Annotated[float, Bounds(0, 2)] = 0.0
    opening_barrier: bool = True  # whether a barrier precedes the reads
    # "message": the target process serves each read. "rma": one-sided.
    read: Annotated[str, OneOf(READ_KINDS)] = "message"
    # Wanted run time alone on the machine; gives the number of phases.
    dedicated_s: Annotated[float, WORK_S] | None = None
    phases: Annotated[int, PHASES] | None = None  # the number of phases; takes the place of ``dedicated_s``
    # Memory that the compute phase walks; 0 for none.
    working_set_bytes: Annotated[int, Bounds(0, 1 << 40)] = 0
    # Whether the number of active processes can change between phases, up to ``processes``
    # (``workloads.malleable``).
    malleable: bool = False
    # Phases from one checkpoint to the next; 0 for none. A program that is ended and started again
    # continues from its last checkpoint (``workloads.execute``).
    checkpoint_phases: Annotated[int, Bounds(0, PHASES.maximum)] = 0
    # Of TASKS, the profile of an evolving program, (tasks, processes) for each of its phases: so many tasks
    # at most so many processes can take. It repeats; without one, all processes take tasks at any time.
    parallelism: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_parallelism()
        self._check_combinations()

    def _check_parallelism(self) -> None:
        parallelism = self.parallelism
        if parallelism and self.pattern != TASKS:
            raise InputError(
                "parallelism",
                parallelism,
                "needs a program with a queue of tasks",
                'write pattern = "TASKS", or leave it out',
            )
        pairs = isinstance(parallelism, list | tuple) and all(
            isinstance(pair, list | tuple) and len(pair) == 2 for pair in parallelism
        )
        if not pairs:
            raise InputError(
                "parallelism",
                parallelism,
                "must be a list of pairs of numbers",
                "write [[10, 1], [40, 4]]: 10 tasks one after another, then 40 by at most 4 processes",
            )
        for index, (tasks, processes) in enumerate(parallelism):
            PHASES.check(f"parallelism[{index}][0]", tasks)
            whole(f"parallelism[{index}][1]", processes, minimum=1, maximum=self.processes)
        object.__setattr__(self, "parallelism", tuple((tasks, processes) for tasks, processes in parallelism))

    def _check_combinations(self) -> None:
        if (self.dedicated_s is None) == (self.phases is None):
            rule = "cannot be combined with dedicated_s"
            remedy = "leave one of the two out"
            if self.phases is None:
                rule = "either phases or dedicated_s must be given"
                remedy = "write dedicated_s for a run time, or phases for an exact count"
            raise InputError("phases", self.phases, rule, remedy)
        if self.phases is not None and self.phases * self.phase_us() / 1e6 > ALONE_S:
            raise InputError(
                "phases", self.phases, f"must end within {ALONE_S:g} s alone", "give fewer, or shorter ones"
            )
        if self.malleable and self.pattern == TASKS:
            raise InputError(
                "malleable",
                True,
                "cannot change a TASKS program, whose processes come and go anyway",
                "remove malleable",
            )
        if self.malleable and self.read == "rma":
            raise InputError(
                "read",
                "rma",
                "must be message in a malleable program",
                'write read = "message", or leave malleable out',
            )
        if self.adapts and self.checkpoint_phases:
            raise InputError(
                "checkpoint_phases",
                self.checkpoint_phases,
                "needs a program that keeps its processes, and neither malleable ones nor TASKS do",
                "leave one of them out",
            )
        if self.pattern == "BARRIER" and not self.opening_barrier:
            raise InputError(
                "opening_barrier",
                False,
                "must be true in the BARRIER pattern, which consists of its opening barrier",
                "choose NEWS or TRANSPOSE, or leave opening_barrier true",
            )

    @property
    def closing_barrier(self) -> bool:
        """Whether a barrier completes the communication phase: in every pattern with reads."""
        return self.pattern in ("NEWS", "TRANSPOSE")

    @property
    def adapts(self) -> bool:
        return self.malleable or self.pattern == TASKS

    @property
    def partners(self) -> tuple[tuple[int, ...], ...]:
        return patterns.partners(self.pattern, self.processes)

    @property
    def alone_s(self) -> float:
        return self.phase_count() * self.phase_us() / 1e6

    @property
    def short_name(self) -> str:
        return self.pattern

    @property
    def label(self) -> str:
        g = duration_name(self.granularity_us)
        processes = processes_name(self.processes)
        return f"{self.pattern}, {processes}, g = {g}, v = {self.imbalance:g} g"

    @property
    def barriers_per_phase(self) -> int:
        return int(self.opening_barrier and self.pattern != TASKS) + int(self.closing_barrier)

    @property
    def reads_per_phase(self) -> int:
        return patterns.reads_per_phase(self.pattern, self.processes)

    @property
    def imbalance_us(self) -> float:
        return self.imbalance * self.granularity_us

    def usable(self, task: int) -> int:
        """How many processes can take the task of this number, from 0."""
        if not self.parallelism:
            return self.processes
        task %= sum(tasks for tasks, _ in self.parallelism)
        for tasks, processes in self.parallelism:
            if task < tasks:
                return min(processes, self.processes)
            task -= tasks
        raise ValueError("the number of a task is at least 0")

    def reads(self) -> NDArray[np.int64]:
        return patterns.reads(self.pattern, self.processes)

    def messages_to(self, rank: int) -> NDArray[np.int64]:
        """Messages of reads and barriers that ``rank`` gets from each in a phase: shape (processes,)."""
        got = np.zeros(self.processes, dtype=np.int64)
        if self.pattern not in patterns.BULK_SYNCHRONOUS:
            return got
        got[: self.processes if rank == 0 else 1] = self.barriers_per_phase
        if self.read == "message":
            reads = self.reads()
            got += np.bincount(reads[rank], minlength=self.processes) + (reads == rank).sum(axis=1)
        got[rank] = 0
        return got

    def phase_us(self, latency_us: float = NOMINAL_LATENCY_US) -> float:
        """Expected duration of one phase alone on the machine.

        The sum of: mean computation of the slowest of P processes (for the uniform interval
        g + v/2 (P-1)/(P+1), for the exponential one g + v/2 (H_P - 1)), a round trip for
        each barrier, a gap and a round trip for each read. Of tasks as many are executed in
        that time as there are processes to take them, so it is g / P without a profile.
        """
        p = self.processes
        if self.pattern == TASKS:
            profile = self.parallelism or ((1, p),)
            time = sum(tasks / processes for tasks, processes in profile)
            return self.granularity_us * time / sum(tasks for tasks, _ in profile)
        half = self.imbalance_us / 2
        if self.imbalance_kind == "uniform":
            slowest = half * (p - 1) / (p + 1)
        else:
            slowest = half * (float(np.sum(1.0 / np.arange(1, p + 1))) - 1.0)
        round_trip = 2 * latency_us
        return (
            self.granularity_us
            + slowest
            + self.barriers_per_phase * round_trip
            + self.reads_per_phase * (self.read_gap_us + round_trip)
        )

    def phase_count(self) -> int:
        """Number of phases: as given, or ``dedicated_s`` over the expected phase, at least 1."""
        if self.phases is not None:
            return self.phases
        assert self.dedicated_s is not None
        return max(1, round(self.dedicated_s * 1e6 / self.phase_us()))

    def on(self, processes: int) -> Program:
        """The same work on another number of processes (moldable programs), with as many phases."""
        if processes == self.processes:
            return self
        share = 1.0 if self.pattern == TASKS else self.processes / processes
        return dataclasses.replace(
            self,
            processes=processes,
            granularity_us=self.granularity_us * share,
            phases=self.phase_count(),
            dedicated_s=None,
            parallelism=tuple((tasks, min(most, processes)) for tasks, most in self.parallelism),
        )


COMPUTE, GAP, PLACE = range(3)  # kinds of random numbers
SKIPPED = 1 << 16  # times passed over at once, so that memory does not grow with their number


class Draws:
    """One process's random compute times, in a stream that depends on ``key`` and ``rank`` alone.

    An MPI rank that draws 64 phases at a time and a simulator that draws 1024 see the same numbers. The key
    is (experiment seed, repeat, job number), each >= 0.
    """

    def __init__(self, program: Program, rank: int, key: Sequence[int]) -> None:
        seed, *rest = key
        self._program = program
        self._seed = seed
        self._key = (*rest, rank)
        self._made: dict[int, np.random.Generator] = {}

    def _random(self, kind: int) -> np.random.Generator:
        """The generator of a kind, made when it is first used: it takes as long as many numbers."""
        if kind not in self._made:
            sequence = np.random.SeedSequence(self._seed, spawn_key=(*self._key, kind))
            self._made[kind] = np.random.Generator(np.random.PCG64(sequence))
        return self._made[kind]

    def skip(self, phases: int) -> None:
        for begin in range(0, phases, SKIPPED):
            for kind in (COMPUTE, GAP):
                self._random(kind).random(min(SKIPPED, phases - begin))

    def compute_ns(self, count: int) -> NDArray[np.int64]:
        """Compute times of the next ``count`` phases, shape (count,), in nanoseconds."""
        program = self._program
        width = program.imbalance_us
        uniform = self._random(COMPUTE).random(count)
        if program.imbalance_kind == "uniform":
            micros = program.granularity_us + width * (uniform - 0.5)
        else:
            micros = program.granularity_us - width / 2 - np.log1p(-uniform) * width / 2
        return np.rint(micros * 1e3).astype(np.int64)

    def gap_ns(self, count: int) -> NDArray[np.int64]:
        """The gap before each read in the next ``count`` phases, shape (count,), nanoseconds."""
        program = self._program
        uniform = self._random(GAP).random(count)
        micros = program.read_gap_us * (1 + program.read_imbalance * (uniform - 0.5))
        return np.rint(micros * 1e3).astype(np.int64)

    def among(self, places: int, count: int) -> NDArray[np.int64]:
        """The next ``count`` numbers from 0 to ``places`` - 1, all equally likely, shape (count,)."""
        return self._random(PLACE).integers(places, size=count)
