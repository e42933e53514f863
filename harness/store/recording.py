"""Recordings: what the ranks of a program did between and in their calls of MPI (docs/reference).

Ranks leave files of the library in C (``workloads/native/operations.c``). ``gather`` makes recordings of
them; ``write`` and ``read`` keep one in a columnar file. A recording is a list of *windows* of equal
length in time for each rank. Of a short program they hold everything; of a long one each holds its first
operations, and stands for all of its time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.host.launchers import program_name
from workloads.bounds import RANKS
from workloads.native.recorded import KINDS
from workloads.validation import LockstepError, reason_of, shown

VERSION = 1
FOLDER = "recordings"
"""Where recordings are, below the directory for records."""

MAGIC = b"LOCKSTEP"
HEAD_BYTES = 4096
SLOTS = 16
FULL, FINALIZED, ROOTED = 1, 2, 4
"""Flags of a rank's file."""

OUTSIDE = ("init_ns", "init_cpu_ns", "finalize_ns", "finalize_cpu_ns", "init_switches")
"""Of MPI_Init and MPI_Finalize, which are not recorded themselves."""

COPIED_BYTES = tuple(4096 << size for size in range(9))
"""Sizes of the messages whose times a recording has (``workloads/native/rendezvous.c``)."""

OPERATION = np.dtype(
    [
        *(("compute_ns", "<f4"), ("within_ns", "<f4"), ("bytes", "<u4"), ("peer", "<i4")),
        *(("request", "<u4"), ("comm", "<u2"), ("kind", "u1"), ("tag", "u1")),
    ]
)
"""One kept operation; docs/reference/recordings.md says what each column means."""

WINDOW = np.dtype(
    [
        *((name, "<i8") for name in ("begin_ns", "kept_end_ns", "operations", "kept")),
        *((name, "<f8") for name in ("compute_ns", "within_ns", "kept_compute_ns", "kept_within_ns")),
        *((name, "<i8") for name in ("collectives", "reserved_bytes")),
    ]
)
"""A window of a rank: all of its operations, and those that are kept."""

HEAD = np.dtype(
    [
        *(("magic", "S8"), ("world", "S32"), ("host", "S64")),
        *((name, "<i4") for name in ("version", "rank", "ranks", "process", "slots", "most_kept")),
        *((name, "<i4") for name in ("threads", "flags")),
        *((name, "<i8") for name in ("start_ns", "finish_ns", "slot_ns", "collectives")),
        *((name, "<i8") for name in ("members_bytes", "last_ns")),
        *(("meets_from_bytes", "<i8"), ("copy_ns", "<f8", len(COPIED_BYTES)), ("yield_interval_ns", "<f8")),
        *((name, "<i8") for name in OUTSIDE),
        ("windows", WINDOW, SLOTS),
    ]
)
"""How the file of a rank begins."""

KIND = {name: number for number, name in enumerate(KINDS)}
POLLABLE = (KIND["WAIT"], KIND["PROBE"])
MORE = KIND["MORE"]
SENDS = [KIND[name] for name in ("SEND", "SSEND", "BSEND", "ISEND", "ISSEND", "IBSEND")]
FIRST, LAST = KIND["BARRIER"], KIND["COMMUNICATOR"]
"""The blocking collective operations; the nonblocking ones follow in the same order."""

MAY_WAIT = np.zeros(len(KINDS), bool)  # which kinds may wait for another rank

MAY_WAIT[[KIND[name] for name in ("OTHER", "PROBE", "WAIT", "RECV", "SSEND")]] = True
MAY_WAIT[FIRST : LAST + 1] = True

NOBODY = -1
ANYONE = -2

LONGEST_YIELD_NS = 1e7
"""A wait that gives its processor away more rarely keeps it for a slice."""

LONGEST_NS = 10**17  # three years
DIFFER_NS = 10**9
"""By how much computing may seem to be negative: a part of it is reckoned from the clock of the host."""

UNKNOWN = "a file of another kind, or not complete"

Rows = NDArray[Any]


class RecordingError(LockstepError):
    """A recording cannot be read or written: its file, the rule that it breaks, and what to do."""

    exit_status = 2

    def __init__(self, path: Path, rule: str, remedy: str = "name a file that lockstep record has written"):
        super().__init__(f"{path}: {rule}; {remedy}")
        self.rule = rule


@dataclass(frozen=True)
class RankRecording:
    """What one rank did."""

    rank: int  # in MPI_COMM_WORLD
    host: str  # its host's name
    start_ns: int  # begin, on the clock of its host
    finish_ns: int  # end, or of a rank that was killed its last operation
    complete: bool  # whether it called MPI_Finalize
    full: bool  # whether it stopped recording for want of room
    threads: int  # how many of its threads called MPI; the operations of several follow each other here
    slot_ns: int  # length of a window
    windows: Rows  # of ``WINDOW``
    rows: Rows  # of ``OPERATION``; those that the windows keep, one window after the other
    # Their numbers, each with the ranks of MPI_COMM_WORLD that a rank can send to.
    communicators: Mapping[int, tuple[int, ...]]
    # Whether its MPI's BARRIER and ALLREDUCE on one host gather at a root, which releases all.
    rooted: bool = False
    # From how many bytes on a send to a rank of its host waits for its receive; 0 if unknown.
    meets_from_bytes: int = 0
    # By how much longer messages of COPIED_BYTES take than one of a byte; empty if unknown.
    copy_ns: tuple[float, ...] = ()
    # How long a call that waits looks for its message before it gives its processor away; 0 if it does not,
    # None if unknown.
    yield_interval_ns: float | None = None
    # How long MPI_Init and MPI_Finalize took, and how much CPU time of the rank; 0 if unknown.
    init_ns: int = 0
    init_cpu_ns: int = 0
    finalize_ns: int = 0
    finalize_cpu_ns: int = 0
    init_switches: int = 0  # how often it slept from its start until MPI_Init returned; 0 if unknown

    @property
    def elapsed_ns(self) -> int:
        return self.finish_ns - self.start_ns

    def window(self, number: int) -> Rows:
        """The kept operations of a window; none if the rank had ended."""
        ends = np.cumsum(self.windows["kept"])
        if number >= len(ends):
            return self.rows[:0]
        return self.rows[ends[number] - self.windows["kept"][number] : ends[number]]


@dataclass(frozen=True)
class Recording:
    """What the ranks of one program did, in the order of ranks."""

    command: tuple[str, ...]  # the command line that started it
    processes: int  # how many ranks there were, also if not all of them are recorded
    ranks: tuple[RankRecording, ...]  # the recorded ones

    @property
    def elapsed_ns(self) -> int:
        return max(rank.elapsed_ns for rank in self.ranks)

    @property
    def lacks(self) -> str:
        """What it does not say of the program's MPI within a host, and which rows that concerns, in one line.

        Empty if it says all that a simulation takes from it.
        """
        if len(self.ranks) < 2 or len({rank.host for rank in self.ranks}) > 1:
            return ""
        lacking = []
        if any(rank.yield_interval_ns is None for rank in self.ranks):
            lacking.append("how often its MPI gives its processor away (rows of none that spin)")
        if (
            not all(rank.copy_ns for rank in self.ranks)
            and max(map(_longest_sent, self.ranks)) >= COPIED_BYTES[0]
        ):
            lacking.append(f"what messages from {COPIED_BYTES[0] >> 10} KiB on take (all rows)")
        if not lacking:
            return ""
        sentence = f"the recording of {program_name(self.command)} does not say {' and '.join(lacking)}"
        return f"{sentence}: they are simulated with usual values; record it again on an idle host"


def operations(rows: Rows) -> dict[str, NDArray[Any]]:
    """The columns of kept operations, without MORE: its bytes are in the operation after it (int64)."""
    there = rows["kind"] != MORE
    sizes = rows["bytes"].astype(np.int64)
    sizes[1:] += np.where(there[:-1], 0, sizes[:-1] << 32)
    return {name: rows[name][there] for name in OPERATION.names or ()} | {"bytes": sizes[there]}


def _longest_sent(rank: RankRecording) -> int:
    """Bytes of the longest message to one rank that was kept."""
    kept = operations(rank.rows)
    return int(kept["bytes"][np.isin(kept["kind"], SENDS)].max(initial=0))


def polled(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Which of the ``operations`` a program polled for: the call that completed the wait does not wait."""
    polls: NDArray[np.bool_] = np.isin(columns["kind"], POLLABLE) & (columns["bytes"] > 0)
    return polls


def gather(folder: Path, command: Sequence[str]) -> list[Recording]:
    """The recordings of all programs whose ranks left files in a directory, the longest first."""
    worlds: dict[bytes, list[tuple[int, RankRecording]]] = {}
    for path in sorted(folder.glob("rank-*.operations")):
        if recorded_rank := _rank(path):
            world, processes, rank = recorded_rank
            worlds.setdefault(world, []).append((processes, rank))
    in_order = attrgetter("rank")
    programs = [
        Recording(
            tuple(command), ranks[0][0], windows_alike(sorted((rank for _, rank in ranks), key=in_order))
        )
        for ranks in worlds.values()
    ]
    return sorted(programs, key=lambda one: -one.elapsed_ns)


def _rank(path: Path) -> tuple[bytes, int, RankRecording] | None:
    """World, number of ranks and recording of a rank's file; None if it was killed before it began."""
    try:
        with path.open("rb") as file:
            begin = file.read(HEAD.itemsize)
            if len(begin) < HEAD.itemsize or begin[:8] not in (MAGIC, bytes(8)):
                raise RecordingError(path, UNKNOWN)
            if begin[:8] != MAGIC:
                return None
            (head,) = np.frombuffer(begin, HEAD)
            if head["version"] != VERSION:
                raise RecordingError(path, f"has version {head['version']}, and must have {VERSION}")
            windows = head["windows"][: max(0, int(head["slots"]))]
            most, words = int(head["most_kept"]), int(head["members_bytes"]) // 4
            members_at = HEAD_BYTES + SLOTS * most * OPERATION.itemsize
            room = path.stat().st_size - members_at
            if len(windows) == 0 or most < 0 or not 0 <= words <= room // 4:
                raise RecordingError(path, UNKNOWN)
            rows = [_kept(path, file, head, number) for number in range(len(windows))]
            file.seek(members_at)
            communicators = _communicators(path, np.frombuffer(file.read(words * 4), "<i4"))
    except OSError as error:
        raise RecordingError(path, f"cannot be read: {reason_of(error)}") from error
    finish_ns = int(head["finish_ns"])
    last_ns = max(int(head["last_ns"]), int(head["start_ns"]))
    return (
        bytes(head["world"]),
        int(head["ranks"]),
        RankRecording(
            *(int(head["rank"]), head["host"].decode(errors="replace"), int(head["start_ns"])),
            *(finish_ns or last_ns, bool(head["flags"] & FINALIZED), bool(head["flags"] & FULL)),
            *(int(head["threads"]), int(head["slot_ns"]), windows.copy()),
            np.concatenate(rows),
            communicators,
            *(bool(head["flags"] & ROOTED), _count(int(head["meets_from_bytes"]))),
            _times(head["copy_ns"].tolist()) if head["copy_ns"].any() else (),
            _interval_ns(max(0.0, float(head["yield_interval_ns"]))) if head["yield_interval_ns"] else None,
            *(_count(int(head[name])) for name in OUTSIDE),
        ),
    )


def _times(copy_ns: Sequence[float]) -> tuple[float, ...]:
    good = len(copy_ns) == len(COPIED_BYTES) and all(0 < time_ns < 1e12 for time_ns in copy_ns)
    return tuple(map(float, copy_ns)) if good else ()


def _interval_ns(value: Any) -> float | None:
    return float(value) if isinstance(value, float) and 0 <= value < LONGEST_YIELD_NS else None


def _count(value: Any) -> int:
    return value if _whole(value, 0, 10**15) else 0


def _kept(path: Path, file: Any, head: Any, number: int) -> Rows:
    kept = int(head["windows"][number]["kept"])
    most = int(head["most_kept"])
    if not 0 <= kept <= most:
        raise RecordingError(path, UNKNOWN)
    file.seek(HEAD_BYTES + number * most * OPERATION.itemsize)
    held = file.read(kept * OPERATION.itemsize)
    if len(held) < kept * OPERATION.itemsize:
        raise RecordingError(path, UNKNOWN)
    return _known(path, np.frombuffer(held, OPERATION))


def _known(path: Path, rows: Rows) -> Rows:
    if np.any(rows["kind"] >= len(KINDS)):
        raise RecordingError(path, UNKNOWN)
    return rows


def _communicators(path: Path, words: NDArray[Any]) -> dict[int, tuple[int, ...]]:
    communicators = {}
    place = 0
    while place < len(words):
        if place + 3 > len(words) or not 0 <= words[place + 2] <= len(words) - place - 3:
            raise RecordingError(path, UNKNOWN)
        number = int(words[place])
        ranks = int(words[place + 2])
        communicators[number] = tuple(map(int, words[place + 3 : place + 3 + ranks]))
        place += 3 + ranks
    return communicators


def windows_alike(ranks: Sequence[RankRecording]) -> tuple[RankRecording, ...]:
    """The ranks with windows of one length: those that ended early may have shorter ones."""
    slot_ns = max(rank.slot_ns for rank in ranks)
    found = list(ranks)
    for number in range(len(found)):
        while 0 < found[number].slot_ns < slot_ns:
            found[number] = _halved(found[number])
    return tuple(found)


def _halved(rank: RankRecording) -> RankRecording:
    """The rank with every two windows as one, as the ranks themselves do it."""
    windows = []
    rows = []
    for first in range(0, len(rank.windows), 2):
        one = rank.windows[first].copy()
        kept = [rank.window(first)]
        if first + 1 < len(rank.windows):
            two = rank.windows[first + 1]
            together = one["kept"] == one["operations"]
            names = ["operations", "compute_ns", "within_ns"]
            names += ["kept", "kept_compute_ns", "kept_within_ns"] if together else []
            for name in names:
                one[name] += two[name]
            if together:
                one["kept_end_ns"] = two["kept_end_ns"]
                kept.append(rank.window(first + 1))
        windows.append(one)
        rows += kept
    return replace(
        rank,
        slot_ns=2 * rank.slot_ns,
        windows=np.array(windows, WINDOW),
        rows=np.concatenate([*rows, rank.rows[:0]]),
    )


def write(recording: Recording, path: Path) -> None:
    about = {
        "lockstep": "recording",
        "version": VERSION,
        "kinds": KINDS,
        "command": recording.command,
        "processes": recording.processes,
        "ranks": [
            {name: getattr(rank, name) for name in PLAIN}
            | {"windows": len(rank.windows), "operations": len(rank.rows)}
            | {"communicators": [[number, *ranks] for number, ranks in rank.communicators.items()]}
            for rank in recording.ranks
        ],
    }
    rows = np.concatenate([rank.rows for rank in recording.ranks])
    windows = np.concatenate([rank.windows for rank in recording.ranks])
    columns: dict[str, Any] = {name: rows[name] for name in OPERATION.names or ()}
    columns |= {f"window_{name}": windows[name] for name in WINDOW.names or () if name != "reserved_bytes"}
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            text = np.frombuffer(json.dumps(about).encode(), "u1")
            np.savez_compressed(file, about=text, **columns)
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RecordingError(
                path, f"the recording cannot be written: {reason_of(error)}", "choose another file"
            ) from error
        raise


PLAIN = (
    *("rank", "host", "start_ns", "finish_ns", "complete", "full", "threads", "slot_ns"),
    *("rooted", "meets_from_bytes", "copy_ns", "yield_interval_ns", *OUTSIDE),
)


def read(path: Path) -> Recording:
    """The recording in a file, with figures that a program can have had.

    Raises:
        RecordingError: for another file, or one that is damaged or was changed.
    """
    try:
        with np.load(path, allow_pickle=False) as held:
            about = json.loads(bytes(held["about"]))
            if about["lockstep"] != "recording" or about["version"] != VERSION:
                raise RecordingError(path, f"has version {shown(about['version'])}, and must have {VERSION}")
            rows = _known(path, _table(held, OPERATION, ""))
            windows = _table(held, WINDOW, "window_")
        recording = Recording(tuple(about["command"]), about["processes"], _ranks(path, about, rows, windows))
    except RecordingError:
        raise
    except OSError as error:
        raise RecordingError(
            path, f"cannot be read: {reason_of(error) if error.strerror else UNKNOWN}"
        ) from error
    except Exception as error:  # zipfile, zlib and NumPy raise nearly anything for damaged bytes
        raise RecordingError(path, f"no recording: {UNKNOWN}") from error
    _check(path, recording)
    return recording


def _ranks(path: Path, about: Mapping[str, Any], rows: Rows, windows: Rows) -> tuple[RankRecording, ...]:
    """The ranks of a file that ``about`` describes: each has the next rows and windows."""
    ranks = []
    row = 0
    window = 0
    for one in about["ranks"]:
        ends = row + one["operations"], window + one["windows"]
        if not row <= ends[0] <= len(rows) or not window < ends[1] <= len(windows):
            raise RecordingError(path, UNKNOWN)
        ranks.append(
            RankRecording(
                **{name: one[name] for name in PLAIN}
                | {name: _count(one[name]) for name in ("meets_from_bytes", *OUTSIDE)}
                | {"copy_ns": _times(one["copy_ns"])}
                | {"yield_interval_ns": _interval_ns(one["yield_interval_ns"])},
                windows=windows[window : ends[1]],
                rows=rows[row : ends[0]],
                communicators={number: tuple(rest) for number, *rest in one["communicators"]},
            )
        )
        row, window = ends
    return tuple(ranks)


def _check(path: Path, held: Recording) -> None:
    """Refuse what no program can have recorded; what replays a recording relies on it."""
    if not (_whole(held.processes, 1, RANKS) and all(isinstance(word, str) for word in held.command)):
        raise RecordingError(path, f"no recording: {UNKNOWN}")
    for place, rank in enumerate(held.ranks):
        for reason in _faults(rank, held.processes):
            raise RecordingError(
                path, f"entry {place} of ranks: {reason}", "record the program again with lockstep record"
            )
    if not 0 < len({rank.rank for rank in held.ranks}) == len(held.ranks):
        raise RecordingError(path, "no recording: it must have ranks, and each of them once")


def _faults(rank: RankRecording, processes: int) -> Iterator[str]:
    """What is wrong with the recording of a rank, in words; what is first may make others wrong."""
    last = processes - 1
    plain = dict.fromkeys(("threads", "start_ns", "finish_ns", "slot_ns"), (0, LONGEST_NS)) | {
        "rank": (0, last)
    }
    for name, (least, most) in plain.items():
        if not _whole(value := getattr(rank, name), least, most):
            yield f"{name} must be a whole number from {least} to {most}, and is {value!r}"
    if rank.finish_ns < rank.start_ns:
        yield f"it ends at {rank.finish_ns} ns, before its start at {rank.start_ns} ns"
    if not isinstance(rank.host, str):
        yield f"host must be a name, and is {rank.host!r}"
    if not all(_whole(number, 0, 65_535) for number in rank.communicators):
        yield "a communicator must have a number from 0 to 65535"
    if not all(_whole(member, NOBODY, last) for ranks in rank.communicators.values() for member in ranks):
        yield f"members of communicators must be ranks from 0 to {last}, or {NOBODY}"
    positive = (0, LONGEST_NS)
    computing = (-DIFFER_NS, LONGEST_NS)
    columns = {"peer": (ANYONE, last), "compute_ns": computing, "within_ns": positive}
    yield from _outside("operation", rank.rows, columns)
    of_windows = dict.fromkeys(WINDOW.names or (), positive)
    yield from _outside("window", rank.windows, of_windows | dict.fromkeys(COMPUTING, computing))
    kept = rank.windows["kept"]
    operations = rank.windows["operations"]
    if np.any(kept > operations) or kept.sum() != len(rank.rows):
        kept_of_all = f"{kept.sum()} of {operations.sum()} operations"
        yield f"its windows keep {kept_of_all}, and {len(rank.rows)} are there"


COMPUTING = ("compute_ns", "kept_compute_ns")


def _outside(what: str, table: Rows, ranges: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for name, (least, most) in ranges.items():
        within = (table[name] >= least) & (table[name] <= most)  # nan is not
        if not within.all():
            at = int(np.argmin(within))
            yield f"{name} of {what} {at} must be from {least} to {most}, and is {table[name][at]}"


def _whole(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _table(held: Mapping[str, NDArray[Any]], dtype: np.dtype[Any], prefix: str) -> Rows:
    """The columns of a file as one array; a column that the file need not have is 0."""
    names = dtype.names or ()
    columns = {name: held[prefix + name] for name in names if name != "reserved_bytes"}
    table = np.zeros(len(columns[names[0]]), dtype)
    for name, column in columns.items():
        if column.shape != table.shape or not np.can_cast(column.dtype, dtype[name], "same_kind"):
            raise ValueError(name)
        table[name] = column
    return table
