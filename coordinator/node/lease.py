"""How long an agent continues without its driver, and when it gives a sign of life.

It owns no clock: callers pass the time, in nanoseconds of the node's clock.
"""

from __future__ import annotations

BEAT_NS = 500_000_000
"""From one sign of life to the next, at most."""

QUIET_NS = 2_000_000
"""A sign of life that is due so shortly before a slot switch would delay it, and comes right after it."""


class Lease:
    """The time that the agent may continue without its driver; every echo of a beat renews it.

    Args:
        now_ns: the time.
        length_ns: length of the lease, once the driver has answered.
        first_ns: length of the lease before the first answer.
    """

    def __init__(self, now_ns: int, length_ns: int, first_ns: int) -> None:
        self._length_ns = length_ns
        self._end_ns = now_ns + first_ns
        self._beat_ns = now_ns
        self._put_off = False

    def renew(self, now_ns: int) -> None:
        self._end_ns = now_ns + self._length_ns

    def over(self, now_ns: int) -> bool:
        """Whether the driver has been silent for too long."""
        return now_ns >= self._end_ns

    def due_ns(self) -> int:
        """When ``over`` or ``beat`` must be asked next."""
        return min(self._beat_ns, self._end_ns)

    def beat(self, now_ns: int, boundary_ns: int | None) -> bool:
        """Whether to give a sign of life now.

        If a slot ends within QUIET_NS, at ``boundary_ns``, the sign waits until then, but only once,
        so that no sign is more than QUIET_NS late, even with the shortest slots.
        """
        if now_ns < self._beat_ns:
            return False
        if boundary_ns is not None and 0 < boundary_ns - now_ns < QUIET_NS and not self._put_off:
            self._put_off = True
            self._beat_ns = boundary_ns + 1
            return False
        return True

    def beaten(self, now_ns: int) -> None:
        self._put_off = False
        self._beat_ns = now_ns + min(BEAT_NS, self._length_ns // 4)
