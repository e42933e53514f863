"""What has happened in a run of a job log: a file alongside the store, from which ``--resume`` continues it.

Lines are appended during the run. Each begins with a checksum over it and all before it, so a reader
takes the file up to the last line that is as it was written. A run that continues begins when that was: what
has happened later is forgotten, and a job that had begun and not ended runs again.
"""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import hashlib
import json
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.view import ANY_JOB, arrival_after_ns
from coordinator.workload import History, JobResult, ParallelJob, Result
from harness.store.conditions import Conditions
from harness.store.payloads import BROKEN
from harness.store.records import RunRecord
from workloads.record import RankResult

SCHEMA = 1

CAUSE_NS = 5_000_000_000
"""A job that failed within this time before an interruption runs again: the cause may be the same."""

OPEN = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class RunName:
    """Which run of which experiment it is; ``key`` is what tells the experiment's runs apart."""

    digest: str
    key: Sequence[Any]

    def place(self, store: Path) -> Path:
        """The file of its journal alongside a store."""
        name = hashlib.sha256(json.dumps([self.digest, *self.key]).encode()).hexdigest()[:16]
        return store.with_name(f"{store.name}.{name}.journal")


class _End(NamedTuple):
    job: JobResult
    ranks: tuple[RankResult, ...]
    at_ns: int


@dataclass
class Past:
    """What has happened in a run up to ``clock_ns``, by the lines of its journal.

    Attributes:
        conditions: of the session that began it; None if there was none.
        ended: the jobs that are over.
        requeued: how often each other job had begun without an end, before the last interruption.
        interrupted_ns: the times, by its clock, at which it was interrupted.
        again: the jobs that had begun by then without an end.
    """

    conditions: Conditions | None = None
    clock_ns: int = 0
    ended: dict[int, _End] = field(default_factory=dict)
    requeued: Counter[int] = field(default_factory=Counter)
    interrupted_ns: list[int] = field(default_factory=list)
    again: set[int] = field(default_factory=set)
    _begins: Counter[int] = field(default_factory=Counter)

    @property
    def empty(self) -> bool:
        """Whether no job has begun or ended."""
        return not (self.ended or self.interrupted_ns or self._begins)

    def hear(self, line: Mapping[str, Any]) -> None:
        """Take in the next line; one of BROKEN if it is none of a journal."""
        match line:
            case {"conditions": conditions}:
                self.conditions = Conditions(**conditions)
            case {"begins": int(job), "at_ns": int(at_ns)}:
                self._begins[job] += 1
                self.clock_ns = max(self.clock_ns, at_ns)
            case {"ends": result, "ranks": ranks, "at_ns": int(at_ns)}:
                ended = JobResult(**{**result, "placement": tuple(result["placement"])})
                self.ended[ended.number] = _End(ended, tuple(map(RankResult.of_record, ranks)), at_ns)
                self.clock_ns = max(self.clock_ns, at_ns)
            case {"continues": _}:
                self.interrupt()
            case _:
                raise ValueError("it holds another line")

    def interrupt(self) -> None:
        """The run is interrupted, and begins again now."""
        suspect = [n for n, end in self.ended.items() if end.job.failure and self._since(end) < CAUSE_NS]
        for number in suspect:
            del self.ended[number]
        lost = {job: begins for job, begins in self._begins.items() if job not in self.ended}
        self.requeued.update(lost)
        self.again |= lost.keys()
        self._begins.clear()
        self.interrupted_ns.append(self.clock_ns)

    def _since(self, end: _End) -> int:
        return self.clock_ns - end.at_ns

    def rest(self, jobs: Sequence[ParallelJob]) -> tuple[ParallelJob, ...]:
        """The jobs that are not over; of those that follow one that is, the arrival is known."""
        arrivals_s = self._arrivals_s(jobs)
        return tuple(
            replace(job, arrival_s=arrivals_s[job.number], after=None) if job.number in arrivals_s else job
            for job in jobs
            if job.number not in self.ended
        )

    def _arrivals_s(self, jobs: Sequence[ParallelJob]) -> dict[int, float]:
        """When the jobs arrive that follow one that is over (``coordinator.decide.session.Agenda``)."""
        following: dict[int, deque[ParallelJob]] = defaultdict(deque)
        for job in jobs:
            if job.after:
                following[job.after.job].append(job)
        arrivals_s = {}
        # A job that failed before its arrival ends then.
        ends_ns = {number: max(end.at_ns, end.job.arrival_ns) for number, end in self.ended.items()}
        for number, end_ns in sorted(ends_ns.items(), key=itemgetter(1)):
            released = [*following.pop(number, ())]
            if of_any := following.get(ANY_JOB):
                released.append(of_any.popleft())
            for job in released:
                assert job.after
                own_ns = round(job.arrival_s * 1e9)
                arrivals_s[job.number] = arrival_after_ns(end_ns, own_ns, job.after.think_ns) / 1e9
        return arrivals_s

    def joined(self, result: Result) -> Result:
        """The result of the whole run from that of its rest."""
        if not self.interrupted_ns:
            return result
        rest = [replace(job, requeued=job.requeued + self.requeued[job.number]) for job in result.jobs]
        jobs = sorted([*rest, *(end.job for end in self.ended.values())], key=lambda job: job.number)
        ranks = [*result.ranks, *(rank for end in self.ended.values() for rank in end.ranks)]
        failed = [f"job {job.number}: {job.failure}" for job in jobs if job.failure]
        return replace(
            result,
            jobs=tuple(jobs),
            ranks=tuple(sorted(ranks, key=lambda rank: (rank.job, rank.rank))),
            failure=result.broken or "\n".join(failed),
        )

    def known(self) -> dict[str, Any]:
        """The conditions of a run that was interrupted; none of another."""
        if not self.interrupted_ns:
            return {}
        return {"interrupted_ns": list(self.interrupted_ns), "ran_again": len(self.again)}


@dataclass
class Found:
    """What has happened by the lines that are as they were written; their checksum, and their length."""

    past: Past = field(default_factory=Past)
    seen: Any = field(default_factory=hashlib.sha256)
    whole_bytes: int = 0


class Journal(History):
    """The history of a run, which it writes to an open ``file``, if any, behind what is ``found`` there.

    ``first`` is the first line to write, and a run in which no job begins writes none. After a line that
    cannot be written there is no further one. ``warnings`` tell of damage, also at once to ``tell``.
    """

    def __init__(
        self,
        found: Found | None = None,
        file: int | None = None,
        first: Mapping[str, Any] | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        found = found or Found()
        self.past = found.past
        self.warnings: list[str] = []
        self._file = file
        self._found = found
        self._first = first
        self._tell = tell

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        self._tell(text)

    @property
    def begin_ns(self) -> int:
        return self.past.clock_ns

    def begins(self, job: int, at_ns: int) -> None:
        self._write({"begins": job, "at_ns": at_ns})

    def ends(self, job: JobResult, ranks: Sequence[RankResult], at_ns: int) -> None:
        whole = replace(job, requeued=job.requeued + self.past.requeued[job.number])
        records = [rank.recorded() for rank in ranks]
        self._write({"ends": dataclasses.asdict(whole), "ranks": records, "at_ns": at_ns})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        try:
            if self._first:
                with suppress(OSError):  # of a device
                    os.ftruncate(self._file, self._found.whole_bytes)
                _append(self._file, self._first, self._found.seen)
                self._first = None
            _append(self._file, line, self._found.seen)
        except OSError as error:
            self._file = None
            self.warn(f"the journal ends here ({error}): if the run is interrupted, its rest runs again")


def _append(file: int, line: Mapping[str, Any], seen: Any) -> None:
    """Add a line behind those whose checksum is ``seen``; OSError if that fails."""
    content = json.dumps(line).encode() + b"\n"
    seen.update(content)
    data = seen.hexdigest().encode() + b" " + content
    if os.write(file, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


NEW = Journal()
"""That of a run of which nothing is kept."""


@contextmanager
def kept(
    path: Path, header: Mapping[str, Any], tell: Callable[[str], None], *, resume: bool
) -> Iterator[Journal]:
    """The journal of a run at ``path``, which stays there and which no other process writes meanwhile.

    To ``resume`` continues what is there; else, and if it is of no use, ``header`` is its first line.
    Without a journal, as where another process writes it, the run cannot be continued.
    """
    journal = Journal(tell=tell)
    try:
        file = os.open(path, OPEN, 0o600)
    except OSError as error:
        journal.warn(f"{path} cannot be opened ({error}): if the run is interrupted, it begins again")
        yield journal
        return
    try:
        if not _locked(file):
            yield journal
            return
        damage: list[str] = []
        found = read(file, header, damage.append) if resume else Found()
        continues = not found.past.empty
        if not continues:
            found = Found()
        journal = Journal(found, file, {"continues": True} if continues else header, tell)
        for text in damage:
            journal.warn(text)
        if continues:
            found.past.interrupt()
        yield journal
    finally:
        os.close(file)


def header(run: RunName, conditions: Conditions) -> dict[str, Any]:
    """The first line of the journal of a run."""
    return {
        "schema": SCHEMA,
        "digest": run.digest,
        "key": [*run.key],
        "conditions": conditions.recorded(),
    }


def settle(path: Path, record: RunRecord) -> None:
    """Remove the journal of a recorded run, unless that has broken off, or another process writes it."""
    with suppress(OSError):
        file = os.open(path, OPEN & ~os.O_CREAT)
        try:
            jobs = {job.job for job in record.jobs}
            over = record.succeeded or read(file, None, lambda text: None).past.ended.keys() >= jobs
            if over and _locked(file):
                path.unlink()
        finally:
            os.close(file)


def read(file: int, header: Mapping[str, Any] | None, warn: Callable[[str], None]) -> Found:
    """What an open journal holds, up to the first line that is damaged; nothing if it has another header."""
    found = Found()
    with open(file, "rb", closefd=False) as stream:
        lines = stream.read().splitlines(keepends=True)
    for number, line in enumerate(lines):
        checksum, _, content = line.partition(b" ")
        seen = found.seen.copy()
        seen.update(content)
        try:
            if seen.hexdigest().encode() != checksum:
                raise ValueError("it is not as it was written")
            value = json.loads(content)
            if header and not number:
                _check_header(value, header)
            found.past.hear(value)
        except BROKEN as error:
            if line.endswith(b"\n"):  # else it was cut off
                what = "its rest runs again" if number else "it begins again"
                warn(f"the journal of the run is damaged from line {number + 1} on ({error}): {what}")
            break
        found.seen = seen
        found.whole_bytes += len(line)
    return found


def _check_header(found: Mapping[str, Any], required: Mapping[str, Any]) -> None:
    for name in ("schema", "digest", "key"):
        if found[name] != required[name]:
            raise ValueError(f"found {name} {found[name]!r}, required {required[name]!r}")


def _locked(file: int) -> bool:
    """Whether this process has now the lock of a file; also where the file system has no locks."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True
