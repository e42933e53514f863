"""A driver in the place of one that was killed: it takes the running jobs over.

The agents go on without a driver for the length of their lease. Within it another one takes the
run's lock, decides again what was decided, from the events that the first has written down,
listens where it has listened, with its keys, and goes on as if it had been silent for a moment.
On a single host there is nothing to take over: the agent is the driver's child, and ends with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from coordinator.decide.session import Session
from coordinator.drive import preflight, run_log
from coordinator.drive.driver import LEAD_NS, Driver, Progress
from coordinator.drive.run_log import Beginning, Replay
from coordinator.host import launch
from coordinator.host.interrupt import Interrupt
from coordinator.host.rundir import RunDirectory, home, locked_home
from coordinator.view import Job
from coordinator.wire import protocol
from coordinator.workload import Result, Workload


class NotAbandoned(Exception):  # noqa: N818 - says what there is instead
    """A run has a driver: there is nothing to take over."""


class Over(Exception):  # noqa: N818 - says what has become of it
    """A run is over, or has been released: there is nothing left to take over."""


def runs(refused: Callable[[str], None] = lambda why: None) -> Iterator[tuple[Path, Workload]]:
    """The directory and the workload of every run of this user here that could be taken over.

    Whether its driver has ended only ``resume_workload`` can tell. What is there and cannot be a
    run of ours is not read; ``refused`` hears why.

    Raises:
        InputError: if the directory of all runs is not ours alone.
    """
    if not os.path.lexists(home()):
        return
    with locked_home() as parent:
        found = [RunDirectory(path) for path in sorted(parent.iterdir())]
    for directory in found:
        try:
            directory.check()
            workload = run_log.beginning(directory.history).workload
        except FileNotFoundError:  # it is on a single host, has not begun, or has just been released
            continue
        except OSError as error:
            refused(f"not taken over: {error}")
            continue
        yield directory.path, workload


def resume_workload(path: Path, progress: Progress | None = None) -> Result:
    """Go on with the run whose directory ``path`` is in the place of its driver.

    That driver has been killed less than a lease ago (``Workload.lease_s``). If the
    agents' leases end before they hear from us, the run fails. The rest is as for
    ``coordinator.drive.driver.run_workload``, and all times count from the beginning of the run.

    Raises:
        NotAbandoned: if its driver is alive.
        Over: if the run is over, or has been released, or just is.
    """
    directory = RunDirectory(path)
    taken = directory.take()
    try:
        directory.check()
        begun = run_log.beginning(directory.history)
    except FileNotFoundError:
        directory.unlock()
        raise Over(f"run {directory.run} is over, or its lease is and it has been released") from None
    except OSError as error:
        directory.unlock()
        raise Over(f"run {directory.run} cannot be taken over: {error}") from error
    if not taken:
        raise NotAbandoned(f"run {directory.run} has a driver, which is alive")
    with Interrupt() as interrupt:
        driver = Follower(directory, begun, interrupt, progress or (lambda text: None))
        return driver.result(driver.play(*preflight.session(begun.workload)))


class Follower(Driver):
    """A driver that takes the place of another one, whose run began like this."""

    def __init__(
        self,
        directory: RunDirectory,
        beginning: Beginning,
        interrupt: Interrupt,
        progress: Progress,
    ) -> None:
        super().__init__(directory, beginning.workload, beginning.means, interrupt, progress)
        self.contacts = beginning.contacts
        self._origin_ns, self._give_up_ns = beginning.origin_ns, beginning.give_up_ns

    def _prepare(self, session: Session, jobs: list[Job]) -> None:
        """Bring everything to where the other driver left it; the agents are yet to be heard."""
        self._progress(f"taking over run {self._directory.run}")
        events, size = run_log.events(self._directory.history)
        self._history.go_on(size)
        replay = Replay(session, jobs, LEAD_NS, self._nodes.node_of, events)
        self._conductor, self._parts, self._switches = replay.conductor, replay.parts, replay.switches
        self._conductor.crew = self
        self._nodes.give_up(replay.lost)
        launch.Adopted(replay.guardian, self._directory.run).kill()  # the run has one of ours
        for job, pid in replay.launchers.items():
            mpiexec = launch.Adopted(pid, self._directory.run, self._directory.status(job))
            self._parts[job].mpiexec = mpiexec
            self._watch_launcher(job, mpiexec)

    def _set_off(self, now_ns: int) -> bool:
        """Exchange with the agents, once all are heard, what may have been lost with the other driver."""
        if not self._nodes.joined:
            return False
        self._nodes.send(protocol.Retell())
        for job, part in self._parts.items():
            if part.mpiexec is None or part.failure:
                self._discard(job)
                if part.placement and not part.failure:
                    self.launch(job, part.placement)
        self._conductor.repeat()
        return True

    @property
    def _over(self) -> bool:
        return self._under_way and self._conductor.over
