"""The driver's nodes without agents: signs of life, their number, and silence."""

from functools import partial
from types import SimpleNamespace

import pytest

from coordinator import policies
from coordinator.decide.session import Plan
from coordinator.drive import nodes
from coordinator.drive.driver import lead_ns
from coordinator.drive.nodes import JOIN_NS, SILENCE, Nodes
from coordinator.host.launchers import Hydra
from coordinator.view import Decision, Slot
from coordinator.wire import protocol
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.workload import Node, Workload


class Post:
    """In the place of the hub: it keeps what nodes say for the driver, and what they are sent."""

    def __init__(self, endpoints, keys, admitted):
        self.endpoints = endpoints
        self.arrived = []
        self.sent = []

    def endpoint_for(self, host):
        return "tcp://127.0.0.1:1"

    def receive(self):
        arrived = self.arrived
        self.arrived = []
        return arrived

    def send(self, node, frame):
        self.sent.append((node, TO_AGENT.decode(frame)))

    def listen(self, on): ...

    def close(self, linger_s): ...


class Crowd:
    """The driver's side of so many nodes, which are all this host; the clock stands still.

    ``sent`` has what each node is sent, ``told`` what nodes say to others, ``lost`` the losses.
    """

    def __init__(self, directory, monkeypatch, count, **given):
        monkeypatch.setattr(nodes, "Hub", self._post)
        monkeypatch.setattr(nodes, "time", SimpleNamespace(monotonic_ns=lambda: self.now_ns))
        self.now_ns = 10**12
        self.told = []
        self.lost = []
        workload = Workload((), policies.create("none", {}), (), nodes=(Node("127.0.0.1"),) * count, **given)
        hear = lambda *message: self.told.append(message)  # noqa: E731
        lose = lambda processors, reason: self.lost.append(processors)  # noqa: E731
        self.nodes = Nodes(workload, None, directory, Hydra("/bin/false", "1"), hear, lose)

    def _post(self, *given):
        self.post = Post(*given)
        return self.post

    @property
    def sent(self):
        return self.post.sent

    def hear(self, node, *messages):
        """Receive what a node says, a frame or a message."""
        frames = (one if isinstance(one, bytes) else TO_DRIVER.encode(one) for one in messages)
        self.post.arrived = [(node, frame) for frame in frames]
        self.nodes.receive()

    def join(self, count):
        """Let so many nodes join, each with one core."""
        for number in range(count):
            self.hear(number, protocol.Join(f"n{number}", (0,), 1, ""))


@pytest.fixture
def crowd(directory, monkeypatch):
    """Makes a crowd."""
    yield partial(Crowd, directory, monkeypatch)
    directory.remove()
    directory.unlock()


BEAT = protocol.Beat(9, 0, 0, 0, 0, 0)


def test_a_node_is_lost_a_silence_after_its_last_message_and_not_before(crowd):
    both = crowd(2, lease_s=2.0)
    silence_ns = round(SILENCE * 2e9)
    begin_ns = both.now_ns
    assert both.nodes.due_ns() == JOIN_NS, "since the start of the agents, of which there are none"
    both.join(2)
    assert both.nodes.due_ns() == begin_ns + silence_ns, "it has joined, and must say something sooner"
    both.now_ns += 5
    both.hear(0, BEAT)
    both.nodes.check(begin_ns + silence_ns - 1)
    assert not both.lost
    both.nodes.check(begin_ns + silence_ns)
    assert both.lost == [(1,)]
    assert both.nodes.due_ns() == begin_ns + 5 + silence_ns
    both.nodes.check(begin_ns + 5 + silence_ns)
    assert both.lost == [(1,), (0,)]


def test_agents_of_other_hosts_come_by_the_network_and_those_of_this_one_by_a_socket(crowd, directory):
    ours = f"ipc://{directory.hub}"
    here = crowd(0)
    assert (here.post.endpoints, [setup.endpoint for setup in here.nodes.setups]) == ((ours,), [ours])
    both = crowd(2)
    assert both.post.endpoints == ("tcp://127.0.0.1:0",), "two nodes that we reach in one way"
    assert [setup.endpoint for setup in both.nodes.setups] == ["tcp://127.0.0.1:1"] * 2
    assert [setup.same_clock for setup in (*here.nodes.setups, *both.nodes.setups)] == [True, False, False]


@pytest.mark.parametrize("count, lead_ms", [(0, 5), (2, 5), (50, 5), (128, 12.8), (1024, 102.4)])
def test_decisions_are_made_earlier_where_tables_go_to_many_nodes(count, lead_ms):
    hosts = (Node("127.0.0.1"),) * count
    assert lead_ns(Workload((), policies.create("none", {}), (0,), nodes=hosts)) == lead_ms * 1e6


@pytest.fixture
def eight(crowd):
    """Eight nodes that have joined; ``sent`` has what they are sent from then on."""
    node_set = crowd(8)
    node_set.join(7)
    assert not node_set.nodes.joined
    node_set.join(8)
    assert node_set.nodes.joined
    node_set.sent.clear()
    return node_set


def test_each_sign_of_life_is_answered(eight):
    eight.hear(5, BEAT)
    assert eight.sent == [(5, protocol.Echo(9, eight.now_ns, eight.now_ns))]


def test_only_signs_of_life_are_answered_while_the_driver_is_busy(eight):
    gone = protocol.OfRank(1, 0, protocol.RankGone())
    eight.post.arrived = [(node, TO_DRIVER.encode(one)) for node, one in ((3, gone), (5, BEAT))]
    eight.nodes.answer()
    assert (eight.sent, eight.told) == ([(5, protocol.Echo(9, eight.now_ns, eight.now_ns))], [])
    eight.nodes.receive()
    assert eight.told == [(3, gone)] and len(eight.sent) == 1


def test_what_is_no_message_is_told_once_and_is_no_sign_of_life(eight):
    due_ns = eight.nodes.due_ns()
    eight.now_ns += 5
    eight.hear(1, b"garbage", b"garbage", b"garbage")
    ((number, failure),) = eight.told
    assert number == 1 and "no message of ours" in failure.text and not failure.fatal
    assert [node.dropped for node in eight.nodes.results()] == [0, 3, 0, 0, 0, 0, 0, 0]
    eight.nodes.check(due_ns)
    assert (1,) in eight.lost


def table_of(eight, jobs, **decided):
    """Publish slots of 10 ns for jobs on all nodes; returns who was sent a table."""
    eight.sent.clear()
    slots = tuple(Slot(((job,),) * 8, 10 if len(jobs) > 1 else None) for job in jobs)
    placements = {job: tuple(range(8)) for job in jobs} | decided.pop("placements", {})
    active = {job: range(len(place)) for job, place in placements.items()}
    eight.nodes.publish(Plan(Decision(placements, slots, **decided), 0), 7, 0, active)
    return [node for node, message in eight.sent if isinstance(message, protocol.Table)]


def test_tables_go_to_nodes_whose_tables_change(eight):
    assert table_of(eight, [0]) == list(range(8))
    assert table_of(eight, [0]) == []
    assert table_of(eight, [0], placements={9: (6, 2)}) == [2, 6]
    assert table_of(eight, [0, 1]) == list(range(8))
    assert table_of(eight, [0, 1], timer_ns=5) == []


def test_a_node_that_says_that_it_ends_is_lost_and_heard_no_more(eight):
    eight.hear(3, protocol.Released())
    eight.nodes.check(eight.now_ns)
    assert eight.lost == [(3,)]
    eight.hear(3, protocol.Beat(9, 44, 0, 0, 0, 0))
    assert all(node.offset_ns == 0 for node in eight.nodes.results()) and not eight.sent
