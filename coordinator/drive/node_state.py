"""The driver's view of one node."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field, replace

from coordinator.host import launch
from coordinator.host.environment import PYTHON, passed_on
from coordinator.host.launch import Started
from coordinator.host.launchers import Launcher
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.wire.agent_config import Setup
from coordinator.wire.zmq_transport import Keys
from coordinator.workload import NodeResult

JOIN_NS = 30_000_000_000
"""How long a node may take to join."""


@dataclass
class NodeState:
    """A node, its agent, and their messages; its processors are numbered from ``first``.

    ``starter`` is the agent itself on this host; on others the launcher that has started it. ``join`` is its
    first message, ``beat`` its last sign of life, ``heard_ns`` the time of its last message, in
    CLOCK_MONOTONIC, ``dropped`` the number of its invalid ones. ``lost`` says why the driver gave it up.
    """

    host: str
    first: int
    count: int
    keys: Keys = field(default_factory=Keys.make)
    starter: Started | None = None
    join: protocol.Join | None = None
    beat: protocol.Beat | None = None
    heard_ns: int = 0
    dropped: int = 0
    lost: str = ""

    @property
    def processors(self) -> range:
        """Its processors, as the policy numbers them."""
        return range(self.first, self.first + self.count)

    @property
    def name(self) -> str:
        """The name that it reports, or the one that the user gave."""
        return self.join.host if self.join else self.host or socket.gethostname()

    @property
    def started(self) -> bool:
        return self.starter is not None and self.starter.poll() is None

    def kill(self) -> None:
        if self.starter is not None and self.starter.poll() is None:
            self.starter.kill()

    def patience_ns(self, silence_ns: int) -> int:
        """The time at which it counts as lost if no message comes before, in CLOCK_MONOTONIC."""
        return self.heard_ns + (silence_ns if self.join else JOIN_NS)

    def result(self, cores: tuple[int, ...]) -> NodeResult:
        """The node at the end of a run; ``cores`` is given on this host, elsewhere the agent reports them."""
        join, beat = self.join, self.beat
        clock = (beat.offset_ns, beat.uncertainty_ns, beat.drift, beat.steps) if beat else (0, 0, 0.0, 0)
        return NodeResult(
            join.host if join else self.host,
            cores or (join.cores[: self.count] if join else ()),
            join.priority if join else "",
            *clock,
            dropped=self.dropped + (beat.dropped if beat else 0),
            lost=self.lost,
        )


ARGV = (*PYTHON, "-m", "coordinator.node.agent")


@dataclass(frozen=True)
class Contacts:
    """The driver's addresses and keys, with which another driver can replace it.

    ``agents`` has for each node its keys, its message on joining, and the pid of its starter.
    """

    endpoints: tuple[str, ...]
    keys: Keys
    agents: tuple[tuple[Keys, protocol.Join, int], ...]


def log_name(number: int) -> str:
    """The name of an agent's log in the run directory."""
    return f"agent-{number}"


def start_here(directory: RunDirectory, setup: Setup) -> Started:
    """Start the agent of this host as our child, which ends when we do."""
    log, driver = directory.log(log_name(0)), os.pidfd_open(os.getpid())
    try:
        given = replace(setup, driver=driver).encode()
        environment = passed_on(directory.marks)
        agent = launch.start(ARGV, environment, log, log, inherited=[driver], given=given)
    finally:
        os.close(driver)
    directory.entrust()
    return agent


def start_elsewhere(
    directory: RunDirectory, setup: Setup, launcher: Launcher, host: str, number: int
) -> Started:
    """Start the agent of another host; return its launcher, which starts no other agent."""
    log, environment = directory.log(log_name(number)), launcher.environment(directory.marks, hosts=[host])
    return launch.start(launcher.argv(1, ARGV, [host]), environment, log, log, given=setup.encode())
