"""The takeover of a run whose driver was killed.

Within the lease of the agents, another driver takes the run's lock, repeats all decisions from the events
that the first driver has written down, binds the same endpoints with the same keys, and continues. On a
single host there is nothing to take over: the agent is the driver's child, and ends with it.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from coordinator.decide.conductor import Conductor, active_ranks
from coordinator.decide.session import Plan, Session
from coordinator.drive import preflight, run_log
from coordinator.drive.driver import Driver, NewRun, lead_ns
from coordinator.drive.nodes import Contacts, Nodes
from coordinator.drive.outcome import JobState
from coordinator.drive.run_log import (
    Event,
    Guarded,
    Launched,
    Left,
    Lost,
    Progress,
    Ready,
    RunContext,
    Switched,
    tell,
)
from coordinator.drive.running_jobs import RunningJobs
from coordinator.host import launch
from coordinator.host.directories import home, locked_home
from coordinator.host.interrupt import Interrupt
from coordinator.host.rundir import RunDirectory
from coordinator.owners import OwnerChange, changes
from coordinator.view import Job
from coordinator.wire import protocol
from coordinator.workload import Result, Switch, Workload


class NotAbandoned(Exception):  # noqa: N818 - a state, not a mistake
    """The driver of a run is alive: there is nothing to take over."""


class Over(Exception):  # noqa: N818 - a state, not a mistake
    """A run is over, or has been released: there is nothing left to take over."""


def runs(refused: Callable[[str], None] = lambda why: None) -> Iterator[tuple[Path, Workload]]:
    """The directory and workload of every run of this user here that may be taken over.

    Only ``resume_workload`` can tell whether its driver has ended. A directory that others could have made or
    changed is not read; ``refused`` is called with the reason.
    """
    if not os.path.lexists(home()):
        return
    with locked_home() as parent:
        found = [RunDirectory(path) for path in sorted(parent.iterdir())]
    for directory in found:
        try:
            directory.check()
            workload = run_log.beginning(directory.history).workload
        except FileNotFoundError:  # on a single host, not begun, or just released
            continue
        except OSError as error:
            refused(f"not taken over: {error}")
            continue
        yield directory.path, workload


def resume_workload(path: Path, progress: Progress | None = None) -> Result:
    """Take over the run in the directory ``path``, and return its result, as ``run_workload`` does.

    Its driver must have been killed less than a lease ago (``Workload.lease_s``). If the agents' leases end
    before our first message, the run fails. All times count from the start of the run.
    """
    directory = RunDirectory(path)
    taken = directory.take()
    try:
        directory.check()
        begun = run_log.beginning(directory.history)
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
            begun.launch_plan,
            progress or (lambda text: None),
            begun.give_up_ns,
            begun.origin_ns,
        )
        run_start = ResumedRun(*preflight.session(begun.workload), begun.contacts)
        return Driver(context, run_start, interrupt).play()


class ResumedRun(NewRun):
    """Continues the run of another driver."""

    def __init__(self, session: Session, jobs: Sequence[Job], contacts: Contacts) -> None:
        super().__init__(session, jobs)
        self.contacts = contacts

    def prepare(self, context: RunContext, jobs: RunningJobs, nodes: Nodes) -> None:
        """Restore the other driver's state from its log, before any message of the agents."""
        context.progress(f"taking over run {context.directory.run}")
        events, size = run_log.events(context.directory.history)
        context.log.go_on(size)
        workload = context.workload
        owners = changes(workload.owners, workload.seed, workload.repeat)
        replay = Replay(self._session, self._jobs, lead_ns(workload), nodes.node_of, events, owners)
        jobs.states, context.switches = replay.states, replay.switches
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
        for job, state in jobs.states.items():
            if state.mpiexec is None or state.failure:
                jobs.discard(job)
                if state.launched and not state.failure:
                    jobs.launch(job, state.launched)
        jobs.conductor.repeat()
        return True


class Replay:
    """The last state of a driver; a replay touches no process.

    The conductor, after that driver's decisions, needs another crew. ``states`` has the state of each job
    without its launcher, ``launchers`` the pids of the launchers of launched jobs, ``guardian`` the pid of
    that driver's guardian, ``lost`` the reasons for the loss of nodes, ``switches`` the reports so far.
    """

    def __init__(
        self,
        session: Session,
        jobs: Sequence[Job],
        lead_ns: int,
        node_of: Sequence[int],
        events: Iterable[Event],
        owners: Iterable[OwnerChange] = (),
    ) -> None:
        self.states = {job.number: JobState() for job in jobs}
        self.guardian = 0
        self.launchers: dict[int, int] = {}
        self.lost: dict[int, str] = {}
        self.switches: list[Switch] = []
        self._node_of = node_of
        self.conductor = Conductor(session, jobs, self, lead_ns, node_of, owners)
        self.conductor.prepare()
        for event in events:
            self._take_in(event)
            tell(self.conductor, event)

    def _take_in(self, event: Event) -> None:
        match event:
            case Guarded(pid):
                self.guardian = pid
            case Launched(job, pid):
                self.launchers[job] = pid
            case Ready(job):
                self.states[job].ready = set(range(len(self.states[job].launched)))
            case Left(job, failure, records):
                self.states[job].failure, self.states[job].records = failure, dict(records)
            case Lost(node, _, why, failed, displaced):
                self.lost[node] = why
                for job in failed:
                    self.states[job].failure = why
                for job in displaced:
                    self._forget(job)
            case Switched(switches):
                self.switches += switches

    def _forget(self, job: int) -> None:
        self.states[job] = JobState()
        self.launchers.pop(job, None)

    # As the conductor's crew.

    def launch(self, job: int, placement: tuple[int, ...]) -> None:
        """Note the placement: the other driver launched the job, or was about to."""
        self._forget(job)
        self.states[job].launched = placement

    def publish(self, plan: Plan, from_ns: int) -> None:
        """Nothing: the agents know the plan, or will get it again."""

    def begin(self, job: int, at_ns: int, placement: tuple[int, ...]) -> None:
        self.states[job].ranks = active_ranks(self.states[job].launched, placement, self._node_of) or ()

    def resize(self, job: int, placement: tuple[int, ...]) -> None:
        """Nothing: there are no malleable jobs on several nodes."""

    def move(self, job: int, placement: tuple[int, ...]) -> None:
        """Nothing: no running job moves on several nodes."""

    def vacate(self, job: int) -> None:
        """Note that the job has no processes any more."""
        self._forget(job)
        self.states[job].vacated = True
