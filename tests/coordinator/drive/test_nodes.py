"""The driver's nodes without agents: signs of life, their number, and silence."""

import time

import pytest

from coordinator import policies
from coordinator.drive.driver import lead_ns
from coordinator.drive.nodes import JOIN_NS, SILENCE, Nodes
from coordinator.host.launchers import Hydra
from coordinator.wire import protocol
from coordinator.wire.protocol import TO_DRIVER
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
    ("count", "lease_s", "needs_s", "beat_s"),
    [(2, 2.0, 2.0, 0.5), (128, 2.0, 2.0, 0.5), (256, 2.0, 4.0, 1.0), (256, 60.0, 60.0, 1.0)],
)
def test_many_nodes_give_signs_of_life_less_often_and_have_longer_leases(
    crowd, count, lease_s, needs_s, beat_s
):
    nodes = crowd(count, lease_s=lease_s)
    assert {(setup.lease_s, setup.beat_s) for setup in nodes.setups} == {(needs_s, beat_s)}
    assert count / beat_s <= 256


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
    nodes._hear(0, TO_DRIVER.encode(protocol.Beat(1, 0, 0, 0.0, 0, 0)))
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
