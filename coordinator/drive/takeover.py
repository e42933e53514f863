"""The takeover of a run whose driver was killed.

The agents continue without a driver for the length of their lease. Within it, another driver takes the
run's lock, repeats all decisions from the events that the first driver has written down,
binds the same endpoints with the same keys, and continues.
On a single host there is nothing to take over: the agent is the driver's child, and ends with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from coordinator.decide.session import Session
from coordinator.drive import preflight
from coordinator.drive.agents import Contacts
from coordinator.drive.context import Progress, RunContext
from coordinator.drive.driver import LEAD_NS, Driver
from coordinator.drive.nodes import Nodes
from coordinator.drive.run_log import reader
from coordinator.drive.run_log.replay import Replay
from coordinator.drive.running_jobs import RunningJobs
from coordinator.host import launch
from coordinator.host.interrupt import Interrupt
from coordinator.host.rundir import RunDirectory
from coordinator.host.runs_home import home, locked_home
from coordinator.owners import changes
from coordinator.view import Job
from coordinator.wire import protocol
from coordinator.workload import Result, Workload


class NotAbandoned(Exception):  # noqa: N818 - a state, not a mistake
    """The driver of a run is alive: there is nothing to take over."""


class Over(Exception):  # noqa: N818 - a state, not a mistake
    """A run is over, or has been released: there is nothing left to take over."""


def runs(refused: Callable[[str], None] = lambda why: None) -> Iterator[tuple[Path, Workload]]:
    """The directory and the workload of every run of this user on this host that may be taken over.

    Only ``resume_workload`` can tell whether its driver has ended. A directory that others could
    have made or changed is not read; ``refused`` is called with the reason.
    """
    if not os.path.lexists(home()):
        return
    with locked_home() as parent:
        found = [RunDirectory(path) for path in sorted(parent.iterdir())]
    for directory in found:
        try:
            directory.check()
            workload = reader.beginning(directory.history).workload
        except FileNotFoundError:  # on a single host, not begun, or just released
            continue
        except OSError as error:
            refused(f"not taken over: {error}")
            continue
        yield directory.path, workload


def resume_workload(path: Path, progress: Progress | None = None) -> Result:
    """Take over the run in the directory ``path``, and return its result.

    Its driver must have been killed less than a lease ago (``Workload.lease_s``). If the
    agents' leases end before our first message, the run fails. Everything else is as for
    ``coordinator.drive.driver.run_workload``; all times count from the start of the run.
    """
    directory = RunDirectory(path)
    taken = directory.take()
    try:
        directory.check()
        begun = reader.beginning(directory.history)
    except FileNotFoundError:
        directory.unlock()
        raise Over(f"run {directory.run} is over, or was released at the end of its lease") from None
    except OSError as error:
        directory.unlock()
        raise Over(f"run {directory.run} cannot be taken over: {error}") from error
    if not taken:
        raise NotAbandoned(f"run {directory.run} has a driver that is alive")
    with Interrupt() as interrupt:
        context = RunContext(
            directory,
            begun.workload,
            begun.means,
            progress or (lambda text: None),
            begun.give_up_ns,
            begun.origin_ns,
        )
        opening = TakeOver(*preflight.session(begun.workload), begun.contacts)
        return Driver(context, opening, interrupt).play()


class TakeOver:
    """Continues the run of another driver."""

    def __init__(self, session: Session, jobs: Sequence[Job], contacts: Contacts) -> None:
        self._session = session
        self._jobs = jobs
        self.contacts: Contacts | None = contacts

    def prepare(self, context: RunContext, jobs: RunningJobs, nodes: Nodes) -> None:
        """Restore the other driver's state from its log, before any message of the agents."""
        context.progress(f"taking over run {context.directory.run}")
        events, size = reader.events(context.directory.history)
        context.log.go_on(size)
        workload = context.workload
        owners = changes(workload.owners, workload.seed, workload.repeat)
        replay = Replay(self._session, self._jobs, LEAD_NS, nodes.node_of, events, owners)
        jobs.parts, context.switches = replay.parts, replay.switches
        jobs.follow(replay.conductor)
        nodes.give_up(replay.lost)
        run = context.directory.run
        launch.Adopted(replay.guardian, run).kill()  # ours replaces it
        for job, pid in replay.launchers.items():
            jobs.watch(job, launch.Adopted(pid, run, context.directory.status(job)))

    def set_off(self, context: RunContext, jobs: RunningJobs, nodes: Nodes) -> bool:
        """Once all agents are connected, repeat messages that may have been lost with the other driver."""
        if not nodes.joined:
            return False
        nodes.send(protocol.Retell())
        for job, part in jobs.parts.items():
            if part.mpiexec is None or part.failure:
                jobs.discard(job)
                if part.launched and not part.failure:
                    jobs.launch(job, part.launched)
        jobs.conductor.repeat()
        return True
