"""For which ranks of its job a rank waits.

A rank in a collective call waits for the ranks that have not begun it, one in a receive or send for its peer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.measure.rank_notes import (
    ANY,
    BEGINNING,
    FINALIZED,
    FINALIZING,
    NOT_NOTED,
    CallNote,
    Communicator,
    RankNote,
    ThreadNote,
)
from harness.measure.rank_sight import ENDED
from harness.measure.rank_watch import POLL_GAP_S, RankState
from workloads.native.noted import COLLECTIVE_KINDS

BUSY = 0.2
"""With a larger share of a processor a rank computes in the threads that are not in MPI."""

OF_FILES = re.compile(r"File_(read|write)(_at|_shared)?")
"""Calls in which a rank waits for no other."""

FROM_ROOT = ("Bcast", "Scatter", "Scatterv")
TO_ROOT = ("Gather", "Gatherv", "Reduce")
OF_SOME = (
    *("Scan", "Exscan", "Neighbor_allgather", "Neighbor_allgatherv"),
    *("Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw"),
)
SPAWNING = ("Comm_spawn", "Comm_spawn_multiple")
OF_WORLDS = (*SPAWNING, "Comm_accept", "Comm_connect", "Comm_join")
OF_WINDOWS = ("Win_fence", "Win_free")  # collective, too


@dataclass(frozen=True)
class Waiting:
    """For which ranks of MPI_COMM_WORLD a rank waits: for ``all`` of them, or for any.

    ``known``: whether there may be no others. ``elsewhere``: whether ranks of another MPI_COMM_WORLD may be
    among them.
    """

    ranks: frozenset[int]
    all: bool = True
    known: bool = True
    elsewhere: bool = False


UNKNOWN = Waiting(frozenset(), known=False)
ELSEWHERE = Waiting(frozenset(), known=False, elsewhere=True)


def waits(ranks: Mapping[int, RankState]) -> dict[int, Waiting | None]:
    """For whom each rank of a job waits; None if it does not wait in MPI, or has just made progress.

    ``ranks`` have those that have come, by their numbers.
    """
    job = _Job(ranks)
    return {rank: job.waits_for(one) for rank, one in ranks.items()}


class _Job:
    def __init__(self, ranks: Mapping[int, RankState]) -> None:
        self._ranks = ranks

    def waits_for(self, one: RankState) -> Waiting | None:
        note = one.note
        over = note.stage in (FINALIZED, NOT_NOTED, BEGINNING) or one.state == ENDED
        if over or not one.idle_s or note.communicators is None:
            return None
        others = frozenset(range(note.ranks)) - {note.rank}
        if note.stage == FINALIZING:
            at_end = {rank for rank, other in self._ranks.items() if other.note.stage >= FINALIZING}
            return Waiting(others - at_end)
        if polls(one):
            return Waiting(others, all=False, known=False)
        calls = [
            ELSEWHERE if _spans_worlds(thread.call) else self._of_call(note, thread)
            for thread in note.threads
            if thread.within and thread.call and not OF_FILES.fullmatch(thread.call.name)
        ]
        outside = len(calls) < len(note.threads)
        if not calls or (outside and one.cpu_share > BUSY):
            return None
        if len(calls) == 1 and not outside and not note.shared:
            return calls[0]
        # As long as one of these ranks works, one of the threads may continue.
        ranks = frozenset[int]().union(*(call.ranks for call in calls))
        known = all(call.known for call in calls) and not outside and not note.shared
        elsewhere = any(call.elsewhere for call in calls)
        return Waiting(ranks, all=False, known=known, elsewhere=elsewhere)

    def _of_call(self, note: RankNote, thread: ThreadNote) -> Waiting:
        call = thread.call
        assert call is not None
        if is_collective(call):
            return self._of_collective(note, call)
        if call.kind == "sending":
            return _peer(call.comm, call.to)
        if call.name in ("Recv", "Probe", "Mprobe"):
            return _peer(call.comm, call.source, note.rank)
        if call.name.startswith("Sendrecv"):
            ends = [_peer(call.comm, call.to), _peer(call.comm, call.source, note.rank)]
            return Waiting(
                ends[0].ranks | ends[1].ranks, known=ends[0] == ends[1] and all(end.known for end in ends)
            )
        if call.name in ("Wait", "Waitall", "Waitany", "Waitsome"):
            return self._of_requests(note, thread, call)
        return UNKNOWN

    def _of_requests(self, note: RankNote, thread: ThreadNote, call: CallNote) -> Waiting:
        waits = [self._of_request(note, one) for one in thread.pending]
        if any(one.elsewhere for one in waits):
            return ELSEWHERE
        if not waits:
            return UNKNOWN
        known = all(one.known for one in waits)
        if call.name in ("Waitany", "Waitsome"):
            known = known and thread.whole
            return Waiting(frozenset().union(*(one.ranks for one in waits)), all=False, known=known)
        return Waiting(frozenset().union(*(one.ranks for one in waits)), known=known)

    def _of_request(self, note: RankNote, started: CallNote) -> Waiting:
        if started.comm and started.comm.spans_worlds:
            return ELSEWHERE
        name = started.name.removesuffix("_init").lower()
        if name in ("irecv", "recv"):
            return _peer(started.comm, started.source, note.rank)
        if name.removeprefix("i") in ("send", "ssend", "rsend", "bsend"):
            return _peer(started.comm, started.to)
        return UNKNOWN

    def _of_collective(self, note: RankNote, call: CallNote) -> Waiting:
        comm = call.comm
        if comm is None or not comm.id or comm.members is None or note.rank not in comm.members:
            return UNKNOWN
        begun = {rank: self._begun(rank, comm) for rank in comm.members if rank not in (-1, note.rank)}
        missing = {rank for rank, count in begun.items() if count is not None and count < comm.collectives}
        return _in_collective(call, comm, comm.members.index(note.rank), missing)

    def _begun(self, rank: int, comm: Communicator) -> int | None:
        """How many collective calls a rank has begun in a communicator; None if it no longer lists that one.

        A rank that has not come, or does not answer, may not have begun this one.
        """
        comms = self._ranks[rank].note.communicators if rank in self._ranks else None
        if comms is None:
            return -1
        same = comms.get(comm.id)
        return same.collectives if same else None


def _in_collective(call: CallNote, comm: Communicator, own: int, missing: set[int]) -> Waiting:
    """For whom the rank ``own`` of a communicator waits, if these have not come to a collective call.

    In some calls a rank does not need all others: then only a root, or a single missing rank, is certain.
    """
    name = call.name
    root = None if call.source is None else comm.world(call.source)
    if root in missing and name in FROM_ROOT:
        return Waiting(frozenset([root]) if root is not None else frozenset())
    of_all = name not in FROM_ROOT and name not in OF_SOME and (name not in TO_ROOT or call.source == own)
    return Waiting(frozenset(missing), known=len(missing) == 1 or (bool(missing) and of_all))


def _peer(comm: Communicator | None, rank: int | None, own: int = -1) -> Waiting:
    """For whom the rank ``own`` of MPI_COMM_WORLD waits that waits for a rank of a communicator, or any."""
    if comm is None or rank is None:
        return UNKNOWN
    if rank == ANY:
        others = frozenset(comm.members or ()) - {-1, own}
        return Waiting(others, all=False) if others else UNKNOWN
    world = comm.world(rank)
    return UNKNOWN if world is None else Waiting(frozenset([world]))


def _spans_worlds(call: CallNote) -> bool:
    return call.name in OF_WORLDS or (call.comm is not None and call.comm.spans_worlds)


def is_collective(call: CallNote) -> bool:
    """Whether all ranks of its communicator or window must make a call."""
    return call.kind in COLLECTIVE_KINDS or call.name in OF_WINDOWS


def polls(one: RankState) -> bool:
    """Whether a rank tests without success, and repeats that."""
    call = last_call(one.note)
    return bool(call and call.kind == "polling" and one.begun > 1 and one.wait_s < POLL_GAP_S)


def last_call(note: RankNote) -> CallNote | None:
    """The last call of the thread that has made most calls."""
    thread = max(note.threads, key=lambda thread: thread.entered, default=None)
    return thread.call if thread else None
