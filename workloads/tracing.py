"""Messages, locks and computation that write a timeline.

These classes override the few steps that deserve a row, and watch the clock for leaps, in which
another process ran. Runs without a timeline do not use them, and pay nothing.
"""

from time import perf_counter_ns, thread_time_ns
from typing import Any

from workloads.compute import Compute
from workloads.locks import SectionLocks
from workloads.messaging import RESPONSE, Messenger
from workloads.record import WaitRecorder
from workloads.timeline import BARRIER, GONE, READ, RECEIVED, SENT, SLEPT, Timeline

LEAP_NS = 50_000
"""A poll or a reading of the clock takes a microsecond or two; if it takes longer than this,
another process had the processor."""


class TracedCompute(Compute):
    """Notes when another process ran during a phase (not in walks through a working set)."""

    def __init__(self, timeline: Timeline, working_set_bytes: int = 0, memory_step_ns: float = 0.0) -> None:
        super().__init__(working_set_bytes, memory_step_ns)
        self._timeline = timeline

    def _spend(self, end: int) -> int:
        last = perf_counter_ns()
        now = 0
        while now < end:
            now = thread_time_ns()
            wall = perf_counter_ns()
            if wall - last > LEAP_NS:
                self._timeline.add(GONE, last, wall)
            last = wall
        return now


class TracedMessenger(Messenger):
    """Notes waits, sleeps, messages with their peers, and when another process ran."""

    def __init__(self, *arguments: Any, timeline: Timeline, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._add = timeline.add
        self._sent = [0] * len(self._received)
        self._target = -1
        self._receive = _WatchedReceive(self._receive, timeline)

    def poll(self) -> None:
        self._receive.last_ns = 0  # what went before was computation
        super().poll()

    def read(self, target: int) -> None:
        self._target = target
        super().read(target)

    def _send(self, place: int, kind: int, value: int) -> None:
        self._sent[place] += 1
        self._add(SENT + kind, perf_counter_ns(), self._sent[place], self._places.index(place))
        super()._send(place, kind, value)

    def _handle(self) -> int:
        kind, source, _ = self._in
        peer = self._places.index(source)
        self._add(RECEIVED + kind, perf_counter_ns(), self._received[source] + 1, peer)
        return super()._handle()

    def _wait(self, kind: int, count: int, limit_ns: int, waits: WaitRecorder) -> int:
        self._receive.last_ns = perf_counter_ns()
        waited_ns = super()._wait(kind, count, limit_ns, waits)
        now = perf_counter_ns()
        code, peer = (READ, self._target) if kind == RESPONSE else (BARRIER, -1)
        self._add(code, now - waited_ns, now, peer)
        return waited_ns

    def _block(self) -> int:
        begin = perf_counter_ns()
        self._receive.last_ns = 0  # a sleep is no leap
        blocks = super()._block()
        self._receive.last_ns = end = perf_counter_ns()
        if blocks:
            self._add(SLEPT, begin, end)
        return blocks


class TracedLocks(SectionLocks):
    """Notes waits for locks, as waits at barriers."""

    def __init__(self, timeline: Timeline, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._add = timeline.add

    def enter(self, lock: int) -> None:
        super().enter(lock)
        now = perf_counter_ns()
        self._add(BARRIER, now - self.last_wait()[0], now)


class _WatchedReceive:
    """The messenger's receive, with an eye on the clock at each poll while ``last_ns`` is not 0."""

    def __init__(self, receive: Any, timeline: Timeline) -> None:
        self._timeline = timeline
        self.Start = receive.Start
        self.Cancel = receive.Cancel
        self.Wait = receive.Wait
        self.Free = receive.Free
        self._test = receive.Test
        self.last_ns = 0

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        if self.last_ns:
            now = perf_counter_ns()
            if now - self.last_ns > LEAP_NS:
                self._timeline.add(GONE, self.last_ns, now)
            self.last_ns = now
        arrived: bool = self._test()
        return arrived
