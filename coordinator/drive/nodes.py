"""The nodes of a run, each with an agent: messages to and from them, losing them, ending them."""

import itertools
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from coordinator.decide.session import Plan
from coordinator.drive import agents
from coordinator.drive.agents import AgentLaunch
from coordinator.host import launch, processes
from coordinator.host.guardian import RELEASE_S
from coordinator.host.launchers import Launcher
from coordinator.host.loop import Loop
from coordinator.host.processes import Process
from coordinator.host.rundir import RunDirectory
from coordinator.view import Placement
from coordinator.wire import protocol
from coordinator.wire.agent_config import Setup
from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import FROM_BYTES, TO_AGENT, TO_DRIVER
from coordinator.wire.zmq_transport import LOOPBACK, Hub, Keys, address_towards, endpoints_for
from coordinator.workload import NodeResult, Workload

JOIN_NS = 30_000_000_000  # how long a node may take to join


@dataclass
class NodeState:
    """A node, its agent, and their messages; its processors are numbered from ``first``.

    ``launch`` has started its agent. ``join`` is its first message, ``beat`` its last sign of life,
    ``heard_ns`` the time of its last message, in CLOCK_MONOTONIC, ``dropped`` the number of its invalid ones.
    ``lost`` says why the driver gave it up, ``over`` whether its agent has told that it ends, or the launcher
    that it has ended. ``table`` is the last one for it.
    """

    host: str
    first: int
    count: int
    keys: Keys
    table: bytes = b""
    launch: AgentLaunch | None = None
    join: protocol.Join | None = None
    beat: protocol.Beat | None = None
    heard_ns: int = 0
    dropped: int = 0
    over: bool = False
    lost: str = ""

    @property
    def processors(self) -> range:
        return range(self.first, self.first + self.count)

    @property
    def name(self) -> str:
        return self.join.host if self.join else self.host or socket.gethostname()

    @property
    def started(self) -> bool:
        return self.launch is not None and self.launch.running

    def patience_ns(self, silence_ns: int) -> int:
        """The time at which it counts as lost if no message comes before, in CLOCK_MONOTONIC."""
        return self.heard_ns + (silence_ns if self.join else JOIN_NS)

    def result(self, cores: tuple[int, ...]) -> NodeResult:
        """The node at the end of a run; ``cores`` is given on this host, elsewhere the agent reports them."""
        join = self.join
        beat = self.beat
        clock = (0, 0, 0.0, 0)
        if beat:
            clock = beat.offset_ns, beat.uncertainty_ns, beat.drift_ppt / 1e12, beat.steps
        return NodeResult(
            join.host if join else self.host,
            cores or (join.cores[: self.count] if join else ()),
            join.priority if join else "",
            *clock,
            dropped=self.dropped + (beat.dropped if beat else 0),
            lost=self.lost,
        )


SILENCE = 1.5
"""A silent node is lost after so many leases: by then its agent's lease has ended, and the agent has released
everything."""

MISSED_NS = 1_200_000_000
"""Two signs of life were due, and have not come: a node may have to reconnect."""

ENDED = "its agent has ended"

ENDS_NS = 100_000_000
"""From one look at the ends of agents that were launched together to the next; nothing wakes up for it."""

LOOK_NS = 20_000_000
"""From one look to the next while nodes are missing: it costs the more, the more nodes there are."""


class Nodes:
    """All nodes of a run.

    ``node_of`` is the node of each processor, ``setups`` has the configuration of each node's agent. The
    launcher starts agents on other hosts. ``on_message(node, message)`` is called for each message of an
    agent, ``on_loss(processors, reason)`` when a node is lost.
    """

    def __init__(
        self,
        workload: Workload,
        mechanism: str | None,
        directory: RunDirectory,
        launcher: Launcher,
        on_message: Callable[[int, Any], None],
        on_loss: Callable[[tuple[int, ...], str], None],
    ) -> None:
        self._directory = directory
        self._launcher = launcher
        self._on_message = on_message
        self._on_loss = on_loss
        self._cores = workload.processors
        self._silence_ns = round(SILENCE * workload.lease_s * 1e9)
        self._remote = bool(workload.nodes)
        self._nodes: list[NodeState] = []
        self._due_ns = self._look_ns = self._ends_ns = 0
        self._launches: list[AgentLaunch] = []
        self._held: list[tuple[int, bytes]] = []  # messages that came while the driver was busy
        self._seed = Keys.make()
        for host, count in [(n.host, n.processors) for n in workload.nodes] or [("", len(self._cores))]:
            keys = self._seed.of(len(self._nodes) + 1)
            first = self._nodes[-1].processors.stop if self._nodes else 0
            self._nodes.append(NodeState(host, first, count, keys))
        self.node_of = [number for number, node in enumerate(self._nodes) for _ in node.processors]
        self._keys = Keys.make()
        local = f"ipc://{directory.hub}"
        hosts = [node.host for node in self._nodes]
        here = endpoints_for(hosts) if self._remote else (local,)
        admitted = {node.keys.public: number for number, node in enumerate(self._nodes)}
        self._hub = Hub(here, self._keys, admitted)
        self.setups = [
            Setup(
                directory=str(directory.path),
                endpoint=self._hub.endpoint_for(node.host) if self._remote else local,
                driver_key=self._keys.public,
                keys=node.keys,
                mechanism=mechanism,
                options=workload.options,
                same_clock=not self._remote,
                lease_s=workload.lease_s,
                trees=tuple((job.number, job.root) for job in workload.jobs if job.root),
            )
            for node in self._nodes
        ]

    def start(self, loop: Loop) -> None:
        """Start the agents, and listen to all."""
        for _, group in itertools.groupby(range(len(self._nodes)), key=self._launch_of):
            agent_launch = self._launch(list(group))
            if self._launcher.ends_with_run:
                self._directory.note_process(agent_launch.program.pid)
            self._launches.append(agent_launch)
            for number in agent_launch.numbers:
                self._nodes[number].launch = agent_launch
            loop.watch_end(launch.handle(agent_launch.program), partial(self._on_end, agent_launch))
        for node in self._nodes:
            node.heard_ns = time.monotonic_ns()
        for descriptor in self._hub.filenos():
            loop.watch(descriptor)

    def _launch_of(self, number: int) -> tuple[str, int]:
        """What neighbouring nodes have in common if one launch starts them: their way to us."""
        alone = not self._remote or not self._launcher.together((), [self._nodes[number].host])
        return self.setups[number].endpoint, number if alone else -1

    def _launch(self, numbers: Sequence[int]) -> AgentLaunch:
        first, *others = numbers
        setup = self.setups[first]
        if not self._remote:
            return agents.start_here(self._directory, setup)
        if others:
            setup = replace(setup, keys=self._seed, number=first + 1)
        hosts = [self._nodes[number].host for number in numbers]
        return agents.start_elsewhere(self._directory, setup, self._launcher, hosts, numbers)

    def _on_end(self, agent_launch: AgentLaunch) -> None:
        """Give up the node of an agent that has ended, or those that a launcher has not brought to join."""
        for number in agent_launch.numbers:
            if not agent_launch.several or self._nodes[number].join is None:
                self._lose(number, "the launcher of the agents has ended" if agent_launch.several else ENDED)

    def _look_for_ends(self) -> None:
        """Look which agents have ended of those that were launched together."""
        for agent_launch in self._launches:
            for number in agent_launch.ended():
                self._nodes[number].over = True

    def hosts(self, placement: Placement) -> list[str]:
        return [self._nodes[self.node_of[p]].host for p in placement] if self._remote else []

    def alive(self, processors: Iterable[int] = ()) -> bool:
        """Whether a node is left, and all nodes with these processors are left."""
        some = any(not node.lost for node in self._nodes)
        return some and not any(self._nodes[self.node_of[p]].lost for p in processors)

    @property
    def joined(self) -> bool:
        """Whether every node that is not lost has joined; its ranks may be ready before."""
        return all(node.join is not None for node in self._nodes if not node.lost)

    # To the agents.

    def _say(self, number: int, message: Any) -> None:
        self._hub.send(number, TO_AGENT.encode(message))

    def send(self, message: Any) -> None:
        for number in range(len(self._nodes)):
            self._say(number, message)

    def publish(self, plan: Plan, from_ns: int, origin_ns: int, active: Mapping[int, Sequence[int]]) -> None:
        """Send each node its share of a plan if that is new; ``active`` ranks take part in each job."""
        processors = [node.processors for node in self._nodes]
        shares = protocol.Table.shares(plan, from_ns, origin_ns, processors, active)
        for number, (node, share) in enumerate(zip(self._nodes, shares, strict=True)):
            table = TO_AGENT.encode(share)
            if table[FROM_BYTES:] != node.table[FROM_BYTES:]:
                node.table = table
                self._hub.send(number, table)

    def begin(
        self, job: int, at_ns: int, places: Mapping[int, Sequence[int]], taking_part: tuple[int, ...]
    ) -> None:
        """Let ranks begin at ``at_ns`` of the run's clock, each on its processors (``protocol.Start``)."""
        cores: dict[int, list[tuple[int, int]]] = {}
        for rank, processor in ((rank, one) for rank, group in places.items() for one in group):
            cores.setdefault(self.node_of[processor], []).append((rank, self.core(processor)))
        for number, ranks in sorted(cores.items()):
            self._say(number, protocol.Start(job, at_ns, tuple(ranks), taking_part))

    def resize(self, job: int, placement: Placement) -> None:
        self._say(self.node_of[placement[0]], protocol.Resize(job, tuple(map(self.core, placement))))

    def move(self, job: int, places: Mapping[int, Sequence[int]]) -> None:
        """Let ranks of a job, which runs on this host, continue on other processors."""
        cores = tuple((rank, self.core(processor)) for rank, group in places.items() for processor in group)
        self.send(protocol.Move(job, cores))

    def core(self, processor: int) -> int:
        """The core id of a processor on its node; -1 before the node has joined."""
        node = self._nodes[self.node_of[processor]]
        if not self._remote:
            return self._cores[processor]
        return node.join.cores[processor - node.first] if node.join else -1

    # From the agents.

    def receive(self) -> None:
        """Handle all messages that have arrived. Call it before each sleep of the loop."""
        while arrived := self._held or self._hub.receive():
            self._held = []
            for sender, frame in arrived:
                self._hear(sender, frame)
        now_ns = time.monotonic_ns()
        if now_ns >= self._look_ns:
            since_ns = now_ns - MISSED_NS
            missing = any(  # and may still connect, or reconnect
                not node.lost and (node.join is None or node.heard_ns < since_ns) for node in self._nodes
            )
            self._hub.listen(missing)
            earliest_ns = min((node.heard_ns for node in self._nodes if not node.lost), default=now_ns)
            self._look_ns = now_ns + LOOK_NS if missing else earliest_ns + MISSED_NS

    def answer(self) -> None:
        """Answer signs of life, and hold all else for ``receive``: leases end while the driver is busy."""
        while arrived := self._hub.receive():
            for sender, frame in arrived:
                with suppress(LineError):
                    if isinstance(TO_DRIVER.decode(frame), protocol.Beat):
                        self._hear(sender, frame)
                        continue
                self._held.append((sender, frame))

    def _hear(self, number: int, frame: bytes) -> None:
        node = self._nodes[number]
        try:
            message = TO_DRIVER.decode(frame)
        except LineError:
            node.dropped += 1
            if node.dropped == 1 and not node.lost:
                self._on_message(
                    number,
                    protocol.Failure(
                        f"{node.name} says what is no message of ours; nothing of that kind is acted upon",
                        fatal=False,
                    ),
                )
            return
        if not node.lost:  # else its guardian has released everything
            node.heard_ns = time.monotonic_ns()
            self._act(number, node, message)

    def _act(self, number: int, node: NodeState, message: Any) -> None:
        match message:
            case protocol.Beat() as beat:
                node.beat = beat
                self._say(number, protocol.Echo(beat.sent_ns, node.heard_ns, time.monotonic_ns()))
            case protocol.Join(host, cores):
                node.join = message
                self._due_ns = 0
                if self._remote and len(cores) < node.count:
                    self._lose(number, f"{host} allows {len(cores)} cores, but the run needs {node.count}")
                    return
                self._say(number, protocol.ClaimCores(cores[: node.count] if self._remote else self._cores))
            case protocol.Released():
                node.over = True  # not at our request
            case _:
                self._on_message(number, message)

    def due_ns(self) -> int:
        """The time at which ``check`` must be called next, in CLOCK_MONOTONIC."""
        if not self._due_ns:
            patience = (node.patience_ns(self._silence_ns) for node in self._nodes if not node.lost)
            self._due_ns = min(patience, default=1 << 62)
        return self._due_ns

    def check(self, now_ns: int) -> None:
        """Give up nodes whose agents have ended, or that have been silent for too long."""
        if now_ns >= self._ends_ns:
            self._ends_ns = now_ns + ENDS_NS
            self._look_for_ends()
            for number, node in enumerate(self._nodes):
                if node.over:
                    self._lose(number, ENDED)
        if now_ns < self.due_ns():
            return
        self._due_ns = 0  # meanwhile most have said something, which has only put it off
        for number, node in enumerate(self._nodes):
            if not node.lost and now_ns >= node.patience_ns(self._silence_ns):
                what = "no sign of life" if node.join else "it did not join"
                self._lose(number, f"{what} for {(now_ns - node.heard_ns) / 1e9:.1f} s")

    def _lose(self, number: int, reason: str) -> None:
        """Give a node up: its own agent or guardian releases everything there."""
        node = self._nodes[number]
        if node.lost:
            return
        node.lost = reason
        if node.launch:
            node.lost = f"{reason}\n{node.launch.tail()}".rstrip()
            if not node.launch.several:
                node.launch.kill()
        self._on_loss(tuple(node.processors), f"node {node.name} is lost: {node.lost}")

    def end(self) -> None:
        """Let all agents report and end, then guardians; this host's last, as its end kills launchers."""
        ours = [number for number, node in enumerate(self._nodes) if not self._remote or _is_here(node.host)]
        self._end([number for number in range(len(self._nodes)) if number not in ours])
        self._end(ours)
        self._wait_for_guardian()
        for agent_launch in self._launches:
            agent_launch.kill()
        self._hub.close(0.2)
        launch.reap((agent_launch.program for agent_launch in self._launches), processes.STUBBORN_S)

    def hang_up(self, loop: Loop) -> None:
        """Hear nothing more; agents that live end with their leases, and nothing waits for that."""
        self.unwatch(loop)
        self._hub.close(0)

    def unwatch(self, loop: Loop) -> None:
        for descriptor in self._hub.filenos():
            loop.unwatch(descriptor)

    def _end(self, numbers: Sequence[int]) -> None:
        """Let some agents end, and wait for their end, or for the time that a release may take."""
        for number in numbers:
            self._say(number, protocol.End())
        deadline = time.monotonic() + (RELEASE_S if self._remote else processes.GRACE_S)
        waiting = [number for number in numbers if not self._nodes[number].lost]
        while time.monotonic() < deadline and waiting:
            self._hear_last(numbers)
            self._look_for_ends()
            waiting = [number for number in waiting if self._ends(number)]
            time.sleep(0.002)
        self._hear_last(numbers)

    def _ends(self, number: int) -> bool:
        """Whether an end is still to come; a launcher of several ends with the last, unless one is lost."""
        node = self._nodes[number]
        if node.launch is None or not node.launch.several:
            return node.started
        if not node.over:
            return node.started or node.join is not None
        return node.started and not any(self._nodes[sibling].lost for sibling in node.launch.numbers)

    def _hear_last(self, ending: Collection[int]) -> None:
        for number, frame in self._hub.receive():
            with suppress(LineError):
                match TO_DRIVER.decode(frame):
                    case protocol.Released():
                        self._nodes[number].over = True
                    case protocol.SwitchReport() | protocol.Failure(fatal=False) as message:
                        self._on_message(number, message)
                    case _ if number in ending:  # it has joined late, or has not received our message
                        self._say(number, protocol.End())

    def _wait_for_guardian(self) -> None:
        """Wait for the guardian of this host's agent; its release begins when the agent has ended."""
        (node, *_) = self._nodes
        if self._remote or node.join is None or node.launch is None or node.started:
            return
        with suppress(OSError, OverflowError):  # the guardian has ended, or the pid is invalid
            guardian = Process(node.join.guardian)
            guardian.wait(RELEASE_S)
            guardian.close()

    def results(self) -> tuple[NodeResult, ...]:
        return tuple(node.result(() if self._remote else self._cores) for node in self._nodes)


def _is_here(host: str) -> bool:
    with suppress(OSError):
        return address_towards(host) == LOOPBACK
    return False
