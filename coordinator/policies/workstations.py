"""Workstations whose owners come and go: parallel jobs use those that are idle.

Every processor is a workstation, or part of one. ``View.owner_load`` says what its owner does.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, NamedTuple

from coordinator.policies import partitions
from coordinator.policies.registry import Policy, Quantum, register
from coordinator.view import Decision, Job, Reason, Slot, View
from workloads.parameters import Bounds
from workloads.validation import InputError

Load = Annotated[float, Bounds(0, 1000)]
"""How much an owner makes a workstation do."""

ALWAYS_NS = -(2**62)
"""Since when a workstation is quiet whose owner has never been there."""


class _StationState(NamedTuple):
    """Since when each quiet workstation is quiet, and each suspended job suspended."""

    quiet_ns: Mapping[int, int]
    suspended_ns: Mapping[int, int]


class _Changes(NamedTuple):
    """The changes of jobs that have processors: their places, the suspended ones, the ones that vacate."""

    placements: partitions.Placements
    suspended_ns: dict[int, int]
    vacates: tuple[int, ...] = ()
    next_ns: int | None = None
    """When the policy must decide about them again."""


@dataclass(frozen=True)
class _Stations:
    """The workstations at one moment."""

    quiet_ns: Mapping[int, int]
    """Since when each is quiet; those that are missing are not."""
    idle: frozenset[int]
    busy: frozenset[int]
    """Those whose owner makes more load than a job may stay beside."""


@dataclass(frozen=True)
class _OwnedStations(Policy):
    """Jobs get idle workstations in order of arrival; what happens when an owner comes differs."""

    stops_processes = True
    uses_owner_load = True
    _: KW_ONLY
    start_load: Load = 0.3
    stop_load: Load = 0.3
    idle_s: Annotated[float, Bounds(0, 1e7)] = 0.0
    sequential: Annotated[int, Bounds(0, 4096)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stop_load < self.start_load:
            rule = f"is below start_load, {self.start_load:g}: a job would stop as soon as it starts"
            raise InputError("stop_load", self.stop_load, rule, "give the same load, or more")

    @abstractmethod
    def owners(self, view: View, at: _Stations, suspended_ns: Mapping[int, int]) -> _Changes:
        """The changes of the jobs that have processors."""

    def decide(self, view: View, reason: Reason) -> Decision:
        """Let the jobs that have processors give way to owners, then start waiting jobs on idle workstations.

        The policy asks to be called when a suspended job must vacate, and when a workstation that is quiet
        counts as idle while a job waits.
        """
        at = self._look(view)
        before: _StationState | None = view.state
        there = partitions.still_running(view)
        was = before.suspended_ns if before else {}
        changes = self.owners(view, at, {n: since_ns for n, since_ns in was.items() if n in there})
        placements = changes.placements
        self._start(view, at, placements)
        dues_ns = [] if changes.next_ns is None else [changes.next_ns]
        if partitions.waiting(view, placements):
            dues_ns += [since_ns + self._idle_ns for p, since_ns in at.quiet_ns.items() if p not in at.idle]
        return replace(
            self.table(view, placements, changes.suspended_ns),
            placements=placements,
            state=_StationState(at.quiet_ns, changes.suspended_ns),
            timer_ns=max(1, min(dues_ns) - view.now_ns) if dues_ns else None,
            vacates=changes.vacates,
        )

    def table(
        self, view: View, placements: partitions.Placements, suspended_ns: Mapping[int, int]
    ) -> Decision:
        """The slots: by default one, in which all run that are not suspended."""
        running = {n: place for n, place in placements.items() if n not in suspended_ns}
        return partitions.for_good(view, running)

    @property
    def _idle_ns(self) -> int:
        return round(self.idle_s * 1e9)

    def _look(self, view: View) -> _Stations:
        before: _StationState | None = view.state
        quiet_ns = {}
        for p in set(range(view.machine.processors)) - view.lost:
            if view.owner_load.get(p, 0.0) <= self.start_load:
                quiet_ns[p] = before.quiet_ns.get(p, view.now_ns) if before else ALWAYS_NS
        idle = frozenset(p for p, since_ns in quiet_ns.items() if view.now_ns - since_ns >= self._idle_ns)
        busy = frozenset(p for p, load in view.owner_load.items() if load > self.stop_load)
        return _Stations(quiet_ns, idle, busy)

    def _start(self, view: View, at: _Stations, placements: partitions.Placements) -> None:
        """Add places for waiting jobs, in order; a job without one holds up its partition."""
        free = [p for p in partitions.free(view, placements) if p in at.idle]
        for job in partitions.waiting(view, placements):
            if not free:
                break
            pool = self._partition(job, view)
            ours = [p for p in free if p in pool][: job.processes]
            if len(ours) == job.processes:
                placements[job.number] = tuple(ours)
                free = sorted(set(free).difference(ours))
            else:
                free = [p for p in free if p not in pool]

    def _partition(self, job: Job, view: View) -> range:
        """The workstations for jobs of its kind; all if too few of these are not lost."""
        processors = view.machine.processors
        if not self.sequential:
            return range(processors)
        parallel = max(0, processors - self.sequential)
        ours = range(parallel, processors) if job.processes == 1 else range(parallel)
        too_large = job.processes > sum(p not in view.lost for p in ours)
        return range(processors) if too_large else ours


@register("condor")
class Condor(_OwnedStations):
    """Idle workstations only; a job is suspended while an owner is there, and vacates if the owner stays.

    A job that vacates goes on elsewhere from its last checkpoint, or waits for that before all jobs
    that came later. A program without checkpoints starts again.

    Attributes:
        start_load: most load of an owner beside which a workstation is quiet: a job may start, or run again.
        stop_load: most load of an owner beside which a job that runs stays.
        idle_s: how long a workstation must be quiet before a job starts on it.
        sequential: workstations, the last ones, for jobs of one process; other jobs have the others.
        grace_s: how long a job stays suspended before it vacates.
        vacate: whether it vacates at all; else it waits until the owners have gone.
    """

    grace_s: Annotated[float, Bounds(0, 1e7)] = 300.0
    vacate: bool = True
    source = "Litzkow, Livny and Mutka 1988 (Condor); the survey, section Networks of Workstations"

    @property
    def relocates(self) -> bool:
        """Whether jobs that have begun may lose their processors."""
        return self.vacate

    def owners(self, view: View, at: _Stations, suspended_ns: Mapping[int, int]) -> _Changes:
        """Suspend jobs beside busy owners, continue them when all is quiet, vacate after the grace."""
        placements = partitions.still_running(view)
        suspended = {}
        vacates = []
        for number, place in placements.items():
            quiet = all(p in at.quiet_ns for p in place)
            if any(p in at.busy for p in place) or (number in suspended_ns and not quiet):
                suspended[number] = suspended_ns.get(number, view.now_ns)
        for number, since_ns in list(suspended.items()) if self.vacate else ():
            if view.now_ns - since_ns >= self._grace_ns:
                vacates.append(number)
                del placements[number], suspended[number]
        next_ns = min((since_ns + self._grace_ns for since_ns in suspended.values()), default=None)
        return _Changes(placements, suspended, tuple(vacates), next_ns if self.vacate else None)

    @property
    def _grace_ns(self) -> int:
        return round(self.grace_s * 1e9)


@register("idle-partition")
class IdlePartition(_OwnedStations):
    """The workstations that are idle now are the partition of the parallel jobs.

    When an owner comes, the process on that workstation moves to an idle one at once. A job that finds
    none is suspended until there is one.

    Attributes:
        start_load: as under ``condor``.
        stop_load: as under ``condor``.
        idle_s: as under ``condor``.
        sequential: as under ``condor``.
    """

    source = "Arpaci et al. 1995, as in the survey, section Networks of Workstations"

    @property
    def moves(self) -> bool:
        """Processes leave workstations whose owners come."""
        return True

    def owners(self, view: View, at: _Stations, suspended_ns: Mapping[int, int]) -> _Changes:
        """Move the processes beside busy owners, job by job in order of arrival; suspend jobs that cannot."""
        placements = partitions.still_running(view)
        suspended = {}
        for number, place in placements.items():
            if not (leaving := [p for p in place if p in at.busy]):
                continue
            free = [p for p in partitions.free(view, placements) if p in at.idle]
            if len(leaving) <= len(free):
                places = dict(zip(leaving, free, strict=False))
                placements[number] = tuple(places.get(p, p) for p in place)
            else:
                suspended[number] = suspended_ns.get(number, view.now_ns)
        soon_ns = [since_ns + self._idle_ns for p, since_ns in at.quiet_ns.items() if p not in at.idle]
        return _Changes(placements, suspended, next_ns=min(soon_ns, default=None) if suspended else None)


@register("owner-share")
class OwnerShare(_OwnedStations):
    """Parallel jobs stay beside owners for a share of the time, the same time on all their workstations.

    Attributes:
        start_load: as under ``condor``.
        stop_load: most load of an owner beside whom a job has the whole time.
        idle_s: as under ``condor``.
        sequential: as under ``condor``.
        quantum_ms: length of a round of both.
        power: share of a round for a job with an owner on one of its workstations.
    """

    quantum_ms: Quantum = 100.0
    power: Annotated[float, Bounds(0.01, 0.99)] = 0.5
    source = "after Du and Zhang 1996, as in the survey, section Networks of Workstations"

    def owners(self, view: View, at: _Stations, suspended_ns: Mapping[int, int]) -> _Changes:
        """Note the jobs that must leave their owners time."""
        placements = partitions.still_running(view)
        beside = {n: view.now_ns for n, place in placements.items() if not at.busy.isdisjoint(place)}
        return _Changes(placements, beside)

    def table(
        self, view: View, placements: partitions.Placements, suspended_ns: Mapping[int, int]
    ) -> Decision:
        """All run for ``power`` of a round, which goes on after events; then those beside an owner rest."""
        everybody = partitions.runs(placements, view.machine.processors)
        alone = {n: place for n, place in placements.items() if n not in suspended_ns}
        if len(alone) == len(placements):
            return Decision(placements, (Slot(everybody),))
        ours_ns = max(1, round(self.quantum_ms * 1e6 * self.power))
        theirs_ns = max(1, round(self.quantum_ms * 1e6) - ours_ns)
        slots = (Slot(everybody, ours_ns), Slot(partitions.runs(alone, view.machine.processors), theirs_ns))
        before = view.previous
        if before is None or len(before.slots) == 1:
            return Decision(placements, slots)
        resting = before.placements.keys() - before.running(view.slot)
        order = slots[::-1] if resting else slots
        length_ns = order[0].length_ns or 1
        return Decision(placements, order, elapsed_ns=min(view.elapsed_ns, length_ns - 1))
