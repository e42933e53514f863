"""The text of GOAL, which LogGOPSim's ``txt2bin`` reads: parsed, and written of a recorded program.

A schedule has operations of each rank (``calc`` ns, ``send``, ``recv``), and which of them *requires* that
another one has ended, or *irequires* that it has begun.

Source of the format: T. Hoefler, T. Schneider, A. Lumsdaine, "LogGOPSim - Simulating Large-Scale Applications
in the LogGOPS Model", LSAP 2010, and the grammar in the file ``txt2bin.re`` of LogGOPSim.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.simulator.processes import model as m
from harness.simulator.processes.operations import Operations, ReplayedProgram
from harness.store.recording import LONGEST_NS, RecordingError
from workloads.bounds import RANKS

MOST_BYTES = 2**32 - 1
KINDS = 3  # of channels between two ranks, at least
LEAST_NS = 1  # a step of a program computes so long where there is nothing to compute

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
NAME = r"[a-zA-Z][a-zA-Z0-9_]*"
CALC = re.compile(rf"(?:({NAME})\s*:\s*)?calc\s+(\d+)((?:\s+cpu\s+\d+)?)")
MESSAGE = re.compile(
    rf"(?:({NAME})\s*:\s*)?(?:send\s+(\d+)\s*b\s+to\s+(\d+)|recv\s+(\d+)\s*b\s+from\s+(-1|\d+))"
    r"(?:\s+tag\s+(-1|\d+))?((?:\s+(?:cpu|nic)\s+\d+)*)"
)
REQUIRES = re.compile(rf"({NAME})\s+(i?requires)\s+({NAME})")
RANK = re.compile(r"rank\s+(\d+)\s*\{")
NUM_RANKS = re.compile(r"num_ranks\s+(\d+)")

ANY = -1
REMEDY = "correct the schedule, or name a file that lockstep record has written"


@dataclass
class Operation:
    """A ``calc``, ``send`` or ``recv``, and what of its rank depends on it."""

    what: str
    amount: int  # ns, or bytes
    peer: int  # ANY: the rank that sends first
    tag: int
    line: int
    requires: list[int] = field(default_factory=list)  # places of operations of its rank that must have ended
    ended: list[int] = field(default_factory=list)  # places of those that begin after its end
    begun: list[int] = field(default_factory=list)  # of those that begin after its begin
    open: int = 0  # how many it still depends on


def parsed(path: Path, text: str) -> list[list[Operation]]:
    """The operations of each rank of the schedule ``text``, with their dependences.

    Raises:
        RecordingError: it is no schedule; with the line of ``path``.
    """
    parser = _Parser(path)
    plain = COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    for number, words in enumerate(map(str.strip, plain.split("\n")), start=1):
        if words:
            parser.read(number, words)
    if not parser.ranks or parser.inside is not None:
        raise RecordingError(path, "ends too early: a line with } is missing", REMEDY)
    return parser.ranks


class _Parser:
    """The ranks of a schedule, as its lines are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ranks: list[list[Operation]] = []
        self.inside: int | None = None  # the rank that is read
        self._seen: set[int] = set()
        self._places: dict[str, int] = {}  # of its operations, by label
        self._needs: list[tuple[str, str, str, int]] = []  # after, kind, before, line

    def read(self, line: int, words: str) -> None:
        if not self.ranks:
            self._begin(line, words)
        elif self.inside is None:
            self._begin_rank(line, words)
        elif words == "}":
            self._end_rank(self.ranks[self.inside])
        elif depends := REQUIRES.fullmatch(words):
            self._needs.append((depends[1], depends[2], depends[3], line))
        else:
            self._operation(line, words, self.ranks[self.inside])

    def _refused(self, line: int, rule: str) -> RecordingError:
        return RecordingError(self.path, f"line {line}: {rule}", REMEDY)

    def _begin(self, line: int, words: str) -> None:
        count = NUM_RANKS.fullmatch(words)
        if not count or not 1 <= int(count[1]) <= RANKS:
            raise self._refused(line, f"{words[:40]!r} must be num_ranks and a number from 1 to {RANKS}")
        self.ranks = [[] for _ in range(int(count[1]))]

    def _begin_rank(self, line: int, words: str) -> None:
        begins = RANK.fullmatch(words)
        if not begins or int(begins[1]) >= len(self.ranks) or int(begins[1]) in self._seen:
            rule = f"must begin a rank from 0 to {len(self.ranks) - 1} that has none yet, as in 'rank 0 {{'"
            raise self._refused(line, f"{words[:40]!r} {rule}")
        self.inside = int(begins[1])
        self._seen.add(self.inside)
        self._places, self._needs = {}, []

    def _end_rank(self, operations: Sequence[Operation]) -> None:
        for after, kind, before, line in self._needs:
            for label in (after, before):
                if label not in self._places:
                    raise self._refused(line, f"no operation of rank {self.inside} has the label {label!r}")
            one = operations[self._places[after]]
            other = operations[self._places[before]]
            one.open += 1
            if kind == "requires":
                one.requires.append(self._places[before])
                other.ended.append(self._places[after])
            else:
                other.begun.append(self._places[after])
        self.inside = None

    def _operation(self, line: int, words: str, operations: list[Operation]) -> None:
        if calc := CALC.fullmatch(words):
            label, ns, places = calc.groups()
            operation = Operation("calc", int(ns), ANY, ANY, line)
        elif message := MESSAGE.fullmatch(words):
            label, sent, receiver, room, sender, tag, places = message.groups()
            what, size, peer = ("send", sent, receiver) if sent else ("recv", room, sender)
            operation = Operation(what, int(size), int(peer), int(tag or 0), line)
        else:
            rule = "must be calc, send, recv, requires or irequires, as in 'l1: send 8b to 1 tag 0'"
            raise self._refused(line, f"{words[:40]!r} {rule}")
        if operation.amount > (LONGEST_NS if operation.what == "calc" else MOST_BYTES):
            raise self._refused(line, f"{operation.amount} is too large")
        if operation.peer >= len(self.ranks):
            raise self._refused(
                line, f"the other rank is {operation.peer}, and must be below {len(self.ranks)}"
            )
        if operation.what == "send" and operation.tag == ANY:
            raise self._refused(line, "only a recv may have the tag -1")
        if re.search(r"cpu\s+0*[1-9]", places):
            raise self._refused(line, "a rank is one process, and has cpu 0 only")
        if label in self._places:
            raise self._refused(line, f"the label {label!r} of rank {self.inside} is there twice")
        if label:
            self._places[label] = len(operations)
        operations.append(operation)


def text(program: ReplayedProgram) -> str:
    """The schedule of a program: each of its parts once; messages have at least a byte.

    A message that meets has its own operations, and others may come between its begin and its end. All else
    is one after the other. The tag of a message is its number, times the number of kinds, plus its kind.
    """
    kinds = Counter[tuple[int, int]]()
    channels = []
    for number, (sender, receiver, meets) in enumerate(program.channels.tolist()):
        every = [part.operations[sender] for part in program.parts]
        sent = [steps[(steps["code"] == m.SEND) & (steps["peer"] == number)] for steps in every]
        sizes = [size for steps in sent for size in steps["value"].tolist()]
        channels.append(_Channel(sender, receiver, bool(meets), kinds[sender, receiver], sizes))
        kinds[sender, receiver] += 1
    lines = [f"num_ranks {program.processes}"]
    for rank in range(program.processes):
        writer = _Writer(rank, channels, max(KINDS, *kinds.values(), 0))
        for part in program.parts:
            writer.add(part.operations[rank], part.messages.tolist())
        writer.end()
        lines += ["", f"rank {rank} {{", *writer.lines, "}"]
    return "\n".join([*lines, ""])


class _Channel(NamedTuple):
    sender: int
    receiver: int
    meets: bool
    kind: int  # its number among the channels of both ranks
    sizes: Sequence[int]  # of its messages, in bytes


class _Writer:
    """The lines of a rank."""

    def __init__(self, rank: int, channels: Sequence[_Channel], kinds: int) -> None:
        self.rank = rank
        self.kinds = kinds
        self.channels = channels
        self.lines: list[str] = []
        self._count = 0
        self._before = [0] * len(channels)  # messages of the parts before
        self._begun: dict[tuple[int, int], int] = {}  # messages that meet, by channel and number
        self._ended: list[int] = []  # operations that must have ended before the next one
        self._started: list[int] = []  # and those that must have begun

    def add(self, operations: Operations, messages: Sequence[int]) -> None:
        given = list(self._before)
        for step in operations:
            code, channel, value = int(step["code"]), int(step["peer"]), int(step["value"])
            if code == m.COMPUTE and value > LEAST_NS:
                self._line(f"calc {value}")
            elif code == m.SEND:
                self._message(channel, given[channel])
                given[channel] += 1
            elif code == m.RECEIVE:
                number = self._before[channel] + value
                if self.channels[channel].meets:
                    self._ended.append(self._begun[channel, number])
                else:
                    self._message(channel, number)
        self._before = [before + count for before, count in zip(self._before, messages, strict=True)]

    def end(self) -> None:
        """Keep the order in which the rank waits for its last messages: nothing else would require them."""
        if len(self._ended) > 1:
            self._line("calc 0")

    def _message(self, place: int, number: int) -> None:
        channel = self.channels[place]
        size = max(1, channel.sizes[number])
        sends = self.rank == channel.sender
        what = f"send {size}b to {channel.receiver}" if sends else f"recv {size}b from {channel.sender}"
        label = self._line(f"{what} tag {self.kinds * number + channel.kind}", begins=channel.meets)
        if channel.meets:
            self._begun[place, number] = label

    def _line(self, operation: str, *, begins: bool = False) -> int:
        self._count += 1
        label = self._count
        self.lines.append(f"l{label}: {operation}")
        self.lines += [f"l{label} requires l{before}" for before in self._ended]
        self.lines += [f"l{label} irequires l{before}" for before in self._started]
        self._ended, self._started = ([], [label]) if begins else ([label], [])
        return label
