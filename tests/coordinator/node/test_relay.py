"""An agent that leads others: real lines between them, but neither ranks nor processes."""

import time

import pytest
from runs import eventually

from coordinator.host.clock import Clock, Sample
from coordinator.node.contact import BEAT_S, Contact
from coordinator.node.relay import Relay
from coordinator.wire import protocol
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.wire.tree import LETTER, PACKET, Post, pack, unpack
from coordinator.wire.zmq_transport import Keys, Line

AHEAD_NS = 7 * 10**9
"""By how much the run's clock is ahead of the agents'."""


class Family:
    """Two agents, 5 and 6, that report to a third one; ``above`` is what it has passed on."""

    def __init__(self):
        keys, own = Keys.make(), [Keys.make() for _ in range(2)]
        self.clock, self.above = Clock(), []
        now_ns = time.monotonic_ns()
        self.clock.learn(Sample(now_ns, AHEAD_NS, 2000))
        self.contact = Contact(self.clock, 2.0, same_clock=False)
        self.contact.learn(protocol.Echo(now_ns, now_ns + AHEAD_NS, now_ns + AHEAD_NS, 0, 10**6))
        led = {5 + n: (one.public, "127.0.0.1") for n, one in enumerate(own)}
        self.relay = Relay(led, keys, self.clock, self.contact, self.above.append)
        self.relay.up()
        self.lines = [Line(end, keys.public, one) for end, one in zip(self.relay.endpoints, own, strict=True)]

    def passed_on(self):
        while self.relay.up():
            pass
        return [part for packet in self.above for part in unpack(packet)]

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
def test_signs_of_life_are_answered_here_and_travel_together_other_messages_at_once(family):
    contacts = [Contact(Clock(), 2.0, same_clock=False) for _ in family.lines]
    for line, contact in zip(family.lines, contacts, strict=True):
        for taken in range(2):
            beat = contact.beat(0, 0, taken)
            line.send(TO_DRIVER.encode(beat))
    answers = [
        eventually(lambda line=line: family.passed_on() or line.receive(), 20) for line in family.lines
    ]
    echoes = [TO_AGENT.decode(found[0]) for found in answers]
    assert all(0 <= echo.received_ns - echo.sent_ns - AHEAD_NS < 10**10 for echo in echoes)
    assert all(echo.doubt_ns >= 1000 and echo.age_ns >= 10**6 for echo in echoes)
    assert not family.above
    family.lines[1].send(b"a letter")
    assert eventually(family.passed_on, 20) == [(6, b"a letter")]
    family.relay.beat()  # not every time
    family.relay.beat()
    (packet,) = family.above[1:]
    assert {node: TO_DRIVER.decode(frame).taken for node, frame in unpack(packet)} == {5: 1, 6: 1}


@pytest.mark.slow
def test_messages_for_others_go_to_them(family):
    for line in family.lines:
        line.send(b"hello")
    assert eventually(lambda: len(family.passed_on()) == 2, 20)
    family.relay.down(pack(PACKET, [(6, b"for six"), (5, b"for five"), (9, b"for nobody")]))
    assert eventually(family.lines[0].receive, 20) == [b"for five"]
    assert eventually(family.lines[1].receive, 20) == [b"for six"]


@pytest.mark.slow
def test_an_agent_whose_leader_is_gone_says_to_the_driver_what_the_leader_had_not_passed_on(family):
    line, heard = family.lines[0], []
    post = Post(line.send, base=0)
    post.write(b"taken along")
    assert eventually(family.relay._below.receive, 20), "it is killed with this in its hands"
    keys, driver = Keys.make(), Post(heard.append)
    other = Family()
    line.turn(other.relay.endpoints[0], "0" * 40)  # nobody answers there
    post.write(b"to nobody")
    line.turn()
    assert not line.turned
    post.again()
    arrived = eventually(lambda: len(family.passed_on()) == 2 and family.passed_on(), 20)
    letters = [text for _, frame in arrived if frame.startswith(LETTER) for text in driver.take(frame)]
    assert letters == [b"taken along", b"to nobody"] and keys
    other.close()


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
