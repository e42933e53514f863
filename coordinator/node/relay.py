"""What an agent does for those that it leads: passes messages on, and answers signs of life."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from coordinator.host.clock import Clock
from coordinator.node.contact import Contact
from coordinator.wire import protocol
from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.wire.tree import Packet, Ways, unpack
from coordinator.wire.zmq_transport import Hub, Keys, endpoints_for

BEAT = TO_DRIVER.encode(protocol.Beat(0, 0, 0, 0.0, 0, 0))[:2]


class Relay:
    """Passes the last sign of life of each node on with the agent's own, and other messages at once.

    ``led`` has the public key and host of each agent below; ``send`` goes towards the driver.
    """

    def __init__(
        self,
        led: Mapping[int, tuple[str, str]],
        keys: Keys,
        clock: Clock,
        contact: Contact,
        send: Callable[[bytes], None],
    ) -> None:
        hosts = [host for _, host in led.values()]
        self.hub = Hub(endpoints_for(hosts), keys, {key: node for node, (key, _) in led.items()})
        self.endpoints = tuple(map(self.hub.endpoint_for, hosts))
        self._led, self._below, self._above = led, Ways(self.hub), Packet(send)
        self._clock, self._contact = clock, contact
        self._beats: dict[int, bytes] = {}
        self._rests = True

    def down(self, packet: bytes) -> None:
        for node, frame in unpack(packet):
            self._below.send(node, frame)

    def up(self) -> bool:
        """Pass on what has arrived; returns whether anything has."""
        arrived = self._below.receive()
        for node, frame in arrived:
            if frame[:2] != BEAT:
                self._above.add(node, frame)
                continue
            self._beats[node] = frame
            if self._below.neighbour(node) == node:
                clock, now_ns = self._clock, self._clock.now_ns()
                with suppress(LineError):  # the driver counts it
                    sent_ns = TO_DRIVER.decode(frame).sent_ns
                    known = now_ns, clock.now_ns(), clock.uncertainty_ns(), self._contact.age_ns
                    self._below.send(node, TO_AGENT.encode(protocol.Echo(sent_ns, *known)))
        self._above.flush()
        self.hub.listen(not all(map(self.hub.heard, self._led)))
        return bool(arrived)

    def beat(self) -> None:
        """Pass signs of life on, every other time, which is often enough for them."""
        self._rests = not self._rests
        if self._rests:
            return
        for node, frame in self._beats.items():
            self._above.add(node, frame)
        self._beats.clear()
        self._above.flush()
