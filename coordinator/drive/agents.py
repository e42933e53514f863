"""Starting the agents of a run, and the addresses and keys to speak to them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from coordinator.host import launch
from coordinator.host.environment import PYTHON, passed_on
from coordinator.host.launch import Started
from coordinator.host.launchers import Launcher
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.wire.agent_config import Setup
from coordinator.wire.zmq_transport import Keys

ARGV = (*PYTHON, "-m", "coordinator.node.agent")


@dataclass(frozen=True)
class Contacts:
    """Addresses and keys with which another driver can take the place of the one that started the agents.

    Attributes:
        endpoints: where the driver listens.
        keys: of the driver.
        agents: of each node the keys, its message on joining, and the pid of its starter.
    """

    endpoints: tuple[str, ...]
    keys: Keys
    agents: tuple[tuple[Keys, protocol.Join, int], ...]


def log_name(number: int) -> str:
    """The name of the log of a node's agent in the run directory."""
    return f"agent-{number}"


def start_here(directory: RunDirectory, setup: Setup) -> Started:
    """Start the agent of this host as our child, which ends when we do.

    Raises:
        OSError: if it cannot be started.
    """
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
    """Start the agent of another host; returns its launcher, each agent having one of its own.

    Raises:
        OSError: if it cannot be started.
    """
    log, environment = directory.log(log_name(number)), launcher.environment(directory.marks, hosts=[host])
    return launch.start(launcher.argv(1, ARGV, [host]), environment, log, log, given=setup.encode())
