"""Where the ranks of a job are that makes no progress, and which rank the others wait for.

A verdict is given only where it must follow: a rank that others wait for and that does not wait itself, ranks
that wait for each other in a circle, or ranks in different collective calls of one communicator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from harness.analyse.rank_lines import call_name, described, on, ranks_text
from harness.analyse.rank_report import NO_CONCLUSION, Report
from harness.analyse.rank_waits import SPAWNING, Waiting, is_collective, polls, waits
from harness.measure.rank_notes import (
    BEGINNING,
    FINALIZED,
    FINALIZING,
    NOT_NOTED,
    CallNote,
    Communicator,
)
from harness.measure.rank_sight import ENDED, SILENT
from harness.measure.rank_watch import JobState, RankState
from harness.measure.stacks import Thread


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
        self._waiting = waits(self._ranks)

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
            by_state.setdefault(described(one), []).append(rank)
        states = sorted(by_state.items(), key=lambda item: (-len(item[1]), item[1]))
        lines = [f"{ranks_text(ranks)}: {text}" for text, ranks in states]
        unnumbered = [one for one in self._job.ranks if one.note.rank < 0]
        if unnumbered:
            pids = ", ".join(str(one.note.pid) for one in unnumbered)
            lines.append(f"processes {pids}: in MPI_Init for {min(one.idle_s for one in unnumbered):.0f} s")
        if self._absent:
            lines.append(f"{ranks_text(self._absent)}: not in MPI_Init yet, or out of Lockstep's reach")
        lines += self._hosts()
        verdict = self.verdict()
        ranks = [
            {
                "rank": rank,
                "host": one.host,
                "pid": one.note.pid,
                "idle_s": round(one.idle_s, 1),
                "state": one.state,
                "call": call_name(one.note),
                "text": described(one),
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
        texts = [f"{ranks_text(ranks)} on {host}" for host, ranks in by_host.items()]
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

    def _not_begun(self) -> str:
        """Ranks that others wait for in MPI_Init."""
        waiting = sorted(rank for rank, one in self._ranks.items() if one.note.stage == BEGINNING)
        if not (waiting and self._absent):
            return ""
        alone = len(self._absent) == 1
        has, them = ("has", "it") if alone else ("have", "them")
        verb = "waits" if len(waiting) == 1 else "wait"
        return (
            f"{ranks_text(self._absent)} {has} not come: {ranks_text(waiting)} {verb} for {them} in MPI_Init"
        )

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
                place = f"{ranks_text(sorted(members))} {verb} {self._doing(rank)}"
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
                if not (one.idle_s and call and call.comm and call.comm.id and is_collective(call)):
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
                texts = [f"{ranks_text(ranks)} in MPI_{name}" for name, ranks in parts]
                return f"collective calls differ {on(comms[place[0]])}: {', '.join(texts)}"
        return ""

    def _unreachable(self) -> str:
        """Ranks that do not answer, and for which others wait; their host, if none of its ranks answers."""
        waiters = self._waiters()
        states = dict[str, dict[int, str]]()
        for rank, one in sorted(self._ranks.items()):
            states.setdefault(one.host, {})[rank] = one.state
        for host, there in sorted(states.items()):
            silent = [rank for rank, state in there.items() if state == SILENT]
            waiting = sorted({other for rank in silent for other in waiters.get(rank, ())} - {*silent})
            if waiting:
                who = f"host {host}" if len(silent) == len(there) else f"{ranks_text(silent)} on {host}"
                answer = "do not answer" if who.startswith("ranks") else "does not answer"
                verb = "waits" if len(waiting) == 1 else "wait"
                missing = f"{verb} for {ranks_text(silent)} {self._doing(waiting[0])}"
                return f"{who} {answer}: {ranks_text(waiting)} {missing}"
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
        missing = outside or [rank for rank in waiters if polls(self._ranks[rank])]
        return "; ".join(self._told_missing(rank, waiters[rank]) for rank in sorted(missing)[:4])

    def _told_missing(self, rank: int, waiters: Sequence[int]) -> str:
        one = self._ranks[rank]
        ended = one.state == ENDED or one.note.stage == FINALIZED
        what = "has ended" if ended else "is missing"
        verb = "waits" if len(waiters) == 1 else "wait"
        return f"rank {rank} {what}: {ranks_text(sorted(waiters))} {verb} for it {self._doing(min(waiters))}"

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
        return f"{ranks_text(last)} {verb} in MPI_Finalize, and no rank has yet to come there"

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
        return f"{ranks_text(sorted(circle))} wait for each other: {', '.join(parts)}{more}{none}"

    def _doing(self, rank: int) -> str:
        """The call in which a rank waits, without what the line about it says."""
        one = self._ranks[rank]
        if one.note.stage == FINALIZING:
            return "in MPI_Finalize"
        calls = [thread.call for thread in one.note.threads if thread.within and thread.call]
        if not calls:
            return "in MPI"
        where = f" {on(calls[0].comm)}" if is_collective(calls[0]) else ""
        return f"in MPI_{calls[0].name}{where}"


def _threads(one: RankState) -> Sequence[Thread]:
    """The threads of a rank that its line is about: those that are in MPI, or else the main one."""
    within = [thread.thread for thread in one.note.threads if thread.within]
    return [Thread.of(one.pid_here, number) for number in within or [one.pid_here]]
