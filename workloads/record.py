"""What one rank of a job did, as one typed record: from a rank's line over files and stores to all readers.

Ranks of our programs collect it (:class:`Recorder`), the library in C leaves it as a line of JSON, and the
simulator fills it. Records come from processes that run other people's programs, so the check trusts nothing
in them: a wrong value would spoil the results of all other ranks much later.
"""

import base64
import ctypes
import os
import reprlib
import resource
import socket
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from time import monotonic_ns, thread_time_ns
from typing import TYPE_CHECKING, Annotated, Any, Self

from workloads import timeline as timelines
from workloads.parameters import Bounds, Checked, ListOf
from workloads.validation import InputError, known_keys

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST = (1 << 62) - 1  # of all numbers, so that the difference of two fits the 64 bits of a store

HISTOGRAM_BINS = 64
"""Bin b of a histogram counts waits of 2**(b-1) <= ns < 2**b; bin 0 counts waits of 0 ns."""

REMEDY = "use one version of Lockstep everywhere"


class HostName:
    """The name of a host."""

    def check(self, key: str, value: Any) -> None:
        if not isinstance(value, str) or not 0 < len(value) < 256 or not value.isprintable():
            raise InputError(key, value, "must be the name of a host", REMEDY)


class PackedTimeline:
    """The rows of a real or a simulated rank as ``workloads.timeline`` packs them, in base64."""

    def check(self, key: str, value: Any) -> None:
        most = timelines.ROWS * timelines.ROW.size
        try:
            stream = zlib.decompressobj()
            raw = stream.decompress(base64.b64decode(value, validate=True), most + 1)
            good = stream.eof and len(raw) <= most and len(raw) % timelines.ROW.size == 0
            codes = set(memoryview(raw[: len(raw) // timelines.WIDTH]).cast("q")) if good else {-1}
        except (TypeError, ValueError, zlib.error):
            codes = {-1}
        if not (codes <= timelines.MEASURED or codes <= timelines.SIMULATED):
            raise InputError(key, value, "must be a packed timeline", REMEDY)


Count = Annotated[int, Bounds(0, MOST)]
CountOrNone = Count | None
Time = Annotated[int, Bounds(-MOST, MOST)]
"""Nanoseconds on the clock of the process that holds the record: the host's, or of a run since its start."""

Histogram = Annotated[tuple[int, ...], ListOf(Bounds(0, MOST, whole=True), HISTOGRAM_BINS)]


@dataclass(frozen=True)
class WaitCounts(Checked):
    """Waits of one kind, which ended while spinning or after blocking; simulations have no histograms."""

    spun: Count = 0
    blocked: Count = 0
    spun_ns: Count = 0  # sum of their lengths
    blocked_ns: Count = 0
    blocks: Count = 0  # sleeps, maybe several a wait
    spun_histogram: Histogram | None = None
    blocked_histogram: Histogram | None = None


@dataclass(frozen=True)
class Waits(Checked):
    """The waits of a rank."""

    barrier: WaitCounts = WaitCounts()  # for all, in collective operations, or for locks
    read: WaitCounts = WaitCounts()  # for one message

    @property
    def kinds(self) -> tuple[WaitCounts, WaitCounts]:
        return self.barrier, self.read


@dataclass(frozen=True, kw_only=True)
class RankResult(Checked):
    """What one rank did (docs/reference, "ranks"); what is unknown is None, and missing in its file form.

    ``job`` and ``processes`` are 0 where only the coordinator knows them.
    """

    job: Count
    rank: Count
    processes: Count  # ranks of its job
    processor: Count  # id of its core; on several hosts the number by which the policy knows it
    host: Annotated[str, HostName()]
    pid: Count
    phases: CountOrNone = None  # completed phases, tasks taken, or bursts
    start_ns: Time
    finish_ns: Time
    cpu_ns: CountOrNone = None  # CPU time between start and finish
    computing_ns: CountOrNone = None  # CPU time by activity
    communicating_ns: CountOrNone = None
    synchronizing_ns: CountOrNone = None
    voluntary_switches: CountOrNone = None  # context switches
    involuntary_switches: CountOrNone = None
    run_queue_ns: CountOrNone = None  # it was ready while another process ran
    served: CountOrNone = None  # reads of others
    rechecks: CountOrNone = None  # sleeps that ended by the safety time-out and found a message
    waits: Waits | None = None
    # Every rank of our programs has all of the above (``OURS``), and some have of the following:
    switching_ns: CountOrNone = None  # CPU time in context switches; simulated ranks
    responses_ns: tuple[Count, ...] | None = None  # response times of bursts; interactive jobs
    # Roots of programs that adapt: phases or tasks, and with how many processes, between changes.
    sizes: tuple[tuple[Count, ...], ...] | None = None
    estimate_ns: Annotated[int, Bounds(-1, MOST)] | None = None  # learned by an adaptive rule; -1: nothing
    asleep_ns: CountOrNone = None  # in waits; commands that wait two-phase
    looked_ns: CountOrNone = None  # commands: time from the start to the last look at the kernel's counts
    running_ns: CountOrNone = None  # until then, of all threads: time on a processor
    ready_ns: CountOrNone = None  # and in wait of one
    concurrent: bool | None = None  # whether threads may call MPI at once; commands that wait two-phase
    timeline: Annotated[str, PackedTimeline()] | None = None
    timeline_lost: CountOrNone = None  # rows that the timeline had no room for
    core: CountOrNone = None  # id of the core on its host; runs on several hosts

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start_ns > self.finish_ns:
            raise InputError(
                "finish_ns", self.finish_ns, f"must be at least its start_ns, {self.start_ns}", REMEDY
            )

    @classmethod
    def of_record(cls, recorded: Mapping[str, Any]) -> Self:
        """The result with this file form; ValueError, with the reason in words, if no rank can have it."""
        if missing := [name for name in ALWAYS if name not in recorded]:
            raise ValueError(f"it lacks {', '.join(missing)}")
        try:
            known_keys(recorded, NAMES, "")
            return cls(**recorded)
        except InputError as error:
            raise ValueError(
                f"{reprlib.repr(error.key)} is {reprlib.repr(error.value)}: it {error.rule}"
            ) from None

    def recorded(self) -> dict[str, Any]:
        """Its file form."""
        return asdict(self, dict_factory=_known)

    def traced(self, rows: "NDArray[np.int64]", lost: int) -> Self:
        """The same with a timeline of these rows, before which so many were lost."""
        return replace(self, timeline=base64.b64encode(timelines.pack(rows)).decode(), timeline_lost=lost)

    @property
    def elapsed_ns(self) -> int:
        return self.finish_ns - self.start_ns


NAMES = [one.name for one in fields(RankResult)]
ALWAYS = [one.name for one in fields(RankResult) if one.default is MISSING]
"""Fields of every rank."""

OURS = NAMES[: NAMES.index("waits") + 1]
"""Fields of every rank of our programs; the store has a column for each."""


def _known(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in items if value is not None}


class WaitRecorder:
    """Collects the waits of one kind."""

    def __init__(self) -> None:
        self._blocks = self._spun_ns = self._blocked_ns = 0
        self._spun = [0] * HISTOGRAM_BINS
        self._blocked = [0] * HISTOGRAM_BINS

    def add(self, waited_ns: int, blocks: int) -> None:
        if blocks:
            self._blocks += blocks
            self._blocked_ns += waited_ns
            self._blocked[waited_ns.bit_length()] += 1
        else:
            self._spun_ns += waited_ns
            self._spun[waited_ns.bit_length()] += 1

    def counts(self) -> WaitCounts:
        return WaitCounts(
            spun=sum(self._spun),
            blocked=sum(self._blocked),
            spun_ns=self._spun_ns,
            blocked_ns=self._blocked_ns,
            blocks=self._blocks,
            spun_histogram=tuple(self._spun),
            blocked_histogram=tuple(self._blocked),
        )


class Recorder:
    """Collects what a rank does between :meth:`start` and :meth:`finish`.

    The program charges CPU time to the three activities of a process as it passes from one
    to the next; ``mark_ns`` is the thread's CPU time at the last passage.
    """

    def __init__(self) -> None:
        self.barriers = WaitRecorder()
        self.reads = WaitRecorder()
        self.computing_ns = self.communicating_ns = self.synchronizing_ns = 0
        self.mark_ns = 0
        self._start_ns = self._cpu_ns = 0
        self._kernel = (0, 0, 0)

    def start(self) -> None:
        self._kernel = _kernel_counts()
        self._start_ns = monotonic_ns()
        self._cpu_ns = self.mark_ns = thread_time_ns()

    def lap(self) -> int:
        """The thread's CPU time since the last passage; this is the next one."""
        last = self.mark_ns
        self.mark_ns = thread_time_ns()
        return self.mark_ns - last

    def finish(
        self, rank: int, processes: int, phases: int, served: int = 0, rechecks: int = 0, **further: Any
    ) -> RankResult:
        """The program has ended; returns the result of this rank, with ``further`` fields."""
        cpu_ns = thread_time_ns()
        finish_ns = monotonic_ns()
        voluntary, involuntary, queued = (
            after - before for after, before in zip(_kernel_counts(), self._kernel, strict=True)
        )
        return RankResult(
            job=0,
            rank=rank,
            processes=processes,
            processor=ctypes.CDLL(None).sched_getcpu(),
            host=socket.gethostname(),
            pid=os.getpid(),
            phases=phases,
            start_ns=self._start_ns,
            finish_ns=finish_ns,
            cpu_ns=cpu_ns - self._cpu_ns,
            computing_ns=self.computing_ns,
            communicating_ns=self.communicating_ns,
            synchronizing_ns=self.synchronizing_ns,
            voluntary_switches=voluntary,
            involuntary_switches=involuntary,
            run_queue_ns=queued,
            served=served,
            rechecks=rechecks,
            waits=Waits(self.barriers.counts(), self.reads.counts()),
            **further,
        )


def _kernel_counts() -> tuple[int, int, int]:
    """Voluntary and involuntary switches and run-queue wait (ns) of this thread so far."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    try:
        queued = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, IndexError):  # a kernel without CONFIG_SCHED_INFO
        queued = 0
    return usage.ru_nvcsw, usage.ru_nivcsw, queued
