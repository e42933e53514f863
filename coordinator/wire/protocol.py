"""Messages between driver and agents, and between agent and ranks: JSON objects; frequent ones are frames.

Messages are frozen dataclasses; encoding and decoding are pure and know no transport.
Decoding raises LineError for anything that is not exactly a message of this version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, starmap
from typing import TYPE_CHECKING, Any

from coordinator.wire.line_format import Framed, Frames, LineFormat, rows
from workloads import agent_line

if TYPE_CHECKING:
    from coordinator.decide.session import Plan  # with all policies

VERSION = agent_line.VERSION  # version of the messages between agents and ranks
AGENTS_VERSION = 7  # version of the messages between driver and agents
RANKS = 1 << 24  # every job has fewer
MOST_SWITCHES = 1 << 16  # a report has fewer
FLAW = "flaw"  # the only key of an invalid record; its value says why it is invalid

# Driver to agent.


@dataclass(frozen=True)
class Table(Framed):
    """A node's share of a decision (``coordinator.view.Decision``), in times of the run's clock."""

    from_ns: int  # from when on it replaces the table before
    start_ns: int  # when its first slot began or counts as begun
    cyclic: bool  # whether it starts over at its end
    lengths_ns: tuple[int | None, ...]  # length of each slot; None for an endless one
    # For each slot and processor of the node, the jobs that may run.
    runs: tuple[tuple[tuple[int, ...], ...], ...]
    # (job, rank, processor of the node) for each rank on the node.
    placements: tuple[tuple[int, int, int], ...]
    # For each slot the only ranks that may run of some jobs, as (job, rank); empty if no slot names ranks.
    allowed_ranks: tuple[tuple[tuple[int, int], ...], ...] = ()

    @classmethod
    def shares(
        cls,
        plan: Plan,
        from_ns: int,
        origin_ns: int,
        nodes: Sequence[range],
        active: Mapping[int, Sequence[int]],
    ) -> Iterator[Table]:
        """The share of each node in a plan that is in force from ``from_ns`` of a run.

        The run began at ``origin_ns`` of its clock. ``nodes`` has the processors of each node, ``active`` the
        launched ranks of each job, in its order. Equal slots at equal times differ in ``from_ns`` only.
        """
        slots = plan.decision.slots
        start_ns = plan.start_ns
        if plan.cycle.cyclic and plan.cycle.total_ns:  # from the slot that would have been in force at 0
            first, elapsed_ns = plan.cycle.position(0)
            slots = slots[first:] + slots[:first]
            start_ns = -elapsed_ns
        elif plan.cycle.lengths_ns == (None,):
            start_ns = 0
        places: list[list[tuple[int, int, int]]] = [[] for _ in nodes]
        at = [(ranks, p - here.start) for ranks, here in zip(places, nodes, strict=True) for p in here]
        for job, place in plan.decision.placements.items():
            for rank, processor in zip(active[job], place, strict=True):
                ranks, local = at[processor]
                ranks.append((job, rank, local))
        times = origin_ns + from_ns, origin_ns + start_ns
        lengths_ns = tuple(slot.length_ns for slot in slots)
        allowed_ranks = tuple(
            tuple((job, active[job][rank]) for job, rank in slot.allowed_ranks) for slot in slots
        )
        for ranks, here in zip(places, nodes, strict=True):
            runs = tuple(slot.runs[here.start : here.stop] for slot in slots)
            yield cls(
                *times,
                plan.decision.cyclic,
                lengths_ns,
                runs,
                tuple(ranks),
                allowed_ranks if any(allowed_ranks) else (),
            )

    def flaw(self) -> str:
        """Why no agent can carry it out; empty if one can."""
        widths = {len(slot) for slot in self.runs}
        if len(self.lengths_ns) != len(self.runs) or len(widths) != 1:
            return "slots without a length, or of different processors"
        if any(length is not None and length < 1 for length in self.lengths_ns):
            return "a slot that is over before it begins"
        if self.allowed_ranks and len(self.allowed_ranks) != len(self.runs):
            return "ranks of slots that it lacks"
        (width,) = widths
        nowhere = any(not 0 <= processor < width for _, _, processor in self.placements)
        return "a place nowhere" if nowhere else ""

    def numbers(self) -> tuple[Sequence[int], Sequence[int]]:
        """Times and sizes; rows behind their lengths: placements, jobs of slots, ``allowed_ranks``."""
        lengths_ns = (-1 if length is None else length for length in self.lengths_ns)
        sizes = len(self.lengths_ns), len(self.runs[0]) if self.runs else 0
        shorts: list[int] = []
        for row in chain([chain(*self.placements)], *self.runs, starmap(chain, self.allowed_ranks)):
            values = [*row]
            shorts += len(values), *values
        return (self.from_ns, self.start_ns, self.cyclic, *sizes, *lengths_ns), shorts

    @classmethod
    def of(cls, longs: Sequence[int], shorts: Sequence[int]) -> Table:
        """The inverse of ``numbers``; a ValueError if there is none that can be executed."""
        from_ns, start_ns, cyclic, slots, width, *lengths_ns = longs
        known_ns = tuple(None if length == -1 else length for length in lengths_ns)
        placements, *cells = _sized(shorts)
        starts = (slot * width for slot in range(min(slots, len(cells))))
        runs = tuple(tuple(cells[at : at + width]) for at in starts)
        allowed_ranks = tuple(rows(row, 2) for row in cells[slots * width :])
        table = cls(from_ns, start_ns, bool(cyclic), known_ns, runs, rows(placements, 3), allowed_ranks)
        if reason := table.flaw():
            raise ValueError(reason)
        return table


def _sized(numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Rows behind their lengths; a ValueError if the last one is too short."""
    rest = iter(numbers)
    for size in rest:
        row = tuple(islice(rest, size))
        if len(row) != size:
            raise ValueError(f"a row of {size} numbers that has {len(row)}")
        yield row


FROM_BYTES = 14  # how a table begins on the wire, with ``from_ns`` at the end


@dataclass(frozen=True)
class Start:
    """Let ranks of ``job`` begin at ``at_ns`` of the run's clock; ``cores`` has (rank, core) for each here.

    A rank with several threads has several cores, first its place's. ``ranks`` are the launched ranks of all
    nodes that take part, in the order of the job; empty for all.
    """

    job: int
    at_ns: int
    cores: tuple[tuple[int, int], ...]
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Resize:
    """Let the malleable ``job`` continue soon with one active rank on each of ``cores``."""

    job: int
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Move:
    """Let ranks of ``job``, which run, continue on other cores: ``cores`` has (rank, core) for each."""

    job: int
    cores: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ClaimCores:
    """Claim these cores of the node for the run, and report other runs that use them."""

    cores: tuple[int, ...]


@dataclass(frozen=True)
class Discard:
    """Terminate all processes of ``job`` on the node: it has failed, or starts again elsewhere."""

    job: int


@dataclass(frozen=True)
class Echo(Framed):
    """The answer to a beat, with times of the run's clock."""

    sent_ns: int
    received_ns: int
    replied_ns: int


@dataclass(frozen=True)
class Leave:
    """These jobs are over, or the whole workload if none is named: their ranks finalize and exit."""

    jobs: tuple[int, ...] = ()


@dataclass(frozen=True)
class End:
    """The run is over: send the last reports and exit."""


# Agent to driver.


@dataclass(frozen=True)
class Beat(Framed):
    """The agent lives; the driver answers with an echo."""

    sent_ns: int  # when the agent sent it, on the node's clock
    offset_ns: int  # by how much the run's clock is ahead of the node's
    uncertainty_ns: int  # by how much ``offset_ns`` may be wrong
    drift_ppt: int  # how much faster the run's clock runs, in parts per 10^12
    steps: int  # how often a clock has jumped
    dropped: int  # number of invalid lines


@dataclass(frozen=True)
class Join:
    """The node takes part."""

    host: str  # its name
    cores: tuple[int, ...]  # ids of the cores that the agent may use, ascending
    guardian: int  # pid of the node's guardian
    priority: str  # how promptly the agent is scheduled, in words


@dataclass(frozen=True)
class OfRank:
    """A rank has said something, with times by the run's clock, or has gone."""

    job: int
    rank: int
    said: RankReady | RankRecord | RankParallelism | RankTraffic | RankGone


@dataclass(frozen=True)
class Released:
    """The agent has released all that the run had on the node, and ends."""


@dataclass(frozen=True)
class SwitchReport(Framed):
    """Changes of slot: (slot, due on the run's clock, delay, skew), in nanoseconds."""

    switches: tuple[tuple[int, int, int, int], ...]

    def numbers(self) -> tuple[Sequence[int], Sequence[int]]:
        return tuple(chain(*self.switches)), ()

    @classmethod
    def of(cls, longs: Sequence[int], shorts: Sequence[int]) -> SwitchReport:
        if shorts or len(longs) > 4 * MOST_SWITCHES:
            raise ValueError("more switches than are told at a time")
        return cls(rows(longs, 4))


@dataclass(frozen=True)
class Failure:
    """A fault of a node; if ``fatal``, the run cannot continue."""

    text: str
    fatal: bool


# Rank to agent.


@dataclass(frozen=True)
class Hello:
    """First line of a rank."""

    version: int
    job: int
    rank: int


@dataclass(frozen=True)
class RankReady:
    """The rank waits for its start."""


@dataclass(frozen=True)
class RankGone:
    """In place of a message: the rank has closed its connection."""


@dataclass(frozen=True)
class RankRecord:
    """The rank has run its program; ``record`` is the file form of a ``RankResult``, or has only FLAW."""

    record: Mapping[str, Any]


@dataclass(frozen=True)
class RankParallelism:
    """From now on the job can use so many processes."""

    processes: int


@dataclass(frozen=True)
class RankTraffic:
    """The rank now gets messages often from ``peers``, ranks of its job in order, and from no others."""

    peers: tuple[int, ...]

    def flaw(self) -> str:
        """Why there are no such ranks; empty if there may be."""
        rising = all(a < b for a, b in pairwise((-1, *self.peers, RANKS)))
        return "" if rising else "ranks out of order"


@dataclass(frozen=True)
class RankBecoming:
    """The process executes another program on core ``processor``; the program's end is the rank's finish."""

    processor: int
    start_ns: int


# Agent to rank.


@dataclass(frozen=True)
class RankStart:
    """Bind to ``cores`` and begin at ``at_ns`` on core ``processor``; ``ranks`` is as in ``Start``."""

    at_ns: int
    processor: int
    cores: tuple[int, ...]
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class RankResize:
    """To rank 0 of a malleable job: continue with one active rank on each of ``cores``, or ANYWHERE."""

    cores: tuple[int, ...]


@dataclass(frozen=True)
class RankLeave:
    """Finalize and exit."""


def _messages(version: int | None, **messages: type[Any]) -> LineFormat:
    return LineFormat(messages, version, tag="type", printable=True)


_TO_AGENT = _messages(
    AGENTS_VERSION,
    start=Start,
    resize=Resize,
    move=Move,
    claim=ClaimCores,
    discard=Discard,
    leave=Leave,
    end=End,
)
TO_AGENT = Frames(_TO_AGENT, AGENTS_VERSION, {b"E": Echo, b"T": Table})
_TO_DRIVER = _messages(
    AGENTS_VERSION,
    join=Join,
    rank=OfRank,
    failure=Failure,
    released=Released,
)
TO_DRIVER = Frames(_TO_DRIVER, AGENTS_VERSION, {b"B": Beat, b"S": SwitchReport})
FROM_RANK = _messages(
    None,
    hello=Hello,
    ready=RankReady,
    parallelism=RankParallelism,
    traffic=RankTraffic,
    becoming=RankBecoming,
    record=RankRecord,
)
TO_RANK = _messages(None, start=RankStart, resize=RankResize, leave=RankLeave)
