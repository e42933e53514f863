"""Recordings as programs that the simulator can replay.

All times come from the recording. A call that does not wait for others (it starts an operation, or sends a
small message) takes as long as it took, but at most the median of calls of its kind and size: in the
others the program was disturbed. Of a call that may have waited the 10th percentile of its kind and size is
its own time, and the simulated wait comes on top. Time in MPI counts as CPU time. So what the bytes of
a small message take is in the times of both calls. A large one has only the time of its copy: the receiver
makes it when both have come. A wait spins longer for the bytes that its rank has given since its last
wait, as two-phase waits do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from harness.predict.recorded_messages import Channels, Columns, Transfers, acts_of
from harness.simulator.processes import model as m
from harness.simulator.processes.operations import Operations, Part, ReplayedProgram, operations
from harness.store import recording as recordings
from harness.store.recording import FIRST, KIND, MAY_WAIT, SENDS, Recording, polled
from harness.store.stretches import stretches
from workloads.native.recorded import KINDS
from workloads.validation import InputError

OWN, USUAL = 0.1, 0.5  # quantiles of the times of calls that may wait, and that do not

LEAST_SLEEP_S = 0.025
"""Shorter sleeps of a start are polls within a longer one: Open MPI 4.1 sleeps 1,400 times in 0.2 s."""

SIZES = 64  # classes of sizes: powers of two

CARRIED_BYTES_PER_NS = 4
MOST_CARRIED_NS = 2_000_000
"""By how much a wait spins longer (``workloads/native/wait.c``)."""

AFTER = np.zeros(len(KINDS), bool)
AFTER[[KIND[name] for name in ("PROBE", "WAIT", "RECV", "SSEND")]] = True
"""Their own time comes after the wait: a message is copied when it is there."""

WAITS_ITSELF = MAY_WAIT.copy()
WAITS_ITSELF[[KIND[name] for name in ("SEND", "BSEND")]] = True
"""Kinds of calls that end with a two-phase wait, also for what is there at once."""


def replayed(
    recording: Recording,
    *,
    as_mpi: bool = False,
    blocking_calls: bool = True,
    start_up_s: float = 0.0,
    asleep_s: tuple[float, float] = (0.0, 0.0),
    max_s: float | None = None,
    copies: bool = True,
) -> ReplayedProgram:
    """The program of a recording.

    Each stretch is repeated as often as it stands for operations. All processes sleep for
    ``asleep_s``, before and after what is recorded, and compute before it for ``start_up_s``: in turn, as
    often as the ranks slept there, but for at least LEAST_SLEEP_S each time. With ``max_s``
    stretches are repeated less often, in proportion, so that the program takes about so long, but each of
    them once; the times before and after are shorter in the same proportion. ``as_mpi``: the processes spin
    as their MPI does, whatever the waiting rule. ``blocking_calls``: whether its collective operations are
    the MPI's blocking calls. They are if the waiting rule is spin. Two-phase waits make nonblocking calls, in
    which no rank waits for a root. ``copies``: whether the time that it takes to copy a large message counts.
    """
    recorded = stretches(recording)
    if not recorded:
        raise InputError(
            "recording",
            " ".join(recording.command),
            "holds no operations of all its ranks",
            "record a longer run",
        )
    channels = Channels()
    world = [rank.rank for rank in recording.ranks]
    communicators = [rank.communicators for rank in recording.ranks]
    columns = [[recordings.operations(rows) for rows in one.rows] for one in recorded]
    times = _OwnTimes.of([each for ranks in columns for each in ranks])
    rooted = blocking_calls and has_root(recording)
    transfers = Transfers.of(recording.ranks)
    if not copies:
        transfers = replace(transfers, copy_ns=(0.0,) * len(recordings.COPIED_BYTES))
    related = partial(acts_of, rooted=rooted, transfers=transfers)
    acts = [related(ranks, world, communicators, channels) for ranks in columns]
    repeats = [one.operations / sum(map(len, one.rows)) for one in recorded]
    whole_s = sum(times * one.kept_s for times, one in zip(repeats, recorded, strict=True))
    share = 1.0 if max_s is None else min(1.0, max_s / whole_s)
    meets = channels.table()[:, 2] > 0
    before_s, after_s = (share * each_s for each_s in asleep_s)
    alike = partial(_alike, processes=len(world), channels=len(channels.numbers))
    sleeps = min(max(rank.init_switches for rank in recording.ranks), round(asleep_s[0] / LEAST_SLEEP_S))
    parts = [*alike(before_s, share * start_up_s, times=max(1, round(share * sleeps)))]
    for repeat, ranks, (of_ranks, counts) in zip(repeats, columns, acts, strict=True):
        operations_of = tuple(_operations(times, meets, *each) for each in zip(ranks, of_ranks, strict=True))
        messages = np.zeros(len(channels.numbers), np.int64)
        messages[: len(counts)] = counts
        parts.append(Part(operations_of, messages, max(1, round(share * repeat))))
    parts += alike(after_s)
    yield_interval_ns = round(max(rank.yield_interval_ns or 0.0 for rank in recording.ranks))
    return ReplayedProgram(tuple(parts), channels.table(), as_mpi, yield_interval_ns)


def has_root(recording: Recording) -> bool:
    """Whether operations of all ranks gather at a root in the MPI's blocking calls."""
    return all(rank.rooted for rank in recording.ranks) and len({rank.host for rank in recording.ranks}) == 1


@dataclass(frozen=True)
class _OwnTimes:
    """How long calls take apart from waiting, by kind and size."""

    own_ns: NDArray[np.float64]
    usual_ns: NDArray[np.float64]

    @classmethod
    def of(cls, every: Sequence[Columns]) -> Self:
        classes = np.concatenate([_classes(columns) for columns in every])
        within_ns = np.concatenate([columns["within_ns"] for columns in every])
        there = within_ns > 0  # a call that ends several requests has its time once
        order = np.lexsort((within_ns[there], classes[there]))
        sorted_ns = within_ns[there][order]
        present, first, counts = np.unique(classes[there][order], return_index=True, return_counts=True)
        tables = [np.zeros(len(KINDS) * SIZES) for _ in range(2)]
        for table, quantile in zip(tables, (OWN, USUAL), strict=True):
            table[present] = sorted_ns[first + ((counts - 1) * quantile).astype(np.int64)]
        return cls(*tables)

    def around(self, columns: Columns) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Nanoseconds of each operation before it gives or takes messages, and after."""
        classes = _classes(columns)
        within_ns = columns["within_ns"].astype(float)
        limit_ns = np.where(MAY_WAIT[columns["kind"]], self.own_ns[classes], self.usual_ns[classes])
        own_ns = np.minimum(within_ns, limit_ns)
        after = AFTER[columns["kind"]]
        return np.where(after, 0.0, own_ns), np.where(after, own_ns, 0.0)


def _classes(columns: Columns) -> NDArray[np.int64]:
    sizes = np.frexp(columns["bytes"].astype(float))[1].astype(np.int64)
    classes: NDArray[np.int64] = columns["kind"].astype(np.int64) * SIZES + np.minimum(sizes, SIZES - 1)
    return classes


def _operations(
    times: _OwnTimes, meets: NDArray[np.bool_], columns: Columns, acts: NDArray[Any]
) -> Operations:
    """A rank's operations: it computes before each act, but not from one it gives to one it takes then."""
    before_ns, after_ns = times.around(columns)
    met = acts["operation"][acts["takes"] & meets[acts["channel"]]]
    before_ns[met] = after_ns[met] = 0.0
    np.add.at(after_ns, acts["operation"], acts["copy_ns"])
    compute_ns = columns["compute_ns"].astype(float)
    ends_ns = np.cumsum(compute_ns + before_ns + after_ns)
    at = acts["operation"]
    takes = acts["takes"]
    begin_ns = ends_ns - after_ns - before_ns
    clock_ns = begin_ns[at] + before_ns[at] * acts["share"]
    clock_ns = np.maximum.accumulate(np.rint(clock_ns)) if len(at) else clock_ns
    computes = np.ones(len(at), bool)
    computes[1:] = ~takes[1:] | takes[:-1] | (clock_ns[1:] != clock_ns[:-1])
    polls = _polls(columns)[at]
    learns = takes & acts["collective"] & ~polls  # polling teaches nothing
    last = np.cumsum(1 + computes + learns) if len(at) else at
    steps: Operations = operations(1, int(last[-1]) + 1 if len(at) else 1)[0]
    total_ns = float(ends_ns[-1]) if len(ends_ns) else 0.0
    moments_ns = np.append(clock_ns[computes], max(total_ns, clock_ns[-1] if len(at) else 0.0))
    act = last - 1 - learns
    place = np.append(act[computes] - 1, len(steps) - 1)
    steps["code"][place], steps["marks"][place] = m.COMPUTE, m.PASSES
    steps["value"][place] = np.maximum(1, np.diff(np.rint(moments_ns), prepend=0.0))
    steps["code"][act], steps["peer"][act] = np.where(takes, m.RECEIVE, m.SEND), acts["channel"]
    steps["value"][act] = np.where(takes, acts["number"], acts["bytes"])
    steps["more_us"][act] = np.where(takes, _carried_us(columns)[at], 0)
    for mark, of in ((m.LEARNS, learns), (m.CONTINUES, acts["continues"]), (m.POLLS, polls)):
        steps["marks"][act] |= (takes & of) * np.int8(mark)
    steps["code"][last[learns] - 1] = m.LEARN
    return steps


def _carried_us(columns: Columns) -> NDArray[np.int64]:
    """By how much each wait spins longer, for the bytes given since the wait of the call before it."""
    kind = columns["kind"]
    gives = np.isin(kind, SENDS) | (kind >= FIRST)
    given_ns = np.where(gives, columns["bytes"] // CARRIED_BYTES_PER_NS, 0)
    again = (kind == KIND["WAIT"]) & (columns["within_ns"] == 0)
    waits = WAITS_ITSELF[kind] & ~_polls(columns) & ~again
    total_ns = np.cumsum(np.minimum(given_ns, MOST_CARRIED_NS))
    at = np.flatnonzero(waits)
    carried_ns = np.zeros(len(kind), np.int64)
    carried_ns[at] = np.minimum(np.diff(total_ns[at], prepend=0), MOST_CARRIED_NS)
    last = np.maximum.accumulate(np.where(waits, np.arange(len(kind)), -1))
    carried_ns[again] = np.where(last[again] >= 0, carried_ns[last[again]], 0)
    carried_us: NDArray[np.int64] = carried_ns // 1000
    return carried_us


def _polls(columns: Columns) -> NDArray[np.bool_]:
    """Which operations the program polls for; also a blocking receive of what a poll has just found."""
    polls = polled(columns)
    kind = columns["kind"]
    peer = columns["peer"]
    probes = polls & (kind == KIND["PROBE"])
    polls[1:] |= probes[:-1] & (kind[1:] == KIND["RECV"]) & (peer[1:] == peer[:-1])
    return polls


def _alike(
    asleep_s: float, busy_s: float = 0.0, *, processes: int, channels: int, times: int = 1
) -> Iterator[Part]:
    """A part in which all sleep and compute by turns, for these times and this often; none for no time."""
    steps: Operations = operations(1, 2)[0]
    steps["code"], steps["marks"] = (m.SLEEPING, m.COMPUTE), m.PASSES
    steps["value"] = round(asleep_s / times * 1e9), round(busy_s / times * 1e9)
    if len(steps := steps[steps["value"] > 0]):
        yield Part((steps,) * processes, np.zeros(channels, np.int64), times)
