"""The tree of agents without agents: its shape, letters by ways that are lost, and packets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.wire.line_format import LineError
from coordinator.wire.tree import LETTER, PACKET, Packet, Post, Ways, leaders, pack, unpack


@pytest.mark.parametrize(
    ("count", "fan_out", "levels"),
    [
        (1, 32, 1),
        (32, 32, 1),
        (33, 32, 2),
        (128, 32, 2),
        (1024, 32, 2),
        (1056, 32, 2),
        (4096, 32, 3),
        (8, 2, 3),
    ],
)
def test_everybody_has_a_place_and_nobody_leads_more_than_the_fan_out(count, fan_out, levels):
    led = leaders(range(count), fan_out, fan_out)
    above = {node: leader for leader, nodes in led.items() for node in nodes}
    assert len(above) == sum(map(len, led.values())), "nobody has two places"
    at_the_top = [node for node in range(count) if node not in above]
    assert len(at_the_top) <= fan_out and max(map(len, led.values()), default=0) <= fan_out
    assert bool(led) == (count > fan_out)

    def depth(node):
        return 1 + (depth(above[node]) if node in above else 0)

    assert max(map(depth, range(count))) == levels


def test_those_who_come_when_there_is_little_room_are_led_by_few():
    assert leaders(range(31), 32, 28) == {0: list(range(1, 31))}
    assert leaders(range(28), 32, 28) == {}


class Ends:
    """The driver's and an agent's end; a frame takes the way of the moment, which may be lost with it."""

    def __init__(self):
        self.ways = {"up": [[], []], "down": [[], []]}
        self.way, self.heard = 0, {"up": [], "down": []}
        self.agent = Post(lambda frame: self.send("up", frame), 0)
        self.driver = Post(lambda frame: self.send("down", frame))

    def send(self, whither, frame):
        self.ways[whither][self.way].append(frame)

    def beat(self):
        self.send("up", ("beat", self.agent.written, self.agent.taken or 0))

    def deliver(self, whither, way):
        if not self.ways[whither][way]:
            return
        match self.ways[whither][way].pop(0):
            case ("beat", written, taken):
                missing = self.driver.check(written, taken)
                self.send("down", ("echo", self.driver.taken, missing))
            case ("echo", number, missing):
                self.agent.confirm(number)
                if missing:
                    self.agent.again()
            case frame:
                end = self.driver if whither == "up" else self.agent
                self.heard[whither] += end.take(frame)

    def lose(self, way):
        """An inner agent is killed with all that it had not passed on."""
        self.ways["up"][way].clear()
        self.ways["down"][way].clear()
        self.way = 1 - way


STEPS = st.sampled_from(["write up", "write down", "beat", "lose 0", "lose 1", "turn"]) | st.tuples(
    st.sampled_from(["up", "down"]), st.integers(0, 1)
)


@given(st.lists(STEPS, max_size=80))
def test_whatever_ways_are_lost_every_letter_is_taken_once_and_in_order(steps):
    ends, written = Ends(), {"up": [], "down": []}
    ends.beat()
    ends.deliver("up", 0)
    for number, step in enumerate(steps):
        match step:
            case "write up" | "write down":
                whither, text = step.removeprefix("write "), str(number).encode()
                written[whither].append(text)
                (ends.agent if whither == "up" else ends.driver).write(text)
            case "beat":
                ends.beat()
            case "lose 0" | "lose 1":
                ends.lose(int(step[-1]))
            case "turn":
                ends.way = 1 - ends.way
            case whither, way:
                ends.deliver(whither, way)
        for whither, heard in ends.heard.items():
            assert heard == written[whither][: len(heard)]
    for _ in range(4):
        ends.beat()
        while any(way for ways in ends.ways.values() for way in ways):
            for whither in ("up", "down"):
                for way in (0, 1):
                    ends.deliver(whither, way)
    assert ends.heard == written
    assert not ends.agent._kept and not ends.driver._kept


class FakeHub:
    """What was sent to neighbours, and what comes from them."""

    def __init__(self):
        self.sent, self.coming, self.known = [], [], set()

    def send(self, node, frame):
        self.sent.append((node, frame))

    def receive(self):
        coming, self.coming = self.coming, []
        self.known |= {node for node, _ in coming}
        return coming

    def heard(self, node):
        return node in self.known


def test_a_node_is_reached_through_the_neighbour_that_passed_on_its_last_message():
    hub = FakeHub()
    ways = Ways(hub)
    hub.coming = [(0, b"a"), (1, b"b"), (0, pack(PACKET, [(2, b"c"), (3, b"d")]))]
    assert ways.receive() == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert [ways.neighbour(node) for node in range(4)] == [0, 1, 0, 0] and ways.heard(3) and not ways.heard(4)
    for node in (2, 3, 1):
        ways.send(node, b"x")
    assert hub.sent == [(1, b"x")], "messages through others wait for company"
    ways.receive()
    assert hub.sent[1:] == [(0, pack(PACKET, [(2, b"x"), (3, b"x")]))]
    hub.coming = [(2, b"directly")]
    ways.receive()
    ways.send(2, b"y")
    assert hub.sent[2:] == [(2, b"y")]
    ways.straight(3)
    assert ways.neighbour(3) == 0, "it has never spoken to us itself"


def test_messages_to_nodes_by_several_neighbours_travel_in_order():
    hub = FakeHub()
    ways = Ways(hub)
    hub.coming = [(0, pack(PACKET, [(2, b"")])), (1, pack(PACKET, [(3, b"")]))]
    ways.receive()
    for node in (2, 3, 2):
        ways.send(node, b"x")
    ways.receive()
    assert [node for node, _ in hub.sent] == [0, 1, 0]


def test_a_packet_is_never_too_long():
    sent = []
    packet = Packet(sent.append)
    for number in range(10):
        packet.add(number, bytes(900_000))
    packet.flush()
    packet.flush()
    assert [number for frame in sent for number, _ in unpack(frame)] == list(range(10))
    assert max(map(len, sent)) < 1 << 22


@given(st.binary(max_size=60))
def test_bytes_are_parts_or_refused(rest):
    hub = FakeHub()
    hub.coming = [(5, PACKET + rest)]
    arrived = Ways(hub).receive()
    try:
        assert arrived == list(unpack(PACKET + rest))
        assert pack(PACKET, arrived) == PACKET + rest
    except LineError:
        assert arrived == [(5, PACKET + rest)]


def test_letters_wait_until_it_is_known_which_came_before():
    """As for a driver that takes over, whose agents have taken letters of the first one."""
    sent = []
    post = Post(sent.append)
    post.write(b"a")
    assert not sent
    assert not post.check(7, 41)
    assert sent == [pack(LETTER, [(42, b"a")])]
    assert list(post.take(pack(LETTER, [(7, b"old"), (8, b"new"), (10, b"too soon")]))) == [b"new"]
    assert post.check(10, 42), "two are missing"
