"""Restores the last state of a driver from the events of its log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coordinator.decide.conductor import Conductor
from coordinator.decide.seats import seats
from coordinator.decide.session import Plan, Session
from coordinator.drive.outcome import Part
from coordinator.drive.run_log.events import Event, Guarded, Launched, Left, Lost, Ready, Switched, tell
from coordinator.owners import OwnerChange
from coordinator.view import Job
from coordinator.workload import Switch


class Replay:
    """The last state of a driver; a replay touches no process.

    Attributes:
        conductor: after that driver's decisions; it needs another crew.
        parts: the state of each job, without its launcher.
        guardian: pid of that driver's guardian.
        launchers: pids of the launchers of launched jobs, by job.
        lost: reasons for the loss of nodes, by node.
        switches: slot switches reported so far.
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
        self.parts = {job.number: Part() for job in jobs}
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
                self.parts[job].ready = set(range(len(self.parts[job].launched)))
            case Left(job, _, failure, records):
                self.parts[job].failure, self.parts[job].records = failure, dict(records)
            case Lost(node, _, why, _, failed, displaced):
                self.lost[node] = why
                for job in failed:
                    self.parts[job].failure = why
                for job in displaced:
                    self._forget(job)
            case Switched(switches):
                self.switches += switches

    def _forget(self, job: int) -> None:
        self.parts[job] = Part()
        self.launchers.pop(job, None)

    # As the conductor's crew.

    def launch(self, job: int, placement: tuple[int, ...]) -> None:
        """Note the placement: the other driver launched the job, or was about to."""
        self._forget(job)
        self.parts[job].launched = placement

    def publish(self, plan: Plan, from_ns: int) -> None:
        """Nothing: the agents know the plan, or will get it again."""

    def begin(self, job: int, at_ns: int, placement: tuple[int, ...]) -> None:
        self.parts[job].ranks = seats(self.parts[job].launched, placement, self._node_of) or ()

    def resize(self, job: int, placement: tuple[int, ...]) -> None:
        """Nothing: there are no malleable jobs on several nodes."""

    def move(self, job: int, placement: tuple[int, ...]) -> None:
        """Nothing: no running job moves on several nodes."""

    def vacate(self, job: int) -> None:
        """Note that the job has no processes any more."""
        self._forget(job)
        self.parts[job].vacated = True
