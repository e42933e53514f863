"""Where the ranks of a job are that makes no progress, and which rank the others wait for.

A rank in a collective call waits for the ranks that have not begun it, one in a receive or send for its peer.
From that follows a verdict only where it must: a rank that others wait for and that does not wait itself,
ranks that wait for each other in a circle, or ranks in different collective calls of one communicator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coordinator.topology import ranges
from harness.analyse.rank_report import NO_CONCLUSION, Report
from harness.measure.rank_notes import (
    ANY,
    BEGINNING,
    FINALIZED,
    FINALIZING,
    NOT_NOTED,
    WORLD,
    CallNote,
    Communicator,
    RankNote,
    ThreadNote,
)
from harness.measure.rank_sight import ASLEEP, ENDED, SILENT, STOPPED
from harness.measure.rank_watch import POLL_GAP_S, JobState, RankState
from harness.measure.stacks import Thread
from workloads.native.noted import COLLECTIVE_KINDS

BUSY = 0.2
"""With a larger share of a processor a rank computes in the threads that are not in MPI."""

OF_FILES = re.compile(r"File_(read|write)(_at|_shared)?")
"""Calls in which a rank waits for no other."""

FROM_ROOT, TO_ROOT = ("Bcast", "Scatter", "Scatterv"), ("Gather", "Gatherv", "Reduce")
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


def examined(jobs: Sequence[JobState]) -> list[Stuck]:
    """The jobs that a watch has, each in view of the others."""
    return [Stuck(job, _idle_s(other for other in jobs if other is not job)) for job in jobs]


def _idle_s(jobs: Iterable[JobState]) -> float:
    """For how long no living rank of some jobs has made progress."""
    ranks = (rank for job in jobs for rank in job.ranks if rank.state != ENDED)
    return min((rank.idle_s for rank in ranks), default=math.inf)


class Stuck:
    """A job whose ranks may be stuck.

    For ``others_idle_s`` no rank of another job has made progress; infinite if there is none.
    """

    def __init__(self, job: JobState, others_idle_s: float = math.inf) -> None:
        self._job, self._others_idle_s = job, others_idle_s
        self._ranks = {one.note.rank: one for one in job.ranks if one.note.rank >= 0}
        self._absent = sorted({*range(job.size)} - self._ranks.keys()) if self._ranks else []
        self._waiting = {rank: self._waits_for(one) for rank, one in self._ranks.items()}

    def since(self, limit_s: float) -> bool:
        """Whether a rank waits, and for this time neither it nor a rank that it waits for made progress."""
        answering = [one for one in self._job.ranks if one.note.communicators is not None]
        beginning = [one for one in answering if one.note.stage == BEGINNING]
        if any(one.idle_s >= limit_s and one.state != ENDED for one in beginning):
            return True
        waiting = [rank for rank, one in self._waiting.items() if one is not None]
        return any(self._ranks[rank].waited_s >= limit_s and self._idle(rank, limit_s) for rank in waiting)

    @property
    def whole(self) -> bool:
        """Whether all ranks for which one may wait are known, or none has got beyond MPI_Init."""
        if any(one.state == SILENT for one in self._job.ranks):
            return False
        return not self._absent or all(one.note.stage == BEGINNING for one in self._job.ranks)

    def _idle(self, rank: int, limit_s: float) -> bool:
        reached = self._reached(rank)
        elsewhere = any(waiting.elsewhere for one in reached if (waiting := self._waiting[one]))
        return (not elsewhere or self._others_idle_s >= limit_s) and all(
            self._ranks[one].idle_s >= limit_s or self._ranks[one].note.stage == FINALIZED for one in reached
        )

    def _reached(self, rank: int) -> set[int]:
        """The ranks that have come for which a rank may wait, directly or not, and itself.

        If it waits for a rank that has not come, any that has may be what that one waits for.
        """
        reached, open_ = set[int](), [rank]
        while open_:
            one = open_.pop()
            if one in reached or one not in self._ranks:
                continue
            reached.add(one)
            waiting = self._waiting[one]
            if waiting is not None:
                known = waiting.known and waiting.ranks <= self._ranks.keys()
                open_ += waiting.ranks if known else self._ranks
        return reached

    def report(self) -> Report:
        """Lines on all ranks, those with most ranks first, and the verdict."""
        by_state = dict[str, list[int]]()
        for rank, one in self._ranks.items():
            by_state.setdefault(self.described(one), []).append(rank)
        states = sorted(by_state.items(), key=lambda item: (-len(item[1]), item[1]))
        lines = [f"{_ranks(ranks)}: {text}" for text, ranks in states]
        unnumbered = [one for one in self._job.ranks if one.note.rank < 0]
        if unnumbered:
            pids = ", ".join(str(one.note.pid) for one in unnumbered)
            lines.append(f"processes {pids}: in MPI_Init for {min(one.idle_s for one in unnumbered):.0f} s")
        if self._absent:
            lines.append(f"{_ranks(self._absent)}: not in MPI_Init yet, or out of Lockstep's reach")
        lines += self._hosts()
        verdict = self.verdict()
        ranks = [
            {
                "rank": rank,
                "host": one.host,
                "pid": one.note.pid,
                "idle_s": round(one.idle_s, 1),
                "state": one.state,
                "call": _name(one.note),
                "text": self.described(one),
            }
            for rank, one in self._ranks.items()
        ]
        document = {"ranks": ranks, "absent": self._absent, "verdict": verdict}
        living = {rank: one for rank, one in self._ranks.items() if one.state != ENDED and one.pid_here}
        threads = {rank: _threads(one) for rank, one in living.items()}
        groups = [ranks for _, ranks in states] + [[]] * (len(lines) - len(states))
        return Report(tuple(lines), verdict, document, groups, threads)

    def _hosts(self) -> list[str]:
        """Which ranks are on which host, if there are several."""
        by_host = dict[str, list[int]]()
        for rank, one in sorted(self._ranks.items()):
            by_host.setdefault(one.host, []).append(rank)
        texts = [f"{_ranks(ranks)} on {host}" for host, ranks in by_host.items()]
        return [f"hosts: {'; '.join(texts)}"] if len(texts) > 1 else []

    def verdict(self) -> str:
        """One sentence with its evidence; NO_CONCLUSION where none follows."""
        return (
            self._not_begun()
            or self._spawning()
            or self._differing()
            or self._unreachable()
            or self._missing()
            or self._left()
            or self._circle()
            or self._all_left()
            or NO_CONCLUSION
        )

    def described(self, one: RankState) -> str:
        """What a rank does, and for how long it has made no progress."""
        note, during = one.note, f"for {one.idle_s:.0f} s"
        if (over := _unseen(one) or _over(one)) is not None:
            return over
        waits = f"for {one.wait_s:.0f} s"
        stopped = ", stopped" if one.state == STOPPED else ""
        calls = [thread for thread in note.threads if thread.within and thread.call]
        if _polls(one):
            return f"polls with MPI_{_name(note)} {during}{stopped}"
        if calls:
            texts = [f"in {_call(thread)}" for thread in calls]
            return f"{' and '.join(texts)}, {waits}{stopped}"
        after = f", after MPI_{_name(note)}" if _name(note) else ""
        return f"not in MPI {during}{after}; {_outside(one)}"

    def _waits_for(self, one: RankState) -> Waiting | None:
        """For whom a rank waits; None if it does not wait in MPI, or has just made progress."""
        note = one.note
        over = note.stage in (FINALIZED, NOT_NOTED, BEGINNING) or one.state == ENDED
        if over or not one.idle_s or note.communicators is None:
            return None
        others = frozenset(range(note.ranks)) - {note.rank}
        if note.stage == FINALIZING:
            at_end = {rank for rank, other in self._ranks.items() if other.note.stage >= FINALIZING}
            return Waiting(others - at_end)
        if _polls(one):
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
        if _is_collective(call):
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

    def _not_begun(self) -> str:
        """Ranks that others wait for in MPI_Init."""
        waiting = sorted(rank for rank, one in self._ranks.items() if one.note.stage == BEGINNING)
        if not (waiting and self._absent):
            return ""
        alone = len(self._absent) == 1
        has, them = ("has", "it") if alone else ("have", "them")
        verb = "waits" if len(waiting) == 1 else "wait"
        return f"{_ranks(self._absent)} {has} not come: {_ranks(waiting)} {verb} for {them} in MPI_Init"

    def _spawning(self) -> str:
        """Ranks that wait for processes that they start, of which none has come to MPI_Init."""
        if self._others_idle_s < math.inf or self._absent:
            return ""
        waiting = dict[int, CallNote]()
        for rank, one in self._ranks.items():
            for thread in one.note.threads:
                if one.idle_s and thread.within and thread.call and thread.call.name in SPAWNING:
                    waiting[rank] = thread.call
        for rank, call in waiting.items():
            members = call.comm.members if call.comm else None
            if members is not None and all(
                one in waiting and waiting[one].name == call.name for one in members
            ):
                verb, owner = ("waits", "it") if len(members) == 1 else ("wait", "they")
                place = f"{_ranks(sorted(members))} {verb} {self._doing(rank)}"
                return f"{place}, and no process that {owner} started has come to MPI_Init on this host"
        return ""

    def _differing(self) -> str:
        """Ranks whose collective calls differ in the same place of their order in a communicator."""
        calls = dict[tuple[int, int], dict[str, list[int]]]()
        comms = dict[int, Communicator]()
        within = set[tuple[int, int]]()
        for rank, one in self._ranks.items():
            for thread in one.note.threads:
                call = thread.call
                if not (one.idle_s and call and call.comm and call.comm.id and _is_collective(call)):
                    continue
                if (
                    not thread.within and len(one.note.threads) > 1
                ):  # another thread may have made the last one
                    continue
                place = call.comm.id, call.comm.collectives
                if call.comm.name or call.comm.id not in comms:
                    comms[call.comm.id] = call.comm
                calls.setdefault(place, {}).setdefault(call.name, []).append(rank)
                if thread.within:
                    within.add(place)
        for place in within:
            if len(calls[place]) > 1:
                parts = sorted(calls[place].items(), key=lambda item: (-len(item[1]), item[1]))
                texts = [f"{_ranks(ranks)} in MPI_{name}" for name, ranks in parts]
                return f"collective calls differ {_on(comms[place[0]])}: {', '.join(texts)}"
        return ""

    def _unreachable(self) -> str:
        """A host that does not answer, and has ranks that others wait for."""
        waiters = self._waiters()
        for host in sorted({one.host for one in self._ranks.values() if one.state == SILENT}):
            there = sorted(
                rank for rank, one in self._ranks.items() if (one.host, one.state) == (host, SILENT)
            )
            waiting = sorted({other for rank in there for other in waiters.get(rank, ())} - {*there})
            if waiting:
                verb = "waits" if len(waiting) == 1 else "wait"
                doing = self._doing(waiting[0])
                return f"host {host} does not answer: {_ranks(waiting)} {verb} for {_ranks(there)} {doing}"
        return ""

    def _waiters(self) -> dict[int, list[int]]:
        """For each rank those that must wait for it."""
        waiters = dict[int, list[int]]()
        for rank, waiting in self._waiting.items():
            if waiting is not None and waiting.known and (waiting.all or len(waiting.ranks) == 1):
                for one in sorted(waiting.ranks & self._ranks.keys()):
                    waiters.setdefault(one, []).append(rank)
        return waiters

    def _missing(self) -> str:
        """Ranks that others wait for, and that do not wait in MPI themselves, or only poll."""
        waiters = self._waiters()
        outside = [rank for rank in waiters if self._waiting[rank] is None and self._ranks[rank].idle_s]
        notes = {rank: self._ranks[rank].note for rank in outside}
        outside = [rank for rank in outside if notes[rank].stage != NOT_NOTED and not notes[rank].shared]
        outside = [rank for rank in outside if self._ranks[rank].state != SILENT]
        missing = outside or [rank for rank in waiters if _polls(self._ranks[rank])]
        return "; ".join(self._told_missing(rank, waiters[rank]) for rank in sorted(missing)[:4])

    def _told_missing(self, rank: int, waiters: Sequence[int]) -> str:
        one = self._ranks[rank]
        ended = one.state == ENDED or one.note.stage == FINALIZED
        what = "has ended" if ended else "is missing"
        verb = "waits" if len(waiters) == 1 else "wait"
        return f"rank {rank} {what}: {_ranks(sorted(waiters))} {verb} for it {self._doing(min(waiters))}"

    def _left(self) -> str:
        """A rank in MPI_Finalize from which another one still expects something."""
        for rank, waiters in self._waiters().items():
            if self._ranks[rank].note.stage == FINALIZING:
                for other in waiters:
                    if self._ranks[other].note.stage != FINALIZING:
                        waits = f"rank {other} waits for it {self._doing(other)}"
                        return f"rank {rank} is in MPI_Finalize, and {waits}"
        return ""

    def _all_left(self) -> str:
        """Ranks in an MPI_Finalize to which no rank has yet to come."""
        last = [rank for rank, one in self._ranks.items() if one.note.stage == FINALIZING]
        come = all(one.note.stage in (FINALIZING, FINALIZED) for one in self._ranks.values())
        alive = all(self._ranks[rank].state != ENDED for rank in last)
        if not (last and come and alive) or self._absent:
            return ""
        verb = "is" if len(last) == 1 else "are"
        return f"{_ranks(last)} {verb} in MPI_Finalize, and no rank has yet to come there"

    def _deadlocked(self) -> set[int]:
        """Ranks that wait for each other, directly or not, and that no rank outside can help."""
        free = {rank for rank, waiting in self._waiting.items() if waiting is None or not waiting.known}
        while True:
            left = {rank: waiting for rank, waiting in self._waiting.items() if rank not in free and waiting}
            more = {rank for rank, waiting in left.items() if not self._held(waiting, left)}
            if not more:
                return set(left)
            free |= more

    def _held(self, waiting: Waiting, left: Mapping[int, Waiting]) -> bool:
        held = [rank in left for rank in waiting.ranks]
        return any(held) if waiting.all else bool(held) and all(held)

    def _circle(self) -> str:
        """Ranks that wait for each other, one after the other."""
        deadlocked = self._deadlocked()
        if not deadlocked:
            return ""
        path = [min(deadlocked)]
        while (after := self._next(path[-1], deadlocked)) not in path:
            path.append(after)
        return self._told(path[path.index(after) :])

    def _next(self, rank: int, deadlocked: set[int]) -> int:
        waiting = self._waiting[rank]
        assert waiting is not None
        return min(waiting.ranks & deadlocked)

    def _told(self, circle: Sequence[int]) -> str:
        if len(circle) == 1:
            return f"rank {circle[0]} waits for itself {self._doing(circle[0])}"
        after = [*circle[1:], circle[0]]
        parts = [
            f"rank {rank} for rank {other} {self._doing(rank)}"
            for rank, other in list(zip(circle, after, strict=True))[:4]
        ]
        more = f", and {len(circle) - 4} more" if len(circle) > 4 else ""
        sends = [thread.call for rank in circle for thread in self._ranks[rank].note.threads if thread.within]
        none = ""
        if sends and all(call is not None and call.kind == "sending" for call in sends):
            none = "; none of them has begun to receive"
        return f"{_ranks(sorted(circle))} wait for each other: {', '.join(parts)}{more}{none}"

    def _doing(self, rank: int) -> str:
        """The call in which a rank waits, without what the line about it says."""
        one = self._ranks[rank]
        if one.note.stage == FINALIZING:
            return "in MPI_Finalize"
        calls = [thread.call for thread in one.note.threads if thread.within and thread.call]
        if not calls:
            return "in MPI"
        on = f" {_on(calls[0].comm)}" if _is_collective(calls[0]) else ""
        return f"in MPI_{calls[0].name}{on}"


def _unseen(one: RankState) -> str:
    """What is said of a rank that has ended or does not answer; "" for others."""
    if one.state == ENDED:
        return "ended without MPI_Finalize" if one.note.stage < FINALIZED else "ended"
    if one.state == SILENT:
        return f"its host does not answer for {one.idle_s:.0f} s"
    if one.state == STOPPED and one.note.communicators is None:
        return f"stopped for {one.idle_s:.0f} s"
    return ""


def _over(one: RankState) -> str | None:
    """What a rank does that is not in a call, nor without one for long; None for others."""
    if one.note.stage == FINALIZED:
        return "has left MPI_Finalize"
    if one.note.stage == NOT_NOTED:
        return "waits as MPI does, and notes nothing"
    if one.note.stage == BEGINNING:
        return f"in MPI_Init for {one.idle_s:.0f} s"
    if not one.idle_s:
        return f"at work, last with MPI_{_name(one.note)}" if _name(one.note) else "at work"
    return None


def _last(note: RankNote) -> CallNote | None:
    """The last call of the thread that has made most calls."""
    thread = max(note.threads, key=lambda thread: thread.entered, default=None)
    return thread.call if thread else None


def _threads(one: RankState) -> Sequence[Thread]:
    """The threads of a rank that its line is about: those that are in MPI, or else the main one."""
    within = [thread.thread for thread in one.note.threads if thread.within]
    return [Thread.of(one.pid_here, number) for number in within or [one.pid_here]]


def _name(note: RankNote) -> str:
    call = _last(note)
    return call.name if call else ""


def _spans_worlds(call: CallNote) -> bool:
    return call.name in OF_WORLDS or (call.comm is not None and call.comm.spans_worlds)


def _is_collective(call: CallNote) -> bool:
    return call.kind in COLLECTIVE_KINDS or call.name in OF_WINDOWS


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


def _polls(one: RankState) -> bool:
    """Whether a rank tests without success, and repeats that."""
    call = _last(one.note)
    return bool(call and call.kind == "polling" and one.begun > 1 and one.wait_s < POLL_GAP_S)


def _peer(comm: Communicator | None, rank: int | None, own: int = -1) -> Waiting:
    """For whom the rank ``own`` of MPI_COMM_WORLD waits that waits for a rank of a communicator, or any."""
    if comm is None or rank is None:
        return UNKNOWN
    if rank == ANY:
        others = frozenset(comm.members or ()) - {-1, own}
        return Waiting(others, all=False) if others else UNKNOWN
    world = comm.world(rank)
    return UNKNOWN if world is None else Waiting(frozenset([world]))


def _outside(one: RankState) -> str:
    if one.state == STOPPED:
        return "stopped"
    if one.state == ASLEEP:
        return f"asleep in {one.asleep_in}" if one.asleep_in else "asleep"
    return f"computing ({one.cpu_share:.0%} of a processor)".replace("%", " %")


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {ranges(ranks).replace(',', ', ')}"


def _on(comm: Communicator | None) -> str:
    if comm is None:
        return ""
    if comm.name == WORLD:
        return "on MPI_COMM_WORLD"
    facts = [f'"{comm.name}"'] if comm.name else []
    facts += [f"from MPI_{comm.origin}"] if comm.origin else []
    what = "window" if comm.origin.startswith("Win_") else "communicator"
    return f"on a {what} of {comm.ranks}" + (f" ({', '.join(facts)})" if facts else "")


def _call(thread: ThreadNote) -> str:
    call = thread.call
    assert call is not None
    if thread.pending:
        some = "; ".join(dict.fromkeys(f"MPI_{one.name}{_about(one)}" for one in thread.pending))
        return f"MPI_{call.name} for {call.items} requests, of which these are not complete: {some}"
    if call.name.startswith("Wait") and call.items:
        return f"MPI_{call.name} for {call.items} request{'s' if call.items > 1 else ''}"
    return f"MPI_{call.name}{_about(call)}"


def _about(call: CallNote) -> str:
    if _is_collective(call) and call.source is not None:
        return f" with root {call.source} {_on(call.comm)}".rstrip()
    peers = list(_peers(call))
    if not peers:
        return f" {_on(call.comm)}".rstrip()
    size = _size(call)
    where = WORLD if call.comm and call.comm.name == WORLD else _on(call.comm)
    tag = "any tag" if call.tag < 0 else f"tag {call.tag}"
    return f" {' and '.join(peers)}, {tag}, {where or 'a communicator'}{size}".replace(", on ", " on ")


def _peers(call: CallNote) -> Iterator[str]:
    for word, peer in (("to", call.to), ("from", call.source)):
        if peer is None:
            continue
        world = call.comm.world(peer) if call.comm else None
        different = f" (world rank {world})" if world is not None and world != peer else ""
        yield f"{word} any rank" if peer == ANY else f"{word} rank {peer}{different}"


def _size(call: CallNote) -> str:
    if call.to is None or not call.items:
        return ""
    if not call.item_bytes:
        return f", {call.items} items"
    size = call.items * call.item_bytes
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f", {size / unit:.3g} {name}"
    return f", {size} bytes"
