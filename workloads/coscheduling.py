"""Dynamic coscheduling: a rank that waits for a descheduled rank on another core has the kernel run it next.

A message cannot interrupt the process that runs where it arrives. So its sender looks after it: a rank that
spins for an answer longer than ``patience_ns`` writes into a page which all ranks of the node share that its
core spins uselessly. If its peer's core does so for another job, one of the two jobs gets both cores: the one
that longer ago got some this way. No job loses a core that a message has brought less than ``min_run_ns``
ago, nor one on which it computes.

Ranks are in the class SCHED_RR, at one priority. A rank that goes one priority up and back down is first in
its core's queue, with what is left of its time slice. So nothing stays raised, and slices stay equal. Source:
Sobalvarro and Weihl, Demand-based coscheduling, 1995: a message preempts in favour of its target if that is
fair.

Other ranks only observe: at the end of a phase, ``observe_ms`` or more after its last look, a rank looks from
which others it gets more than ``messages_per_ms`` messages per millisecond of its CPU time; half of
that is enough for those from which it got so many before, so that no working set comes and goes. The first
look only begins. Source: Feitelson and Rudolph 1995, which counts accesses to shared objects.
"""

import mmap
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns, thread_time_ns

NAME = "coscheduling"
CORES, JOBS = 4096, 1024
"""Rows of the page; ranks on a core or of a job beyond these take no part."""

ROW = 4
BY, SEEN_NS, GIVEN_NS = range(3)
"""Words of a core's row: 1 + the job that spins uselessly there, when it last did, when a message gave it."""


class Turns:
    """The page of a node as ``words``: a row for each core, then for each job when a message gave it one."""

    def __init__(self, folder: Path) -> None:
        size = (CORES * ROW + JOBS) * 8
        handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(handle, 0, size)  # else a full disk would kill the writer
            self.words = memoryview(mmap.mmap(handle, size)).cast("q")
        finally:
            os.close(handle)

    def spins_in_vain(self, core: int, job: int, now_ns: int) -> None:
        """Note that ``job`` has just been seen to spin uselessly on ``core``."""
        row = core * ROW
        self.words[row + BY], self.words[row + SEEN_NS] = job + 1, now_ns

    def takes(self, job: int, own: int, other: int, now_ns: int, patience_ns: int, min_run_ns: int) -> bool:
        """Whether ``job`` on core ``own`` gets core ``other``, too; if so the page states that it has both.

        Of two jobs that want each other's core at the same time one gets it, without a lock: a job that
        finds its rival served just now also finds the rival's core given, for that is written first.
        """
        words = self.words
        row = other * ROW
        served = CORES * ROW
        rival = words[row + BY] - 1
        if rival in (-1, job) or now_ns - words[row + SEEN_NS] > 2 * patience_ns:
            return False
        if (words[served + job], job) > (words[served + rival], rival):
            return False
        if now_ns - words[row + GIVEN_NS] < min_run_ns:
            return False
        words[row + GIVEN_NS] = words[own * ROW + GIVEN_NS] = now_ns
        words[row + BY] = 0
        words[served + job] = now_ns
        return True


def run_next(pid: int, priority: int) -> None:
    """Put a rank first in its core's queue; if we lose our core halfway, it stays raised until a look."""
    with suppress(ProcessLookupError, PermissionError):
        if os.sched_getscheduler(pid) == os.SCHED_RR:
            for level in (priority + 1, priority):
                os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(level))


class Coscheduling:
    """One rank's part in it; ``patience_us`` and ``min_run_ms`` are parameters of the policy.

    ``pids`` has the ranks on this node by their places in the job's communicator; ``folder`` is the node's
    run directory.
    """

    def __init__(
        self, pids: Mapping[int, int], folder: Path, job: int, patience_us: float, min_run_ms: float
    ) -> None:
        self.patience_ns = max(1, round(patience_us * 1e3))
        self._min_run_ns = round(min_run_ms * 1e6)
        self._turns = Turns(folder)
        self._job = job
        self._pids = pids
        self._priority = os.sched_get_priority_max(os.SCHED_RR)

    def look(self, places: Iterable[int]) -> None:
        """Look after the peers at ``places`` of the communicator, from whom no answer has come."""
        own = _core_of(0)
        if own < 0 or self._job >= JOBS or os.sched_getscheduler(0) != os.SCHED_RR:
            return
        if os.sched_getparam(0).sched_priority > self._least_of(0):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(self._priority))
        now_ns = monotonic_ns()
        self._turns.spins_in_vain(own, self._job, now_ns)
        for pid in (self._pids[place] for place in places if place in self._pids):
            core = _core_of(pid)
            if core not in (-1, own) and self._turns.takes(
                self._job, own, core, now_ns, self.patience_ns, self._min_run_ns
            ):
                run_next(pid, self._least_of(pid))

    def _least_of(self, pid: int) -> int:
        """The priority of all ranks: the smallest ever seen, since a rank may just be one priority up."""
        with suppress(ProcessLookupError):
            priority = os.sched_getparam(pid).sched_priority
            self._priority = min(
                self._priority, priority or self._priority
            )  # 0 if its agent has not come to it
        return self._priority


def _core_of(pid: int) -> int:
    """The only core on which the process may run; -1 if there are several, or if it has ended."""
    with suppress(ProcessLookupError):
        cores = os.sched_getaffinity(pid)
        if len(cores) == 1 and (core := cores.pop()) < CORES:
            return core
    return -1


class Correspondents:
    """The ``ranks`` from which one process, real or simulated, gets messages often, ascending."""

    def __init__(self, messages_per_ms: float) -> None:
        self._per_ms = messages_per_ms
        self._last: tuple[Sequence[int], int] | None = None
        self.ranks: tuple[int, ...] = ()

    def look(self, got: Sequence[int], cpu_ns: int) -> bool:
        """Whether ``ranks`` changes, after ``got`` messages from each in ``cpu_ns`` of CPU time."""
        last = self._last
        self._last = (got, cpu_ns)
        if last is None:
            return False
        often = self._per_ms * (cpu_ns - last[1]) / 1e6
        before = self.ranks
        present = set(self.ranks)
        new = [now - then for now, then in zip(got, last[0], strict=False)]
        self.ranks = tuple(r for r, n in enumerate(new) if n > (often / 2 if r in present else often))
        return self.ranks != before


class Observer:
    """Looks for one rank, and tells whenever its correspondents change; the numbers are the policy's."""

    def __init__(
        self, tell: Callable[[Sequence[int]], None], observe_ms: float, messages_per_ms: float
    ) -> None:
        self._tell = tell
        self._every_ns = round(observe_ms * 1e6)
        self._due_ns = 0
        self._correspondents = Correspondents(messages_per_ms)

    def phase_over(self, received: Callable[[], Sequence[int]]) -> None:
        """Look if it is time; ``received`` returns the messages from each rank so far."""
        now_ns = monotonic_ns()
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + self._every_ns
        if self._correspondents.look(received(), thread_time_ns()):
            self._tell(self._correspondents.ranks)
