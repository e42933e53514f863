"""The nodes of a run as the driver sees them: started, joined, alive, lost.

Every node has one agent. On this host it is a child of the driver; on others the MPI launcher
starts it, one launcher for each node, so that the end of one does not touch the others.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator.decide.session import Plan
from coordinator.host import launch, processes
from coordinator.host.environment import PYTHON, passed_on
from coordinator.host.guardian import RELEASE_S
from coordinator.host.launch import Adopted, Launcher, Started
from coordinator.host.processes import Process
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.wire.agent_config import Setup
from coordinator.wire.door import LOOPBACK, address_towards
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER, ProtocolError
from coordinator.wire.zmq_transport import Hub, Keys, endpoints_for
from coordinator.workload import NodeResult, Workload

SILENCE = 1.5
"""A node is lost after so many leases: by then its agent's has ended, and it has released everything."""

MISSED_NS = 1_200_000_000
"""After two signs of life that have not come a node may have to connect anew."""

JOIN_NS = 30_000_000_000
"""How long a node may take to join."""


@dataclass(frozen=True)
class Contacts:
    """What it takes to speak to the agents of a run in the place of the driver that started them.

    Attributes:
        endpoints: where it listens.
        keys: its own.
        agents: of each node its keys, what it said when it joined, and the pid of what started it.
    """

    endpoints: tuple[str, ...]
    keys: Keys
    agents: tuple[tuple[Keys, protocol.Join, int], ...]


@dataclass
class _Node:
    """One node. Its processors are ``first`` and those that follow."""

    host: str
    first: int
    count: int
    keys: Keys = field(default_factory=Keys.make)
    starter: Started | None = None
    join: protocol.Join | None = None
    beat: protocol.Beat | None = None
    heard_ns: int = 0
    dropped: int = 0
    over: bool = False
    lost: str = ""


class Nodes:
    """All nodes of a run.

    ``on_message(node, message)`` is told what agents say, ``on_loss(processors, why)`` of the
    processors of a node that is lost.

    Attributes:
        node_of: the node of each processor.
        setups: what each node's agent must know.

    Args:
        workload: says which nodes.
        mechanism: for the agents.
        directory: of the run, on this host.
        launcher: starts agents on other hosts.
        contacts: of the agents that another driver has started.
    """

    def __init__(
        self,
        workload: Workload,
        mechanism: str | None,
        directory: RunDirectory,
        launcher: Launcher,
        on_message: Callable[[int, Any], None],
        on_loss: Callable[[tuple[int, ...], str], None],
        contacts: Contacts | None = None,
    ) -> None:
        self._directory = directory
        self._launcher = launcher
        self._on_message = on_message
        self._on_loss = on_loss
        self._cores = workload.processors
        self._silence_ns = round(SILENCE * workload.lease_s * 1e9)
        self._remote = bool(workload.nodes)
        self._nodes: list[_Node] = []
        for node in workload.nodes:
            self._nodes.append(_Node(node.host, self._end_of_last(), node.processors))
        if not self._remote:
            self._nodes.append(_Node("", 0, len(workload.processors)))
        self.node_of = [number for number, node in enumerate(self._nodes) for _ in range(node.count)]
        self._keys = contacts.keys if contacts else Keys.make()
        local = f"ipc://{directory.hub}"
        hosts = [node.host for node in self._nodes]
        here = (local,) if not self._remote else contacts.endpoints if contacts else endpoints_for(hosts)
        for known, (keys, join, pid) in zip(self._nodes, contacts.agents if contacts else (), strict=False):
            known.keys, known.join, known.starter = keys, join, Adopted(pid, directory.run)
        admitted = {node.keys.public: number for number, node in enumerate(self._nodes)}
        self._hub = Hub(here, self._keys, admitted)
        self.setups = [
            Setup(
                directory=str(directory.path),
                endpoint=self._hub.endpoint_for(node.host) if self._remote else local,
                driver_key=self._keys.public,
                keys=node.keys,
                mechanism=mechanism,
                local=workload.local,
                same_clock=not self._remote,
                lease_s=workload.lease_s,
            )
            for node in self._nodes
        ]

    def _end_of_last(self) -> int:
        return self._nodes[-1].first + self._nodes[-1].count if self._nodes else 0

    def start(self, selector: selectors.BaseSelector) -> None:
        """Start the agents that are not there yet, and listen to all."""
        for number, node in enumerate(self._nodes):
            if node.starter is None:
                node.starter = self._start(number)
                self._directory.note_process(node.starter.pid)
            node.heard_ns = time.monotonic_ns()
            self._watch_starter(selector, number, launch.handle(node.starter))
        for descriptor in self._hub.filenos():
            selector.register(descriptor, selectors.EVENT_READ, lambda: None)

    def _start(self, number: int) -> Started:
        """Start the agent of a node."""
        argv, log = [*PYTHON, "-m", "coordinator.node.agent"], self._directory.log(f"agent-{number}")
        marks, setup = self._directory.marks, self.setups[number]
        if not self._remote:
            driver = os.pidfd_open(os.getpid())
            try:
                given = replace(setup, driver=driver).encode()
                agent = launch.start(argv, passed_on(marks), log, log, inherited=[driver], given=given)
                self._directory.entrust()
                return agent
            finally:
                os.close(driver)
        hosts = [self._nodes[number].host]
        environment = self._launcher.environment(marks, hosts=hosts)
        return launch.start(self._launcher.argv(1, argv, hosts), environment, log, log, given=setup.encode())

    @property
    def contacts(self) -> Contacts:
        """What another driver must know to take our place, once all have joined."""
        agents = [
            (node.keys, node.join, node.starter.pid)
            for node in self._nodes
            if node.join is not None and node.starter is not None
        ]
        return Contacts(self._hub.endpoints, self._keys, tuple(agents))

    def _watch_starter(self, selector: selectors.BaseSelector, number: int, handle: Process) -> None:
        def ended() -> None:
            selector.unregister(handle)
            handle.close()
            said = launch.tail(self._directory.log(f"agent-{number}"))
            self.lose(number, f"its agent has ended\n{said}".rstrip())

        selector.register(handle, selectors.EVENT_READ, ended)

    def hosts(self, placement: tuple[int, ...]) -> list[str]:
        """The host of each rank; empty if all run on this one."""
        return [self._nodes[self.node_of[p]].host for p in placement] if self._remote else []

    def alive(self, processors: Iterable[int] = ()) -> bool:
        """Whether some node is not lost, and none of those with these processors is."""
        some = any(not node.lost for node in self._nodes)
        return some and not any(self._nodes[self.node_of[p]].lost for p in processors)

    @property
    def joined(self) -> bool:
        """Whether every node that is not lost has joined, and been heard by this driver.

        Ranks may be ready before their node is.
        """
        nodes = [(number, node) for number, node in enumerate(self._nodes) if not node.lost]
        return all(node.join is not None and self._hub.heard(number) for number, node in nodes)

    # To the agents.

    def send(self, message: Any) -> None:
        """Tell every node."""
        for number in range(len(self._nodes)):
            self._hub.send(number, TO_AGENT.encode(message))

    def publish(self, plan: Plan, from_ns: int, origin_ns: int) -> None:
        """Have each node carry out its share of a plan that begins at ``from_ns`` of the run."""
        for number, node in enumerate(self._nodes):
            here = range(node.first, node.first + node.count)
            self._hub.send(number, TO_AGENT.encode(protocol.Table.of(plan, from_ns, origin_ns, here)))

    def begin(self, job: int, at_ns: int, placement: tuple[int, ...]) -> None:
        """Have the nodes tell a job's ranks to begin at ``at_ns`` of the run's clock."""
        for number in sorted({self.node_of[p] for p in placement}):
            cores = tuple(
                (rank, self.core(p)) for rank, p in enumerate(placement) if self.node_of[p] == number
            )
            self._hub.send(number, TO_AGENT.encode(protocol.Start(job, at_ns, cores)))

    def resize(self, job: int, placement: tuple[int, ...]) -> None:
        """Have the node of a malleable job, which runs on one, tell it its processors."""
        number = self.node_of[placement[0]]
        cores = tuple(self.core(p) for p in placement)
        self._hub.send(number, TO_AGENT.encode(protocol.Resize(job, cores)))

    def core(self, processor: int) -> int:
        """The id that a processor has on its node."""
        node = self._nodes[self.node_of[processor]]
        if not self._remote:
            return self._cores[processor]
        return node.join.cores[processor - node.first] if node.join else -1

    # From the agents.

    def receive(self) -> None:
        """Deal with everything that has arrived. Call it before each sleep on the selector."""
        while arrived := self._hub.receive():
            for number, line in arrived:
                self._hear(number, line)
        self._hub.listen(self._some_missing())

    def _some_missing(self) -> bool:
        """Whether some node may yet connect, for the first time or anew."""
        since_ns = time.monotonic_ns() - MISSED_NS
        return any(
            not node.lost and (node.join is None or not self._hub.heard(number) or node.heard_ns < since_ns)
            for number, node in enumerate(self._nodes)
        )

    def _hear(self, number: int, line: bytes) -> None:
        node = self._nodes[number]
        received_ns = node.heard_ns = time.monotonic_ns()
        try:
            message = TO_DRIVER.decode(line)
        except ProtocolError:
            node.dropped += 1
            return
        if node.lost:
            return  # it holds nothing any more, whatever it thinks
        match message:
            case protocol.Beat(sent_ns):
                node.beat = message
                echo = protocol.Echo(sent_ns, received_ns, time.monotonic_ns())
                self._hub.send(number, TO_AGENT.encode(echo))
            case protocol.Join(host, cores):
                node.join = message
                if self._remote and len(cores) < node.count:
                    self.lose(number, f"{host} allows {len(cores)} cores, and {node.count} are asked for")
                    return
                claimed = cores[: node.count] if self._remote else self._cores
                self._hub.send(number, TO_AGENT.encode(protocol.Claim(claimed)))
            case _:
                self._on_message(number, message)

    def due_ns(self) -> int:
        """When ``check`` must be called next, in CLOCK_MONOTONIC."""
        return min((self._patience_ns(node) for node in self._nodes if not node.lost), default=1 << 62)

    def check(self, now_ns: int) -> None:
        """Give up the nodes that have been silent for too long."""
        for number, node in enumerate(self._nodes):
            if not node.lost and now_ns >= self._patience_ns(node):
                silence_s = (now_ns - node.heard_ns) / 1e9
                what = "no sign of life" if node.join else "it did not join"
                said = launch.tail(self._directory.log(f"agent-{number}"))
                self.lose(number, f"{what} for {silence_s:.1f} s\n{said}".rstrip())

    def _patience_ns(self, node: _Node) -> int:
        return node.heard_ns + (self._silence_ns if node.join else JOIN_NS)

    def give_up(self, lost: Mapping[int, str]) -> None:
        """Take note of nodes that another driver has lost, and why."""
        for number, why in lost.items():
            self._nodes[number].lost = why

    def lose(self, number: int, why: str) -> None:
        """Give a node up: whatever runs there is released by its own agent or guardian."""
        node = self._nodes[number]
        if node.lost:
            return
        node.lost = why
        if node.starter is not None and node.starter.poll() is None:
            node.starter.kill()
        name = node.join.host if node.join else node.host or socket.gethostname()
        self._on_loss(tuple(range(node.first, node.first + node.count)), f"node {name} is lost: {why}")

    def end(self) -> None:
        """Let all agents report and end, and their guardians after them; hear them to their end.

        That of our own host is the last, since it ends everything of the run there, and that are
        the launchers of the others, too.
        """
        ours = [node for node in self._nodes if not self._remote or _is_here(node.host)]
        self._end([node for node in self._nodes if node not in ours])
        self._end(ours)
        self._wait_for_guardian()
        for node in self._nodes:
            if node.starter is not None and node.starter.poll() is None:
                node.starter.kill()
        self._hub.close(0.2)
        launch.reap((node.starter for node in self._nodes), processes.STUBBORN_S)

    def _end(self, nodes: Sequence[_Node]) -> None:
        """Let some agents end, and wait until they have, or have had time to release everything."""
        numbers = [number for number, node in enumerate(self._nodes) if node in nodes]
        for number in numbers:
            self._hub.send(number, TO_AGENT.encode(protocol.End()))
        deadline = time.monotonic() + (RELEASE_S if self._remote else processes.GRACE_S)
        waiting = [node for node in nodes if node.starter is not None and not node.lost]
        while time.monotonic() < deadline and any(node.starter.poll() is None for node in waiting):  # type: ignore[union-attr]
            self._hear_last(numbers)
            time.sleep(0.002)
        self._hear_last(numbers)

    def _hear_last(self, ending: Collection[int]) -> None:
        for number, line in self._hub.receive():
            with suppress(ProtocolError):
                match TO_DRIVER.decode(line):
                    case protocol.Switched() | protocol.Trouble(fatal=False) as message:
                        self._on_message(number, message)
                    case _ if number in ending:  # it had not been heard before, or not heard us
                        self._hub.send(number, TO_AGENT.encode(protocol.End()))

    def _wait_for_guardian(self) -> None:
        """Wait for the guardian of an agent on this host; it begins when the agent has ended."""
        (node, *others) = self._nodes
        if self._remote or others or node.join is None or node.starter is None or node.starter.poll() is None:
            return
        with suppress(OSError, OverflowError):  # there is none, or it is no pid
            guardian = Process(node.join.guardian)
            guardian.wait(RELEASE_S)
            guardian.close()

    def results(self) -> tuple[NodeResult, ...]:
        """What is known of each node."""
        found = []
        for node in self._nodes:
            join, beat = node.join, node.beat
            cores = tuple(join.cores[: node.count]) if join else ()
            clock = (beat.offset_ns, beat.uncertainty_ns, beat.drift, beat.steps) if beat else (0, 0, 0.0, 0)
            found.append(
                NodeResult(
                    join.host if join else node.host,
                    cores if self._remote else self._cores,
                    join.priority if join else "",
                    *clock,
                    dropped=node.dropped + (beat.dropped if beat else 0),
                    lost=node.lost,
                )
            )
        return tuple(found)


def _is_here(host: str) -> bool:
    """Whether ``host`` is this one."""
    with suppress(OSError):
        return address_towards(host) == LOOPBACK
    return False
