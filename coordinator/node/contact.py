"""The agent's contact with its driver: signs of life, their answers, and the run's clock."""

import math

from coordinator.host.clock import Clock, Sample
from coordinator.wire import protocol

BEAT_S = 0.5
"""The longest time from one sign of life of an agent to the next; a quarter of the lease if that is less."""

QUIET_NS = 2_000_000
"""A sign of life that is due so shortly before a slot switch would delay it, and comes right after it."""


FIRST_EXCHANGES = 16  # exchanges with the driver before a node joins; they estimate its clock
JOIN_S = 5.0
"""How long a driver, which listens before it starts agents, may take to answer the first sign of life.

Until then, hundreds of jobs that start together may have held the agent for longer.
"""


class Contact:
    """Knows when to give a sign of life, and whether the driver still answers.

    The agent may continue without its driver for the length of its lease. An answer to a beat renews it from
    the time of that beat, however late the answer is read.
    The run's clock learns from each exchange, unless driver and agent certainly share one clock.
    """

    def __init__(self, clock: Clock, lease_s: float, *, same_clock: bool) -> None:
        self._clock = clock
        self._lease_s = lease_s
        self._lease_ns = round(lease_s * 1e9)
        self._every_ns = round(min(BEAT_S, lease_s / 4) * 1e9)
        self._beat_ns = clock.read_ns()
        self._end_ns: float = math.inf
        self._put_off = False
        self._same_clock = same_clock
        self._missing = 1 if same_clock else FIRST_EXCHANGES

    def due_ns(self) -> int:
        """When ``silence`` and ``wants_beat`` must be asked next, on the node's clock."""
        return round(min(self._beat_ns, self._end_ns))

    def silence(self) -> str:
        """Why the driver counts as gone, in words; empty while it does not."""
        if self._clock.read_ns() < self._end_ns:
            return ""
        cause, silence_s = ("not answered", JOIN_S) if self._missing > 0 else ("said nothing", self._lease_s)
        return f"its driver has {cause} for {silence_s:g} s"

    def wants_beat(self, boundary_ns: int | None) -> bool:
        """Whether to give a sign of life now, or right after a slot that ends shortly, at ``boundary_ns``."""
        now_ns = self._clock.read_ns()
        if now_ns < self._beat_ns:
            return False
        if boundary_ns is not None and 0 < boundary_ns - now_ns < QUIET_NS and not self._put_off:
            self._put_off = True
            self._beat_ns = boundary_ns + 1
            return False
        return True

    def beat(self, dropped: int) -> protocol.Beat:
        clock = self._clock
        now_ns = clock.read_ns()
        self._put_off = False
        self._beat_ns = now_ns + self._every_ns
        if self._end_ns == math.inf:
            self._end_ns = now_ns + round(JOIN_S * 1e9)
        values = clock.offset_ns(now_ns), clock.uncertainty_ns(), round(clock.drift * 1e12), clock.steps
        return protocol.Beat(now_ns, *values, dropped)

    def learn(self, echo: protocol.Echo) -> int | None:
        """Learn from an answer; returns how many more are needed to join, 0 once; None if it is invalid."""
        now_ns = self._clock.read_ns()
        if not 0 <= now_ns - echo.sent_ns <= max(self._every_ns + self._lease_ns, round(JOIN_S * 1e9)):
            return None
        self._end_ns = max(self._end_ns, echo.sent_ns + self._lease_ns)
        if not self._same_clock:
            self._clock.learn(Sample.of(echo.sent_ns, echo.received_ns, echo.replied_ns, now_ns))
        self._missing -= 1
        return self._missing
