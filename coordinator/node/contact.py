"""The agent's contact with its driver, also through others: signs of life, answers, and the run's clock."""

from collections.abc import Sequence
from contextlib import suppress

from coordinator.host.clock import Clock, Sample
from coordinator.wire import protocol
from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.wire.tree import OWN, pack, parts, pass_on, unpack
from coordinator.wire.zmq_transport import Hub, Keys, endpoints_for

BEAT_S = 0.5
"""The longest time from one sign of life of an agent to the next; a quarter of the lease if that is less."""

QUIET_NS = 2_000_000
"""A sign of life that is due so shortly before a slot switch would delay it, and comes right after it."""


FIRST_EXCHANGES = 16  # exchanges with the driver before a node joins; they estimate its clock
JOIN_S = 5.0  # how long to look for the driver, which listens before it starts agents


class Contact:
    """Knows when to give a sign of life, and whether the driver still answers.

    The agent may continue without its driver for the length of its lease; every answer to a beat renews it.
    An agent that answers says how old its own news of the driver are.
    The run's clock learns from each exchange, unless driver and agent certainly share one clock.
    """

    def __init__(self, clock: Clock, lease_s: float, *, same_clock: bool) -> None:
        self._clock = clock
        self._lease_s = lease_s
        self._lease_ns = round(lease_s * 1e9)
        self._every_ns = round(min(BEAT_S, lease_s / 4) * 1e9)
        self._beat_ns = self.answered_ns = clock.read_ns()
        self._driver_ns = 0
        self._end_ns = self._beat_ns + round(JOIN_S * 1e9)
        self._put_off = False
        self._same_clock = same_clock
        self._missing = 1 if same_clock else FIRST_EXCHANGES

    def due_ns(self) -> int:
        """When ``silence`` and ``wants_beat`` must be asked next, on the node's clock."""
        return min(self._beat_ns, self._end_ns)

    def silence(self) -> str:
        """Why the driver counts as gone, in words; empty while it does not."""
        if self._clock.read_ns() < self._end_ns:
            return ""
        said, silence_s = ("not answered", JOIN_S) if self._missing > 0 else ("said nothing", self._lease_s)
        return f"its driver has {said} for {silence_s:g} s"

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

    @property
    def age_ns(self) -> int:
        return self._clock.read_ns() - self._driver_ns

    @property
    def unanswered(self) -> bool:
        return self._clock.read_ns() - self.answered_ns > 1.5 * self._every_ns

    def beat(self, dropped: int, table_ns: int) -> protocol.Beat:
        clock = self._clock
        now_ns = clock.read_ns()
        self._put_off = False
        self._beat_ns = now_ns + self._every_ns
        known = clock.offset_ns(now_ns), clock.uncertainty_ns(), round(clock.drift * 1e12), clock.steps
        return protocol.Beat(now_ns, *known, dropped, table_ns)

    def learn(self, echo: protocol.Echo) -> int | None:
        """Learn from an answer; returns how many more are needed to join, 0 once; None if it is invalid."""
        now_ns = self._clock.read_ns()
        if not 0 <= now_ns - echo.sent_ns <= self._every_ns + self._lease_ns:
            return None
        self.answered_ns = now_ns
        self._driver_ns = max(self._driver_ns, now_ns - max(0, echo.age_ns))
        self._end_ns = self._driver_ns + self._lease_ns
        if not self._same_clock:
            times = echo.sent_ns, echo.received_ns, echo.replied_ns, now_ns
            self._clock.learn(Sample.of(*times, echo.doubt_ns))
        self._missing -= 1
        return self._missing


class Relay:
    """Passes the last sign of life of each node on with the agent's own, and tables at once.

    ``led`` is as in ``protocol.Lead``. Each agent of them is heard for itself and those below it only.
    """

    def __init__(
        self, led: Sequence[tuple[int, str, str, tuple[int, ...]]], keys: Keys, clock: Clock, contact: Contact
    ) -> None:
        hosts = [host for _, _, host, _ in led]
        self.hub = Hub(endpoints_for(hosts), keys, {key: node for node, key, _, _ in led})
        self.endpoints = tuple(map(self.hub.endpoint_for, hosts))
        self._through = {node: one for one, _, _, below in led for node in (*below, one)}
        self._led = [node for node, *_ in led]
        self._clock, self._contact = clock, contact
        self._beats: dict[int, bytes] = {}
        self._rests = True

    def down(self, packet: bytes) -> None:
        pass_on(unpack(packet), self._through, self.hub.send)

    def up(self) -> bool:
        """Answer and keep the signs of life that have arrived; returns whether any has."""
        arrived = self.hub.receive()
        for sender, frame in arrived:
            with suppress(LineError):
                for node, beat in parts(frame):
                    if node == OWN:
                        self._answer(sender, beat)
                    elif self._through.get(node) == sender != node:
                        self._beats[node] = beat
        self.hub.listen(not all(map(self.hub.heard, self._led)))
        return bool(arrived)

    def _answer(self, node: int, frame: bytes) -> None:
        clock, now_ns = self._clock, self._clock.now_ns()
        match TO_DRIVER.decode(frame):
            case protocol.Beat(sent_ns):
                self._beats[node] = frame
                known = now_ns, clock.now_ns(), clock.uncertainty_ns(), self._contact.age_ns
                self.hub.send(node, TO_AGENT.encode(protocol.Echo(sent_ns, *known)))

    def joined(self, beat: bytes) -> bytes:
        """Our own sign of life and, every other time, which is often enough, the last ones of the others."""
        self._rests = not self._rests
        if self._rests or not self._beats:
            return beat
        packet = pack([(OWN, beat), *self._beats.items()])
        self._beats.clear()
        return packet
