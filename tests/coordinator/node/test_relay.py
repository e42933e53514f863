"""An agent that leads others: real lines between them, but neither ranks nor processes."""

import time

import pytest
from runs import eventually

from coordinator.host.clock import Clock, Sample
from coordinator.node.contact import BEAT_S, Contact, Relay
from coordinator.wire import protocol
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.wire.tree import OWN, PACKET, pack, unpack
from coordinator.wire.zmq_transport import Keys, Line

AHEAD_NS = 7 * 10**9
"""By how much the run's clock is ahead of the agents'."""


class Family:
    """Two agents, 5 and 6, who lead 8 and 7, and report to a third one."""

    def __init__(self):
        keys, own = Keys.make(), [Keys.make() for _ in range(2)]
        self.clock = Clock()
        now_ns = time.monotonic_ns()
        self.clock.learn(Sample(now_ns, AHEAD_NS, 2000))
        self.contact = Contact(self.clock, 2.0, same_clock=False)
        self.contact.learn(protocol.Echo(now_ns, now_ns + AHEAD_NS, now_ns + AHEAD_NS, 0, 10**6))
        led = [(5, own[0].public, "127.0.0.1", (8,)), (6, own[1].public, "127.0.0.1", (7,))]
        self.relay = Relay(led, keys, self.clock, self.contact)
        self.relay.up()
        self.lines = [Line(end, keys.public, one) for end, one in zip(self.relay.endpoints, own, strict=True)]

    def up(self):
        while self.relay.up():
            pass

    def close(self):
        for line in self.lines:
            line.close(0)
        self.relay.hub.close(0)


@pytest.fixture
def family():
    made = Family()
    yield made
    made.close()


@pytest.mark.slow
def test_signs_of_life_are_answered_here_and_travel_together(family):
    contacts = [Contact(Clock(), 2.0, same_clock=False) for _ in family.lines]
    for line, contact in zip(family.lines, contacts, strict=True):
        for table_ns in range(2):
            line.report(TO_DRIVER.encode(contact.beat(0, table_ns)))
    answers = [eventually(lambda line=line: family.up() or line.receive(), 20) for line in family.lines]
    echoes = [TO_AGENT.decode(found[0]) for found in answers]
    assert all(0 <= echo.received_ns - echo.sent_ns - AHEAD_NS < 10**10 for echo in echoes)
    assert all(echo.doubt_ns >= 1000 and echo.age_ns >= 10**6 for echo in echoes)
    (own, *others) = unpack(family.relay.joined(b"own"))
    assert own == (OWN, b"own")
    assert {node: TO_DRIVER.decode(frame).table_ns for node, frame in others} == {5: 1, 6: 1}
    assert [family.relay.joined(b"own") for _ in range(2)] == [b"own"] * 2, "there are no new ones"
    family.lines[0].report(TO_DRIVER.encode(contacts[0].beat(0, 2)))
    assert eventually(lambda: family.up() or family.lines[0].receive(), 20)
    assert len({family.relay.joined(b"own") for _ in range(2)}) == 2, "every other time, one way or the other"


@pytest.mark.slow
def test_who_is_led_passes_on_signs_of_life_of_those_below_and_nothing_else(family):
    one = TO_DRIVER.encode(Contact(Clock(), 2.0, same_clock=False).beat(0, 0))
    foreign = TO_DRIVER.encode(protocol.Trouble("not a sign of life", fatal=False))
    strange = pack([(5, one), (6, one), (7, one), (8, one), (99, one), (-7, one)])
    for frame in (foreign, b"B", PACKET + b"short", strange, pack([(OWN, one)])):
        family.lines[1].report(frame)
    assert eventually(lambda: family.up() or family.lines[1].receive(), 20), "the last one was answered"
    passed = [node for node, _ in unpack(family.relay.joined(b"own"))]
    assert passed == [OWN, 7, 6], "5 and 8 are not below it"


@pytest.mark.slow
def test_messages_for_others_go_to_them(family):
    for line in family.lines:
        line.report(TO_DRIVER.encode(Contact(Clock(), 2.0, same_clock=False).beat(0, 0)))
    assert eventually(lambda: family.up() or all(map(family.relay.hub.heard, (5, 6))), 20)
    parts = [(6, b"for six"), (5, b"for five"), (9, b"for nobody"), (7, b"for seven"), (8, b"for eight")]
    family.relay.down(pack(parts))
    expected = {b"for five", pack([(8, b"for eight")])}, {b"for six", pack([(7, b"for seven")])}
    for line, wanted in zip(family.lines, expected, strict=True):
        heard = []
        assert eventually(lambda: heard.extend(line.receive()) or wanted <= {*heard}, 20)  # noqa: B023
        assert len(heard) == 3, "with the answer to the sign of life"


def test_news_of_the_driver_are_as_old_as_the_agent_between_says():
    now_ns = 10**9
    contact = Contact(Clock(lambda: now_ns), 2.0, same_clock=True)
    contact.learn(protocol.Echo(now_ns, now_ns, now_ns, 0, 600_000_000))
    assert contact.age_ns == 600_000_000 and contact.due_ns() <= now_ns + 1_400_000_000
    now_ns += 1_399_999_999
    assert not contact.silence() and contact.unanswered
    contact.learn(protocol.Echo(now_ns, now_ns, now_ns, 0, 1_999_999_999))
    assert not contact.unanswered, "the agent between answers"
    now_ns += 1
    assert "said nothing" in contact.silence(), "but what it knows of the driver is no newer"


def test_an_answer_that_does_not_come_is_missed_by_the_time_of_the_second_sign_of_life():
    now_ns = 10**9
    contact = Contact(Clock(lambda: now_ns), 2.0, same_clock=True)
    contact.learn(protocol.Echo(now_ns, now_ns, now_ns))
    now_ns += round(BEAT_S * 1e9)
    assert not contact.unanswered
    now_ns += round(BEAT_S * 1e9)
    assert contact.unanswered and not contact.silence()
    contact.answered_ns = now_ns
    assert not contact.unanswered
