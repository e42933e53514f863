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
