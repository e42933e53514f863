"""What an agent does for those that it leads: passes tables and signs of life on, and answers these."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from coordinator.host.clock import Clock
from coordinator.node.contact import Contact
from coordinator.wire import protocol
from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.wire.tree import OWN, pack, parts, pass_on, unpack
from coordinator.wire.zmq_transport import Hub, Keys, endpoints_for


class Relay:
    """Passes the last sign of life of each node on with the agent's own, and tables at once.

    ``led`` is as in ``protocol.Lead``. Each agent of them is heard for itself and those below it only.
    """

    def __init__(
        self,
        led: Sequence[tuple[int, str, str, tuple[int, ...]]],
        keys: Keys,
        clock: Clock,
        contact: Contact,
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
