"""Which messages the operations of a recording send and take: the *acts* of each rank.

Receives belong to sends by sender, tag and order, and by order alone where a receive takes any tag. A large
message meets: its sender waits until it has been received (``Transfers``). A collective operation in which
all wait for all takes ceil(log2 P) rounds (dissemination), or gathers along a binomial tree at the first
rank, which releases all. In one with a root, messages go along such a tree. A nonblocking one gives all its
messages when it begins. Large messages that a rank takes in another order than they are sent have several
channels. What has no counterpart is left out, and so are ranks that were not recorded.
Where a message crosses the beginning of a stretch, one of its ends would wait for ever: it is left out, too.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from harness.store.recording import ANYONE, COPIED_BYTES, FIRST, KIND, LAST, SENDS, RankRecording

SMALL, LARGE, COLLECTIVE = range(3)
"""Kinds of channels. Between two ranks further channels of LARGE have every third number after it."""

KINDS = 3

ACT = np.dtype(
    [
        *(("operation", np.int64), ("place", np.int32)),  # when: order of acts of one operation
        *(("channel", np.int32), ("takes", bool)),
        *(("number", np.int64), ("begun", np.int64)),  # of the message; operation that began to take it
        *(("collective", bool), ("continues", bool)),
        ("share", np.float64),  # of the operation's own time that passes before
        ("bytes", np.int64),  # of what it gives
        ("copy_ns", np.int64),  # to take a message that meets takes so much CPU time; else 0
    ]
)

ANY_TAG = 255

MOST_CROSSING = 100
"""So many messages may cross the beginning of a stretch; with more, the replay says that it is stuck."""

SYNCHRONOUS = [KIND["SSEND"], KIND["ISSEND"]]
BUFFERED = [KIND["BSEND"], KIND["IBSEND"]]
RECEIVES = [KIND["RECV"], KIND["IRECV"]]
FROM_ROOT = [KIND[name] for name in ("BCAST", "SCATTER", "SCATTERV")]
BY_ROOT = [KIND[name] for name in ("BARRIER", "ALLREDUCE")]
"""Gathered at a root, which then releases all, by MPIs that do so."""

TO_ROOT = [KIND[name] for name in ("REDUCE", "GATHER", "GATHERV")]

Numbers = NDArray[np.int64]
Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Transfers:
    """Large messages in the MPI of a recorded program."""

    # From how many bytes on sender and receiver meet. What MPIs do by default within a node begins between
    # 4 and 64 KiB.
    meets_from_bytes: int = 16_384
    # How much longer messages of COPIED_BYTES take than one of a byte.
    copy_ns: tuple[float, ...] = tuple(size / 4 for size in COPIED_BYTES)

    @classmethod
    def of(cls, ranks: Sequence[RankRecording]) -> Self:
        """As the ranks have found out, if they are on one host; what is unknown is as by default."""
        first = ranks[0]
        if len({rank.host for rank in ranks}) > 1:
            return cls()
        return cls(first.meets_from_bytes or cls.meets_from_bytes, first.copy_ns or cls.copy_ns)

    def times_ns(self, sizes: Numbers) -> Numbers:
        """How much longer messages of ``sizes`` bytes take than one of a byte."""
        sizes_known = (0, *COPIED_BYTES)
        times_ns = (0.0, *self.copy_ns)
        beyond = np.maximum(1.0, sizes / sizes_known[-1])
        result: Numbers = np.rint(np.interp(sizes, sizes_known, times_ns) * beyond).astype(np.int64)
        return result


DEFAULT = Transfers()


@dataclass
class Channels:
    """The channels of a program by sender, receiver and kind, numbered in the order of requests."""

    numbers: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def of(self, sender: int, receiver: int, kind: int) -> int:
        return self.numbers.setdefault((sender, receiver, kind), len(self.numbers))

    def table(self) -> NDArray[np.int32]:
        rows = [(sender, receiver, kind % KINDS == LARGE) for sender, receiver, kind in self.numbers]
        return np.array(rows, np.int32).reshape(-1, 3)


def waits_of(columns: Columns) -> Numbers:
    """For each operation that starts a request the place of the WAIT that ends it; -1 for others."""
    request = columns["request"]
    kind = columns["kind"]
    waits = np.full(len(request), -1, np.int64)
    order = np.argsort(request, kind="stable")
    order = order[request[order] > 0]
    start = order[:-1]
    end = order[1:]
    pairs = (request[start] == request[end]) & (kind[start] != KIND["WAIT"]) & (kind[end] == KIND["WAIT"])
    waits[start[pairs]] = end[pairs]
    return waits


def acts_of(
    ranks: Sequence[Columns],
    world: Sequence[int],
    communicators: Sequence[Mapping[int, tuple[int, ...]]],
    channels: Channels,
    *,
    rooted: bool = False,
    transfers: Transfers = DEFAULT,
) -> tuple[list[NDArray[Any]], Numbers]:
    """The acts of each rank in order, and the messages of each channel.

    ``ranks`` are the operations of a stretch (``recording.operations``), ``world`` the ranks' numbers in
    MPI_COMM_WORLD, and ``communicators`` theirs (``RankRecording``). ``rooted``: BARRIER and ALLREDUCE gather
    at a root, which releases all. ``transfers``: large messages in their MPI.
    """
    own = {number: place for place, number in enumerate(world)}
    ends = [waits_of(columns) for columns in ranks]
    sends, receives = (_one_end(ranks, ends, own, sent=sent) for sent in (True, False))
    _drop_tags(sends, receives)
    of_all = [
        [*_collectives(one, ends[rank], rank, communicators[rank], own, channels, rooted=rooted)]
        for rank, one in enumerate(ranks)
    ]
    for _ in range(MOST_CROSSING):
        by_rank = [[*parts] for parts in of_all]
        for rank, acts in _messages(sends, receives, len(ranks), channels, transfers):
            by_rank[rank].append(acts)
        whole = [np.concatenate([*parts, np.zeros(0, ACT)]) for parts in by_rank]
        for columns, every in zip(ranks, whole, strict=True):
            common = every["collective"]
            every["bytes"][common] = columns["bytes"][every["operation"][common]]
        counts = np.zeros(len(channels.numbers), np.int64)
        for (sender, _, _), channel in channels.numbers.items():
            acts = whole[sender]
            counts[channel] = np.count_nonzero((acts["channel"] == channel) & ~acts["takes"])
        ordered = [_ordered(acts, counts, channels) for acts in whole]
        stuck = _stuck(ordered, channels)
        before = len(sends) + len(receives)
        receives = _without_first(receives, "receiver", stuck)
        if len(sends) + len(receives) == before:
            sends = _without_first(sends, "sender", stuck)
        if len(sends) + len(receives) == before:
            break
    return ordered, counts


def _stuck(acts: Sequence[NDArray[Any]], channels: Channels) -> list[tuple[int, int]]:
    """Ranks, and operations in which they wait for ever; none if all come to their ends."""
    columns = [[one[name].tolist() for name in ("channel", "takes", "number")] for one in acts]
    ends = [
        (sender, receiver if kind % KINDS == LARGE else sender) for sender, receiver, kind in channels.numbers
    ]
    counts = [[0] * len(ends) for _ in acts]
    at = [0] * len(acts)
    moved = True
    while moved:
        moved = False
        for rank, (of, takes, number) in enumerate(columns):
            place = at[rank]
            while place < len(of):
                channel = of[place]
                if not takes[place]:
                    counts[rank][channel] += 1
                elif any(counts[end][channel] <= number[place] for end in ends[channel]):
                    break
                place += 1
            moved, at[rank] = moved or place > at[rank], place
    left = [(rank, acts[rank], place) for rank, place in enumerate(at)]
    return [(rank, int(mine["operation"][place])) for rank, mine, place in left if place < len(mine)]


def _without_first(messages: NDArray[Any], end: str, stuck: Sequence[tuple[int, int]]) -> NDArray[Any]:
    """Messages without the first like one that waits for ever here: its partner came before the stretch."""
    for rank, operation in stuck:
        ours = messages[end] == rank
        for one in messages[ours & (messages["end"] == operation)]:
            alike = ours & np.all(
                [messages[name] == one[name] for name in ("sender", "receiver", "tag")], axis=0
            )
            places = np.flatnonzero(alike)
            return np.delete(messages, places[np.argmin(messages["operation"][places])])
    return messages


def _ordered(acts: NDArray[Any], counts: Numbers, channels: Channels) -> NDArray[Any]:
    """Acts in order, with numbers for what collective operations take, without what no process gives."""
    of_all = acts["takes"] & acts["collective"]
    for channel in np.unique(acts["channel"][of_all]):
        here = np.flatnonzero(of_all & (acts["channel"] == channel))
        here = here[np.argsort(acts["begun"][here], kind="stable")]
        acts["number"][here] = np.arange(len(here))
    if len(acts):
        acts = acts[~acts["takes"] | (acts["number"] < counts[acts["channel"]])]
    return acts[np.lexsort((acts["place"], acts["operation"]))]


def _acts(operation: Numbers, place: int, channel: int, *, takes: bool, **more: Any) -> NDArray[Any]:
    acts = np.zeros(len(operation), ACT)
    acts["operation"], acts["place"], acts["channel"], acts["takes"] = operation, place, channel, takes
    acts["begun"], acts["share"] = operation, 1.0
    for name, value in more.items():
        acts[name] = value
    return acts


def _messages(
    sends: NDArray[Any], receives: NDArray[Any], ranks: int, channels: Channels, transfers: Transfers
) -> Iterator[tuple[int, NDArray[Any]]]:
    _, ours, theirs = np.intersect1d(_keys(sends, ranks), _keys(receives, ranks), return_indices=True)
    sends = sends[ours]
    receives = receives[theirs]
    big = (sends["bytes"] >= transfers.meets_from_bytes) & ~np.isin(sends["kind"], BUFFERED)
    big |= np.isin(sends["kind"], SYNCHRONOUS)
    ways = sends["sender"].tolist(), sends["receiver"].tolist(), big.tolist()
    for sender, receiver, large in sorted({*zip(*ways, strict=True)}):
        here = np.flatnonzero((sends["sender"] == sender) & (sends["receiver"] == receiver) & (big == large))
        here = here[np.argsort(sends["operation"][here], kind="stable")]
        lines = _ascending(receives["operation"][here]) if large else [np.arange(len(here))]
        for line, places in enumerate(lines):
            channel = channels.of(sender, receiver, LARGE + KINDS * line if large else SMALL)
            yield from _of_channel(
                channel, sends[here[places]], receives[here[places]], transfers, large=large
            )


def _ascending(numbers: Numbers) -> list[Numbers]:
    """The places of ``numbers`` in as few lines as possible, so that the numbers of each line ascend."""
    if np.all(np.diff(numbers) > 0):
        return [np.arange(len(numbers))]
    last: list[int] = []  # number of each line, negative: they ascend
    lines: list[list[int]] = []
    for place, number in enumerate(numbers.tolist()):
        line = bisect_right(last, -number)
        last[line : line + 1] = [-number]
        if line == len(lines):
            lines.append([])
        lines[line].append(place)
    return [np.array(line) for line in lines]


def _of_channel(
    channel: int, sends: NDArray[Any], receives: NDArray[Any], transfers: Transfers, *, large: bool
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Both ranks' acts of the messages of a channel, in order."""
    sender, receiver = int(sends["sender"][0]), int(sends["receiver"][0])
    numbers = np.arange(len(sends))
    copy_ns = transfers.times_ns(sends["bytes"]) * large
    yield sender, _acts(sends["operation"], 0, channel, takes=False, bytes=sends["bytes"])
    if large:
        waited = sends["end"] >= 0
        yield sender, _acts(sends["end"][waited], 1, channel, takes=True, number=numbers[waited])
        yield receiver, _acts(receives["operation"], 0, channel, takes=False)
    waited = receives["end"] >= 0
    more = {"number": numbers[waited], "copy_ns": copy_ns[waited]}
    yield receiver, _acts(receives["end"][waited], 1, channel, takes=True, **more)


MESSAGE = np.dtype(
    [(name, np.int64) for name in ("sender", "receiver", "tag", "operation", "end", "bytes", "kind")]
)


def _one_end(
    ranks: Sequence[Columns], ends: Sequence[Numbers], own: Mapping[int, int], *, sent: bool
) -> NDArray[Any]:
    """The messages that the ranks have sent to each other, or received, by the operations that did so."""
    acts = []
    for rank, columns in enumerate(ranks):
        kind = columns["kind"]
        at = np.flatnonzero(np.isin(kind, SENDS if sent else RECEIVES))
        blocks = kind[at] < KIND["RECV"] if sent else kind[at] == KIND["RECV"]
        end = np.where(blocks, at, ends[rank][at])
        from_anyone = (columns["peer"][at] == ANYONE) & (end >= 0)
        peers = _places(np.where(from_anyone, columns["peer"][end], columns["peer"][at]), own)
        there = (peers >= 0) & (peers != rank)
        table = np.zeros(np.count_nonzero(there), MESSAGE)
        for name in ("tag", "bytes", "kind"):
            table[name] = columns[name][at[there]]
        table["operation"], table["end"] = at[there], end[there]
        table["sender"], table["receiver"] = (rank, peers[there]) if sent else (peers[there], rank)
        acts.append(table)
    return np.concatenate(acts)


def _places(peers: NDArray[Any], own: Mapping[int, int]) -> Numbers:
    """Ranks of MPI_COMM_WORLD as places among the recorded ones; -1 for others."""
    places = np.full(len(peers), -1, np.int64)
    for number in np.unique(peers):
        places[peers == number] = own.get(int(number), -1)
    return places


def _drop_tags(sends: NDArray[Any], receives: NDArray[Any]) -> None:
    """Ignore tags between two ranks if the receiver ever takes any tag: messages match in order then."""
    for receive in np.unique(receives[receives["tag"] == ANY_TAG][["sender", "receiver"]]):
        for table in (sends, receives):
            pair = (table["sender"] == receive["sender"]) & (table["receiver"] == receive["receiver"])
            table["tag"][pair] = 0


def _keys(table: NDArray[Any], ranks: int) -> Numbers:
    """One number per message from sender, receiver, tag and its position among equal ones."""
    pair = (table["sender"] * ranks + table["receiver"]) * (ANY_TAG + 1) + table["tag"]
    order = np.lexsort((table["operation"], pair))
    _, first, counts = np.unique(pair[order], return_index=True, return_counts=True)
    which = np.empty(len(pair), np.int64)
    which[order] = np.arange(len(pair)) - np.repeat(first, counts)
    keys: Numbers = pair << 32 | which
    return keys


def _collectives(
    columns: Columns,
    ends: Numbers,
    rank: int,
    communicators: Mapping[int, tuple[int, ...]],
    own: Mapping[int, int],
    channels: Channels,
    *,
    rooted: bool,
) -> Iterator[NDArray[Any]]:
    """Acts of a rank in collective operations; their messages have the bytes of the operation."""
    at = np.flatnonzero(columns["kind"] >= FIRST)
    for comm in np.unique(columns["comm"][at]):
        numbers = [own[number] for number in communicators.get(int(comm), ()) if number in own]
        if rank not in numbers or len(numbers) < 2:
            continue
        group = _Group(rank, numbers, channels, rooted)
        here = at[columns["comm"][at] == comm]
        kinds = columns["kind"][here]
        roots = _places(columns["peer"][here], own)
        for kind, root in {*zip(kinds.tolist(), roots.tolist(), strict=True)}:
            begun = here[(kinds == kind) & (roots == root)]
            blocking = kind <= LAST
            plain = kind if blocking else kind - LAST - 1 + FIRST
            senders, receivers = group.others(plain, root)
            if blocking:
                yield from group.rounds(begun, plain, root)
                continue
            for receiver in receivers:
                yield _acts(begun, 0, channels.of(rank, receiver, COLLECTIVE), takes=False, collective=True)
            waited = ends[begun] >= 0
            for place, sender in enumerate(senders):
                channel = channels.of(sender, rank, COLLECTIVE)
                more = {"begun": begun[waited], "collective": True, "continues": place > 0}
                yield _acts(ends[begun][waited], place, channel, takes=True, **more)


@dataclass(frozen=True)
class _Group:
    """The members of a communicator, and the one whose acts are wanted."""

    rank: int
    members: Sequence[int]
    channels: Channels
    rooted: bool

    def others(self, kind: int, root: int) -> tuple[list[int], list[int]]:
        """From whom and to whom messages go if all that are needed go directly."""
        others = [member for member in self.members if member != self.rank]
        if root not in self.members or kind not in (*FROM_ROOT, *TO_ROOT):
            return others, others
        ours = others if self.rank == root else []
        theirs = [root] if self.rank != root else []
        return (theirs, ours) if kind in FROM_ROOT else (ours, theirs)

    def rounds(self, at: Numbers, kind: int, root: int) -> Iterator[NDArray[Any]]:
        """The sends and receives in order: along a tree, or to and from ever farther members."""
        of_root = root in self.members and kind in (*FROM_ROOT, *TO_ROOT)
        if of_root or (self.rooted and kind in BY_ROOT):
            parent, children = self._tree(root if of_root else self.members[0])
            up = [*(("from", child) for child in children[::-1]), ("to", parent)]
            down = [("from", parent), *(("to", child) for child in children)]
            steps = [*(up if kind not in FROM_ROOT else ()), *(down if kind not in TO_ROOT else ())]
            steps = [one for one in steps if one[1] >= 0]  # the root has no parent
        else:
            here = self.members.index(self.rank)
            count = len(self.members)
            steps = []
            for distance in (1 << k for k in range((count - 1).bit_length())):
                steps.append(("to", self.members[(here + distance) % count]))
                steps.append(("from", self.members[(here - distance) % count]))
        waits = 0
        for place, (way, other) in enumerate(steps):
            takes = way == "from"
            sender, receiver = (other, self.rank) if takes else (self.rank, other)
            channel = self.channels.of(sender, receiver, COLLECTIVE)
            more = {"share": min(1.0, (place // 2 + 1) * 2 / len(steps)), "continues": takes and waits > 0}
            yield _acts(at, place, channel, takes=takes, collective=True, **more)
            waits += takes

    def _tree(self, root: int) -> tuple[int, list[int]]:
        """Parent (-1: none) and children in the binomial tree, the one with the largest subtree first."""
        count = len(self.members)
        first = self.members.index(root)
        place = (self.members.index(self.rank) - first) % count
        low = place & -place if place else 1 << (count - 1).bit_length()
        children = [place + (1 << k) for k in range(low.bit_length() - 2, -1, -1) if place + (1 << k) < count]
        parent = self.members[(place - low + first) % count] if place else -1
        return parent, [self.members[(child + first) % count] for child in children]
