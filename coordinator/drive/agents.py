"""Starting the agents of a run, and noticing their ends.

The agent of this host is a child of the driver. On other hosts the MPI launcher starts agents: all in one
launch if the end of one does not affect the others then, else one launch for each.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from coordinator.host import launch
from coordinator.host.environment import PYTHON, forwarded
from coordinator.host.launch import Started
from coordinator.host.launchers import Launcher
from coordinator.host.rundir import RunDirectory
from coordinator.wire.agent_config import Setup

ARGV = (*PYTHON, "-m", "coordinator.node.agent")

TELLING_ENDS = ("/bin/sh", "-c", """trap "" HUP INT TERM USR1; "$@"; eval printf "'%s '" '$'$0""")
"""Starts an agent, and prints its number, which the launcher has put into a variable, when it has ended.

Launchers may send these signals to a process whose siblings have ended.
"""


class AgentLaunch:
    """One launch of the agents of the nodes ``numbers``.

    Its ``program`` is the agent itself on this host, on others the launcher.
    """

    def __init__(self, directory: RunDirectory, numbers: Sequence[int], program: Started) -> None:
        self.numbers = numbers
        self.program = program
        self._directory = directory

    @property
    def several(self) -> bool:
        return len(self.numbers) > 1

    @property
    def running(self) -> bool:
        return self.program.poll() is None

    def ended(self) -> list[int]:
        """The nodes whose agents have ended; of a launch of one only its program shows that."""
        with suppress(OSError, ValueError, IndexError):
            text = self._directory.log(ends_name(self.numbers[0])).read_text()
            return [self.numbers[int(word)] for word in text.split()]
        return []

    def tail(self) -> str:
        """The last lines that the agents have left in their log."""
        return launch.tail(self._directory.log(log_name(self.numbers[0])))

    def kill(self) -> None:
        if self.running:
            self.program.kill()


def log_name(number: int) -> str:
    """The name of the log of a launch whose first agent has this number."""
    return f"agent-{number}"


def ends_name(number: int) -> str:
    """The name of the file in which the agents of such a launch of several are named as they end."""
    return f"ended-{number}"


def start_here(directory: RunDirectory, setup: Setup) -> AgentLaunch:
    """Start the agent of this host as our child, which ends when we do."""
    log = directory.log(log_name(0))
    driver = os.pidfd_open(os.getpid())
    try:
        content = replace(setup, driver=driver).encode()
        environment = forwarded(directory.marks)
        agent = launch.start(ARGV, environment, log, log, inherited=[driver], standard_input=content)
    finally:
        os.close(driver)
    return AgentLaunch(directory, [0], agent)


def start_elsewhere(
    directory: RunDirectory, setup: Setup, launcher: Launcher, hosts: Sequence[str], numbers: Sequence[int]
) -> AgentLaunch:
    """Start the agents of hosts; the launcher of several prints who has ended."""
    words = launcher.argv(1, ARGV, hosts)
    log = ends = directory.log(log_name(numbers[0]))
    if len(hosts) > 1:
        words = launcher.together([*TELLING_ENDS, launcher.rank, *ARGV, launcher.rank], hosts)
        ends = directory.log(ends_name(numbers[0]))
    marks = directory.marks if launcher.ends_with_run else {}
    environment = launcher.environment(marks, hosts=hosts)
    return AgentLaunch(
        directory, numbers, launch.start(words, environment, ends, log, standard_input=setup.encode())
    )
