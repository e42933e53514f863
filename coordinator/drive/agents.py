"""Starting the agents of a run; addresses and keys for the connections to them."""

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
    """Addresses and keys with which another driver can replace the driver that started the agents.

    Attributes:
        endpoints: the driver's addresses.
        keys: the driver's keys.
        agents: for each node its keys, its message on joining, and the pid of its starter.
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
