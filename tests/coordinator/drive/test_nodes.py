"""The driver's nodes without agents: signs of life, their number, and silence."""

import time

import pytest

from coordinator import policies
from coordinator.decide.session import Plan
from coordinator.drive.driver import lead_ns
from coordinator.drive.nodes import JOIN_NS, KNOWN_NS, SILENCE, Nodes
from coordinator.host.launchers import Hydra
from coordinator.view import Decision, Slot
from coordinator.wire import protocol
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.wire.tree import OWN, PACKET, pack, unpack
from coordinator.workload import Node, Workload


@pytest.fixture
def crowd(directory):
    """Makes the driver's side of so many nodes, which are all this host; ``lost`` has the losses."""
    made = []

    def make(count, **given):
        workload = Workload((), policies.create("none", {}), (), nodes=(Node("127.0.0.1"),) * count, **given)
        lost = []
        nodes = Nodes(
            workload,
            None,
            directory,
            Hydra("/bin/false", "1"),
            lambda *message: None,
            lambda *loss: lost.append(loss),
        )
        nodes.lost = lost
        made.append(nodes)
        return nodes

    yield make
    for nodes in made:
        nodes._hub.close(0)
    directory.remove()
    directory.unlock()


@pytest.mark.parametrize(
    ("count", "fan_out", "lease_s", "needs_s"),
    [(2, 32, 0.5, 0.5), (32, 32, 0.5, 0.5), (33, 32, 0.5, 4.0), (8, 2, 2.0, 6.0), (8, 2, 60.0, 60.0)],
)
def test_a_lease_lasts_for_every_level_of_the_tree(crowd, count, fan_out, lease_s, needs_s):
    nodes = crowd(count, lease_s=lease_s, fan_out=fan_out)
    assert {setup.lease_s for setup in nodes.setups} == {needs_s}


def test_a_node_is_lost_a_silence_after_its_last_message_and_not_before(crowd):
    nodes = crowd(2, lease_s=2.0)
    silence_ns = round(SILENCE * 2e9)
    begin_ns = time.monotonic_ns()
    for node in nodes._nodes:
        node.heard_ns = begin_ns
    assert nodes.due_ns() == begin_ns + JOIN_NS
    for number in range(2):
        nodes._hear(number, TO_DRIVER.encode(protocol.Join(f"n{number}", (0,), 1, "")))
    first, second = (node.heard_ns + silence_ns for node in nodes._nodes)
    assert nodes.due_ns() == first, "it has joined, and must say something sooner"
    nodes._hear(0, TO_DRIVER.encode(protocol.Beat(1, 0, 0, 0, 0, 0)))
    later = nodes._nodes[0].heard_ns + silence_ns
    nodes.check(first)
    assert nodes.due_ns() == second and not nodes.lost
    nodes.check(second)
    assert [processors for processors, _ in nodes.lost] == [(1,)]
    assert nodes.due_ns() == later
    nodes.check(later)
    assert [processors for processors, _ in nodes.lost] == [(1,), (0,)]


@pytest.mark.parametrize(("count", "lead_ms"), [(0, 5), (2, 5), (50, 5), (128, 12.8), (1024, 102.4)])
def test_decisions_are_made_earlier_where_tables_go_to_many_nodes(count, lead_ms):
    hosts = (Node("127.0.0.1"),) * count
    assert lead_ns(Workload((), policies.create("none", {}), (0,), nodes=hosts)) == lead_ms * 1e6


BELOW = {0: {1: (2, 3)}, 1: {2: (), 3: ()}, 4: {5: (6, 7)}, 5: {6: (), 7: ()}}
"""Whom each of eight nodes leads with a fan-out of two, and those below each of them."""


class Sent(list):
    """What the driver sends, in the place of its hub: (neighbour, node, message); ``known`` have spoken."""

    def __init__(self):
        self.known = set(range(8))

    def heard(self, node):
        return node in self.known

    def send(self, neighbour, frame):
        parts = unpack(frame) if frame.startswith(PACKET) else [(neighbour, frame)]
        self += [(neighbour, node, TO_AGENT.decode(part)) for node, part in parts]

    def of(self, kind):
        return [(neighbour, node, message) for neighbour, node, message in self if isinstance(message, kind)]


def beat(sent_ns, table_ns=0):
    return TO_DRIVER.encode(protocol.Beat(sent_ns, 0, 0, 0, 0, 0, table_ns))


@pytest.fixture
def tree(crowd, monkeypatch):
    """The driver's side of eight nodes that are arranged and report to others; ``sent`` is a Sent."""
    nodes = crowd(8, fan_out=2)
    nodes.sent = Sent()
    for name in ("send", "heard"):
        monkeypatch.setattr(nodes._hub, name, getattr(nodes.sent, name))
    for number in range(8):
        nodes._hear(number, TO_DRIVER.encode(protocol.Join(f"n{number}", (0,), 1, "")))
    nodes.check(time.monotonic_ns())
    for top in (0, 4):
        nodes._hear(top, pack([(top + below, beat(1)) for below in (1, 2, 3)]))
    return nodes


def test_leaders_are_told_whom_they_lead_and_who_is_below_each(tree):
    told = {
        node: {one: below for one, _, _, below in lead.led} for _, node, lead in tree.sent.of(protocol.Lead)
    }
    assert told == BELOW
    tree._hear(5, TO_DRIVER.encode(protocol.Join("n5", (0,), 1, "", ("tcp://six", "tcp://seven"))))
    key = tree._nodes[5].keys.public
    follow = [(node, message) for _, node, message in tree.sent.of(protocol.Follow)]
    assert follow == [(6, protocol.Follow("tcp://six", key)), (7, protocol.Follow("tcp://seven", key))]


def test_nobody_is_heard_for_a_node_that_it_does_not_lead(tree):
    trouble = TO_DRIVER.encode(protocol.Trouble("I am not what I seem", fatal=True))
    known = [node.beat for node in tree._nodes]
    foreign = -2, 0, 1, 2, 3, 4, 5, 8, 1 << 40
    tree._hear(5, pack([(number, message) for number in foreign for message in (beat(9), trouble)]))
    assert [node.beat for node in tree._nodes] == known and not any(node.dropped for node in tree._nodes)
    tree._hear(0, pack([(OWN, beat(9)), (1, trouble), (2, b"garbage"), (3, beat(9))]))
    assert tree._nodes[0].beat.sent_ns == 9 and tree.sent[-1][2].sent_ns == 9, "it was answered"
    assert tree._nodes[3].beat.sent_ns == 9, "it does not suffer by its neighbours"
    assert [node.dropped for node in tree._nodes] == [0, 1, 1, 0, 0, 0, 0, 0]
    heard_ns = tree._nodes[3].heard_ns
    tree._hear(0, pack([(3, beat(9)), (3, beat(8))]))
    assert tree._nodes[3].heard_ns == heard_ns, "signs of life count once"


def test_another_driver_asks_nodes_that_it_hears_through_others_to_speak_themselves(tree):
    tree.sent.known = {0, 4}
    tree._hear(4, pack([(3, beat(9)), (8, beat(9))]))
    assert tree.sent[-1] == (4, 3, protocol.Follow()) and tree._nodes[3].beat.sent_ns == 1


def table_of(tree, jobs, **decided):
    """Publish slots of 10 ns for jobs on all nodes; returns who was sent a table, and through whom."""
    tree.sent.clear()
    slots = tuple(Slot(((job,),) * 8, 10 if len(jobs) > 1 else None) for job in jobs)
    placements = {job: tuple(range(8)) for job in jobs} | decided.pop("placements", {})
    active = {job: range(len(place)) for job, place in placements.items()}
    tree.publish(Plan(Decision(placements, slots, **decided), 0), 7, 0, active)
    return {node: neighbour for neighbour, node, _ in tree.sent.of(protocol.Table)}


def test_tables_go_through_leaders_to_nodes_whose_tables_change(tree):
    assert table_of(tree, [0]) == {0: 0, 1: 0, 2: 0, 3: 0, 4: 4, 5: 4, 6: 4, 7: 4}
    assert table_of(tree, [0]) == {}
    assert table_of(tree, [0], placements={9: (6, 2)}) == {2: 0, 6: 4}
    assert {*table_of(tree, [0, 1])} == set(range(8))
    assert table_of(tree, [0, 1], call_after_ns=5) == {}


def test_a_table_that_is_lost_on_its_way_comes_again_straight(tree):
    table_of(tree, [0])
    told_ns = tree._nodes[3].told_ns
    tree.sent.clear()
    tree._hear(0, pack([(3, beat(told_ns + KNOWN_NS))]))
    assert not tree.sent, "the sign of life may be older than the table"
    tree._hear(0, pack([(3, beat(told_ns + KNOWN_NS + 1))]))
    ((neighbour, node, table),) = tree.sent
    assert (neighbour, node) == (3, 3) and table.placements == ((0, 3, 0),)
    tree._hear(0, pack([(3, beat(told_ns + KNOWN_NS + 2))]))
    assert len(tree.sent) == 1, "that one is under way"
    tree._hear(2, beat(told_ns))
    assert [message for *_, message in tree.sent.of(protocol.Table)][1].placements == ((0, 2, 0),), (
        "it has another way now"
    )
    tree._hear(2, beat(told_ns + 2 * KNOWN_NS, table.made_ns))
    assert len(tree.sent.of(protocol.Table)) == 2


def test_who_was_led_by_a_lost_node_is_told_to_report_to_the_driver(tree):
    tree._hear(0, TO_DRIVER.encode(protocol.Released()))
    tree.sent.clear()
    tree.check(time.monotonic_ns() + 10**9)
    assert [processors for processors, _ in tree.lost] == [(0,)]
    assert tree.sent == [(1, 1, protocol.Follow())]
    tree._hear(1, pack([(3, beat(9))]))
    tree._hear(0, pack([(2, beat(9))]))
    assert tree._nodes[3].beat.sent_ns == 9 and tree._nodes[2].beat.sent_ns == 1
