"""Programs as streams of operations: all that a simulated process does, one after the other.

    COMPUTE   computes for ``value`` ns
    READING   ``peer`` times: computes for ``value`` ns, serves requests that came, and reads from the next
              of its partners
    OPENING   waits at a barrier; CLOSING at the one that completes a communication phase
    LOCKING   waits for lock ``peer``, and computes for ``value`` ns while it has that
    SLEEPING  sleeps for ``value`` ns
    SEND      gives the next message of channel ``peer``, which has ``value`` bytes
    RECEIVE   takes message ``value`` of channel ``peer``, for which it may have to wait
    LEARN     the job learns from the wait in a collective operation
    RESPOND   the user of an interactive job has the response ``peer``
    TASK      computes for ``value`` ns, if the process may run beside ``peer`` - 1 others; else it suspends
              itself, and leaves the task to another process
    END       leaves for good

A stream is a sequence of blocks of operations, for one process or for several that proceed together; each
process has those at hand in a ring of its own. ``program.py`` carries them out. The processes of a job with a
central queue of tasks take their operations from one ring. What a recorded program does is known before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.simulator.processes import model as m
from harness.simulator.processes.model import Integers
from workloads.program import Draws, Program
from workloads.validation import InputError

DRAWN = 2048
"""Phases whose times are drawn at once if blocks are shorter; a call for few takes as long as for many."""

MOST_COMPUTATIONS = 2**31 - 1  # of a process of a recorded program

Operations = NDArray[np.void]


class Stream(NamedTuple):
    """Operations of processes that get them together."""

    ranks: range  # whose rings it fills
    # Each of shape (ranks, operations), the last of which ends with END. A block is valid until the next
    # one is made.
    blocks: Iterator[Operations]


def phase_length(program: Program) -> int:
    """How many operations a phase has."""
    reads = program.reads_per_phase > 0
    return 2 + (program.opening_barrier and reads) + reads


def phases(program: Program, draws: Sequence[Draws], most: int) -> Iterator[Operations]:
    """The phases of all processes of a bulk-synchronous program, in blocks of less than ``most`` operations.

    No process is more than a phase behind another one, so that there is room for a block in all rings when
    there is in one.
    """
    reads = program.reads_per_phase
    length = phase_length(program)
    phase = operations(program.processes, length)
    phase["code"][:, 0], phase["marks"][:, 0] = m.COMPUTE, m.PASSES | m.OVERRUNS | m.OBSERVES
    if program.opening_barrier:
        phase["code"][:, 1], phase["marks"][:, 1] = m.OPENING, m.LEARNS
    if program.closing_barrier:
        phase["code"][:, -1], phase["marks"][:, -1] = m.CLOSING, 0 if program.opening_barrier else m.LEARNS
    reading = length - 2
    if reads > 0:
        phase["code"][:, reading], phase["marks"][:, reading] = m.READING, m.OVERRUNS
        phase["peer"][:, reading] = reads
    varied = reads > 0 and program.read_imbalance > 0
    if reads > 0 and not varied:
        phase["value"][:, reading] = draws[0].gap_ns(1)
    at_once = min(program.phase_count(), (most - length - 2) // length)
    block = np.empty((program.processes, at_once, length), m.OPERATION)
    block.view(m.RAW)[:] = phase.view(m.RAW)[:, None, :]
    for drawn in pieces(program.phase_count(), max(1, DRAWN // at_once) * at_once):
        compute_ns = np.array([one.compute_ns(drawn) for one in draws])
        gaps_ns = np.array([one.gap_ns(drawn) for one in draws]) if varied else None
        for begin in range(0, drawn, at_once):
            count = min(at_once, drawn - begin)
            block["value"][:, :count, 0] = compute_ns[:, begin : begin + count]
            if gaps_ns is not None:
                block["value"][:, :count, reading] = gaps_ns[:, begin : begin + count]
            yield block.reshape(program.processes, at_once * length)[:, : count * length]
    yield end(program.processes, m.PASSES)


def bursts(program: Program, draws: Draws, most: int, think_ns: int, first: int) -> Iterator[Operations]:
    """The bursts of a job of one process; its user thinks before each; responses go from ``first`` on."""
    each = operations(1, 3)
    each["code"] = m.SLEEPING, m.COMPUTE, m.RESPOND
    each["value"][0, 0] = think_ns
    if think_ns == 0:
        each = each[:, 1:2]
    each["marks"][each["code"] == m.COMPUTE] = m.OVERRUNS
    each["marks"][0, 0] |= m.PASSES
    for count in pieces(program.phase_count(), most // 3):
        block = np.tile(each, (1, count))
        block["value"][block["code"] == m.COMPUTE] = draws.compute_ns(count)
        block["peer"][block["code"] == m.RESPOND] = first + np.arange(count)[: count if think_ns else 0]
        first += count
        yield block
    yield end(1, m.PASSES)


def sections(program: Program, draws: Draws, most: int, first: int) -> Iterator[Operations]:
    """The critical sections of a process, with the computations between them; locks go from ``first`` on."""
    for count in pieces(program.phase_count(), most // 2):
        block = operations(1, 2 * count)
        compute = block[:, ::2]
        lock = block[:, 1::2]
        compute["code"], compute["marks"] = m.COMPUTE, m.PASSES | m.OVERRUNS
        compute["value"] = draws.compute_ns(count)
        lock["code"], lock["value"] = m.LOCKING, round(program.section_us * 1e3)
        lock["peer"] = first + draws.among(program.locks, count)
        yield block
    yield end(1, m.PASSES)


def tasks(program: Program, draws: Draws, most: int) -> Iterator[Operations]:
    """The tasks of a program, in the order in which processes take them. A task takes as long in each."""
    profile = np.array(program.parallelism or ((1, program.processes),))
    ends = np.cumsum(profile[:, 0])
    first = 0
    for count in pieces(program.phase_count(), most):
        block = operations(1, count)
        place = np.searchsorted(ends, np.arange(first, first + count) % ends[-1], side="right")
        block["code"], block["marks"], block["peer"] = m.TASK, m.OVERRUNS, profile[place, 1]
        block["value"] = draws.compute_ns(count)
        first += count
        yield block
    yield end(1, 0)


def operations(rows: int, count: int) -> Operations:
    """A number of empty operations for each of a number of processes."""
    block = np.zeros((rows, count), m.OPERATION)
    block["peer"] = m.NOBODY
    return block


def end(rows: int, marks: int) -> Operations:
    """The end of the programs of a number of processes."""
    block = operations(rows, 1)
    block["code"], block["marks"] = m.END, marks
    return block


def pieces(whole: int, most: int) -> Iterator[int]:
    """Numbers of at most ``most`` that add up to ``whole``."""
    for begin in range(0, whole, most):
        yield min(most, whole - begin)


class Part(NamedTuple):
    """Operations that the processes of a recorded program execute ``times`` times over."""

    operations: tuple[Operations, ...]  # of each process; messages are numbered from 0 within one time
    messages: Integers  # how many go over each channel in one time
    times: int = 1  # at least 1


@dataclass(frozen=True)
class ReplayedProgram:
    """What the processes of a recorded program do, and over which channels they talk."""

    parts: tuple[Part, ...]  # one after the other
    # (channels, 3) sender and receiver, which are ranks, and whether the channel meets.
    channels: NDArray[np.int32]
    # Whether its processes spin whatever the waiting rule of the run, as their MPI does.
    as_mpi: bool = False
    # A process that spins by the rule spin gives its processor away so often, as its MPI does; 0 for never.
    yield_interval_ns: int = 0

    def __post_init__(self) -> None:
        if (longest := max(map(self.count, range(self.processes)))) > MOST_COMPUTATIONS:
            raise InputError(
                "recording",
                longest,
                f"a process has {longest} steps, and {MOST_COMPUTATIONS} is the most",
                "record a shorter run",
            )

    @property
    def processes(self) -> int:
        return len(self.parts[0].operations)

    def count(self, rank: int) -> int:
        """How many steps a process has: computations and sleeps, each with the messages after it."""
        every = ((part.times, part.operations[rank]["marks"]) for part in self.parts)
        return sum(times * int(np.count_nonzero(marks & m.PASSES)) for times, marks in every)

    def busy_ns(self, rank: int) -> int:
        """The CPU time of a process."""
        every = ((part.times, part.operations[rank]) for part in self.parts)
        return sum(times * int(each["value"][each["code"] == m.COMPUTE].sum()) for times, each in every)

    def longest_ns(self) -> int:
        """Its longest computation or sleep."""
        every = (each for part in self.parts for each in part.operations)
        return max(int(each["value"].max(where=(each["marks"] & m.PASSES) > 0, initial=0)) for each in every)

    def blocks(self, rank: int, most: int, first: int) -> Iterator[Operations]:
        """All operations of a process, in blocks of at most ``most``; its channels go from ``first`` on.

        At any time one block is in memory, and the operations of one part.
        """
        before = np.zeros(len(self.channels), dtype=np.int64)
        for part in self.parts:
            every = part.operations[rank]
            together = max(1, most // max(1, len(every)))  # short parts several times at once
            for begun in range(0, part.times, together):
                times = min(together, part.times - begun)
                for begin in range(0, len(every), most):
                    piece = every[begin : begin + most]
                    block = np.tile(piece.view(m.RAW), times).view(m.OPERATION)
                    takes = np.flatnonzero(block["code"] == m.RECEIVE)
                    channels = block["peer"][takes]
                    block["value"][takes] += before[channels] + takes // len(piece) * part.messages[channels]
                    if first:
                        block["peer"] += first * (block["peer"] >= 0)
                    yield block[None]
                before += times * part.messages
        yield end(1, m.PASSES)
