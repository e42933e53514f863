"""The driver's nodes without agents: signs of life, their number, and silence."""

import time

import pytest

from coordinator import policies
from coordinator.decide.session import Plan
from coordinator.drive.driver import lead_ns
from coordinator.drive.nodes import JOIN_NS, SILENCE, Nodes
from coordinator.host.launchers import Hydra
from coordinator.view import Decision, Slot
from coordinator.wire import protocol
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
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


def test_a_node_is_lost_a_silence_after_its_last_message_and_not_before(crowd):
    nodes = crowd(2, lease_s=2.0)
    silence_ns = round(SILENCE * 2e9)
    begin_ns = time.monotonic_ns()
    for node in nodes._nodes:
        node.heard_ns = begin_ns
    assert nodes.due_ns() == begin_ns + JOIN_NS
    join(nodes, 2)
    first, second = (node.heard_ns + silence_ns for node in nodes._nodes)
    assert nodes.due_ns() == first, "it has joined, and must say something sooner"
    nodes._hear(0, BEAT)
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


class Sent(list):
    """What the driver sends, in the place of its hub, with the number of the node."""

    def send(self, node, frame):
        self.append((node, TO_AGENT.decode(frame)))


def join(nodes, count):
    """Let so many nodes join, each with one core."""
    for number in range(count):
        nodes._hear(number, TO_DRIVER.encode(protocol.Join(f"n{number}", (0,), 1, "")))


BEAT = TO_DRIVER.encode(protocol.Beat(9, 0, 0, 0, 0, 0))


@pytest.fixture
def eight(crowd, monkeypatch):
    """The driver's side of eight nodes that have joined; ``sent`` has what they are sent from then on."""
    nodes = crowd(8)
    nodes.sent = Sent()
    monkeypatch.setattr(nodes._hub, "send", nodes.sent.send)
    join(nodes, 7)
    assert not nodes.joined
    join(nodes, 8)
    assert nodes.joined
    nodes.sent.clear()
    return nodes


def test_each_sign_of_life_is_answered(eight):
    begin_ns = time.monotonic_ns()
    eight._hear(5, BEAT)
    ((node, echo),) = eight.sent
    assert (node, echo.sent_ns) == (5, 9) and begin_ns <= echo.received_ns <= echo.replied_ns


def test_what_is_no_message_is_told_once_and_is_no_sign_of_life(eight):
    told = []
    eight._on_message = lambda *message: told.append(message)
    heard_ns = [node.heard_ns for node in eight._nodes]
    for _ in range(3):
        eight._hear(1, b"garbage")
    ((number, trouble),) = told
    assert number == 1 and "no message of ours" in trouble.text and not trouble.fatal
    assert [node.dropped for node in eight._nodes] == [0, 3, 0, 0, 0, 0, 0, 0]
    assert [node.heard_ns for node in eight._nodes] == heard_ns


def table_of(nodes, jobs, **decided):
    """Publish slots of 10 ns for jobs on all nodes; returns who was sent a table."""
    nodes.sent.clear()
    slots = tuple(Slot(((job,),) * 8, 10 if len(jobs) > 1 else None) for job in jobs)
    placements = {job: tuple(range(8)) for job in jobs} | decided.pop("placements", {})
    active = {job: range(len(place)) for job, place in placements.items()}
    nodes.publish(Plan(Decision(placements, slots, **decided), 0), 7, 0, active)
    return [node for node, message in nodes.sent if isinstance(message, protocol.Table)]


def test_tables_go_to_nodes_whose_tables_change(eight):
    assert table_of(eight, [0]) == list(range(8))
    assert table_of(eight, [0]) == []
    assert table_of(eight, [0], placements={9: (6, 2)}) == [2, 6]
    assert table_of(eight, [0, 1]) == list(range(8))
    assert table_of(eight, [0, 1], call_after_ns=5) == []


def test_a_node_that_says_that_it_ends_is_lost_and_heard_no_more(eight):
    eight._hear(3, TO_DRIVER.encode(protocol.Released()))
    eight.check(time.monotonic_ns())
    assert [processors for processors, _ in eight.lost] == [(3,)]
    eight._hear(3, BEAT)
    assert eight._nodes[3].beat is None and not eight.sent
