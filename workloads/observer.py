"""Processes that look, at the ends of phases, from which others of their job they get messages often.

A process looks at the end of a phase if its last look was ``observe_ms`` or more ago. Often is more than
``messages_per_ms`` messages from one process per millisecond of its processor time since the last look.
For a process from which it got messages often before, half of that is enough, so that no working set
comes and goes. The first look only begins.

Source: Feitelson and Rudolph 1995, which counts accesses to shared objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic_ns, thread_time_ns


class Correspondents:
    """The ``ranks`` from which one process, real or simulated, gets messages often, ascending."""

    def __init__(self, messages_per_ms: float) -> None:
        self._per_ms = messages_per_ms
        self._last: tuple[Sequence[int], int] | None = None
        self.ranks: tuple[int, ...] = ()

    def look(self, got: Sequence[int], cpu_ns: int) -> bool:
        """Whether ``ranks`` changes: the process has ``got`` so many messages from each rank so far.

        ``cpu_ns`` is its processor time so far.
        """
        last, self._last = self._last, (got, cpu_ns)
        if last is None:
            return False
        often = self._per_ms * (cpu_ns - last[1]) / 1e6
        before, known = self.ranks, set(self.ranks)
        new = [now - then for now, then in zip(got, last[0], strict=False)]
        self.ranks = tuple(r for r, n in enumerate(new) if n > (often / 2 if r in known else often))
        return self.ranks != before


class Observer:
    """Looks for one rank, and tells whenever its correspondents change; the numbers are the policy's."""

    def __init__(
        self, tell: Callable[[Sequence[int]], None], observe_ms: float, messages_per_ms: float
    ) -> None:
        self._tell = tell
        self._every_ns, self._due_ns = round(observe_ms * 1e6), 0
        self._correspondents = Correspondents(messages_per_ms)

    def phase_over(self, received: Callable[[], Sequence[int]]) -> None:
        """Look if it is time; ``received`` returns the messages from each rank so far."""
        now_ns = monotonic_ns()
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + self._every_ns
        if self._correspondents.look(received(), thread_time_ns()):
            self._tell(self._correspondents.ranks)
