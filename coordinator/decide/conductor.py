"""Feeds the events of a run to its session, and passes the decisions on.

The conductor owns no clock, process or socket. The driver passes it the time and the events; a script
can do the same, so a test can compare the driver's decisions with the simulator's. Times are
nanoseconds since the start of the run.

It notes what it hears, and decides when it is told to advance: all that has been heard by then is one
instant, and the policy answers it once.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Protocol

from coordinator.decide.session import Agenda, Plan, Session
from coordinator.owners import OwnerChange
from coordinator.policies.registry import blamed
from coordinator.policies.sharing import folded
from coordinator.view import Job, Placement, Reason


class JobSet(Protocol):
    """Carries decisions out."""

    def launch(self, job: int, placement: Placement) -> None:
        """Start the job's processes, which then wait at their first line.

        Rank r goes to the node of processor ``placement[r]``. If the job was launched before, this ends
        those processes. A moldable job may get more processes than it starts with; the others never begin.
        """

    def publish(self, plan: Plan, from_ns: int) -> None:
        """Put this plan into force at ``from_ns``, which may lie a little ahead."""

    def begin(self, job: int, at_ns: int, placement: Placement) -> None:
        """Let the job begin at ``at_ns``, rank r of those that take part on processor ``placement[r]``."""

    def resize(self, job: int, placement: Placement) -> None:
        """Let the malleable job continue on other processors."""

    def move(self, job: int, placement: Placement) -> None:
        """Let each process of the job, which runs, continue on its new processor."""

    def vacate(self, job: int) -> None:
        """Terminate the job's processes; it is launched again when it has processors."""


AHEAD = 64
"""While so many launched jobs wait for their begin, no further one is launched ahead of time."""


class Stage(Enum):
    """The stages of a job, in order."""

    ABSENT = 0
    LAUNCHED = 1
    READY = 2
    BEGUN = 3
    OVER = 4


class Conductor:
    """Plays one workload.

    Args:
        session: a new session over ``jobs``.
        jobs: the workload.
        job_set: carries the decisions out.
        lead_ns: how long before a foreseeable event (arrival, end of a table) the conductor decides
            about it, so that the agents know in time.
        node_of: the node of each processor; by default one node has all.
        owners: the changes of the owners' loads, in order of time.
        ahead: how many launched jobs may wait for their begin before the next one is launched ahead of time.

    Attributes:
        placements: the last placement of each job.
        admitted_ns: when each job first had processors and a slot on them.
    """

    def __init__(
        self,
        session: Session,
        jobs: Iterable[Job],
        job_set: JobSet,
        lead_ns: int = 0,
        node_of: Sequence[int] | None = None,
        owners: Iterable[OwnerChange] = (),
        ahead: int = AHEAD,
    ) -> None:
        self._jobs = {job.number: job for job in jobs}
        self._node_of = node_of or [0] * session.machine.processors
        self._launched: dict[int, Placement] = {}
        self._session = session
        self._job_set = job_set
        self._lead_ns = lead_ns
        self._agenda = Agenda(session, owners)
        self._stages = dict.fromkeys(self._jobs, Stage.ABSENT)
        self._counts = Counter(self._stages.values())
        self._ahead = ahead
        self._next = deque[int]()  # the jobs to launch ahead of time, in order of arrival
        self._foreseen: dict[int, Placement] = {}
        self._lost = set[int]()
        self._arrived: set[int] = set()
        self._last_ns = 0
        self.placements: dict[int, Placement] = {}
        self.admitted_ns: dict[int, int] = {}

    @property
    def over(self) -> bool:
        return self._counts[Stage.OVER] == len(self._stages)

    @property
    def prepared(self) -> bool:
        return not self._counts[Stage.LAUNCHED]

    def is_over(self, job: int) -> bool:
        return self._stages[job] is Stage.OVER

    def arrival_ns(self, job: int) -> int:
        return self._session.arrival_ns(job)

    def prepare(self, begin_ns: int = 0) -> None:
        """Launch the first jobs ahead of time, and all that the first decision would place.

        The next ones follow as others begin (``launch_next``). Nothing is decided before ``begin_ns``: jobs
        that arrive earlier have waited since then when the run begins.
        """
        self._last_ns = begin_ns
        jobs = sorted(self._jobs.values(), key=lambda job: (job.arrival_ns, job.number))
        self._foreseen = self._session.foresee() if len(set(self._node_of)) > 1 else {}
        self._next.extend(job.number for job in jobs)
        if self.crowded:
            for number in sorted(self._session.foresee(until_ns=max(begin_ns, jobs[0].arrival_ns))):
                self._launch_ahead(number)
        while self.lags:
            self.launch_next()

    @property
    def crowded(self) -> bool:
        """Whether there are more jobs than may wait, so that those that are over make room for others."""
        return len(self._jobs) > self._ahead

    @property
    def lags(self) -> bool:
        """Whether ``launch_next`` has something to do: few launched jobs wait, and others are to come."""
        waiting = self._counts[Stage.LAUNCHED] + self._counts[Stage.READY]
        return bool(self._next) and waiting < self._ahead

    def launch_next(self) -> None:
        """Launch the next job ahead of time, unless it has been launched for a decision, or is over."""
        number = self._next.popleft()
        if self._stages[number] is Stage.ABSENT and number not in self._launched:
            self._launch_ahead(number)

    def _launch_ahead(self, number: int) -> None:
        """Launch a job whose number of processes is known or variable, before it has a place.

        A process cannot move between nodes. So a job of known size is launched where the policy would
        place it if no job left before its arrival; if the decision differs, it is launched again. A
        malleable job, or a moldable job of unknown size, gets as many processes on each node as it can
        use, so that every placement finds some. A job whose foreseen place is lost waits for its decision.
        """
        job, processes = self._jobs[number], self._session.processes(number)
        places = folded(processes or 0, range(len(self._node_of)))
        if processes is not None:
            places = self._foreseen.get(number, places)
        if job.malleable or (job.moldable and processes is None):
            places = max(places, self._room(job), key=len)
        if places and self._lost.isdisjoint(places):
            self._launch(number, places)

    def _room(self, job: Job) -> Placement:
        here: dict[int, list[int]] = {}
        for processor, node in enumerate(self._node_of):
            if processor not in self._lost:
                here.setdefault(node, []).append(processor)
        return tuple(
            processor for processors in here.values() for processor in processors[: job.max_processes]
        )

    def _enter(self, job: int, stage: Stage) -> None:
        self._counts[self._stages[job]] -= 1
        self._counts[stage] += 1
        self._stages[job] = stage

    def ready(self, job: int, now_ns: int) -> None:
        """Note that all processes of the job wait at their first line."""
        if self._stages[job] is Stage.LAUNCHED:
            self._enter(job, Stage.READY)
            if self._session.reason is None:  # else the next decision may give it another place
                self._begin_placed(max(now_ns, self._last_ns))

    def evolve(self, job: int, processes: int) -> None:
        """Note that the job, which runs, can use so many processes from now on."""
        if self._stages[job] is Stage.BEGUN:
            self._session.evolve(job, min(max(1, processes), self._jobs[job].processes))

    def observe(self, job: int, rank: int, peers: Iterable[int]) -> None:
        """Note that a rank of the job, which runs, gets messages often from ``peers`` and no others."""
        ranks = range(self._jobs[job].processes)
        if self._stages[job] is Stage.BEGUN and rank in ranks:
            self._session.observe(job, rank, [peer for peer in peers if peer in ranks])

    def leave(self, *jobs: int) -> None:
        """Note that jobs are over."""
        for job in jobs:
            if self._stages[job] is Stage.OVER:
                continue
            self._enter(job, Stage.OVER)
            if job in self._arrived:
                self._session.depart(job)
            else:
                self._agenda.withdraw(job)

    def lose(self, processors: Sequence[int], failed: Iterable[int] = ()) -> None:
        """Note that processors are lost, and with them the jobs in ``failed``, which had begun there.

        Jobs that were launched there but have not begun are launched again when they get another place.
        """
        self._session.lose(processors)
        self._lost.update(processors)
        for job, placement in self._launched.items():
            if self._stages[job] in (Stage.LAUNCHED, Stage.READY) and set(placement) & set(processors):
                self._enter(job, Stage.ABSENT)
        self.leave(*failed)

    def due_ns(self) -> int | None:
        """When ``advance`` must be called next, at once if it has heard something; None if never."""
        if self._session.reason is not None:
            return self._last_ns - self._lead_ns
        due_ns = self._agenda.due_ns()
        return None if due_ns is None else due_ns - self._lead_ns

    def advance(self, now_ns: int) -> None:
        """Decide about all that it has heard, then about all that is foreseeable up to now plus the lead."""
        if self._session.reason is not None:
            self._decide(now_ns)
        while (due_ns := self._agenda.due_ns()) is not None and due_ns - self._lead_ns <= now_ns:
            self._decide(due_ns)

    def _decide(self, at_ns: int) -> None:
        """Decide once about all that has happened by ``at_ns``, but not before the last decision."""
        self._last_ns = max(at_ns, self._last_ns)
        self._arrived.update(self._agenda.happen(self._last_ns))
        reason = self._session.reason
        if reason is None:  # a job would have arrived that has failed before
            return
        plan = self._session.decide(self._last_ns)
        self._carry_out(plan)
        end_ns = plan.cycle.end_ns
        if reason is Reason.SLOT_END and end_ns is not None and end_ns <= self._last_ns:
            with blamed(type(self._session.policy), "decide"):
                raise ValueError("answers the end of a table with one that is over as well")

    def _carry_out(self, plan: Plan) -> None:
        for number in plan.decision.vacates:
            if self._stages[number] is not Stage.OVER:
                self._enter(number, Stage.ABSENT)
                self._job_set.vacate(number)
        for number, placement in plan.decision.placements.items():
            changed = placement != self.placements.get(number)
            if changed and self._stages[number] is Stage.BEGUN:
                follow = self._job_set.resize if self._jobs[number].malleable else self._job_set.move
                follow(number, placement)
        self.placements.update(plan.decision.placements)
        self._job_set.publish(plan, self._last_ns)
        self._begin_placed(self._last_ns)

    def _begin_placed(self, at_ns: int) -> None:
        """Launch the jobs that have a place; begin them once they also have a slot."""
        plan = self._session.plan
        if plan is None:
            return
        decision = plan.decision
        scheduled = {job for slot in range(len(decision.slots)) for job in decision.running(slot)}
        for job, placement in decision.placements.items():
            if job in scheduled:
                self.admitted_ns.setdefault(job, at_ns)
            displaced = self._stages[job] is Stage.READY and not self._seated(job, placement)
            if self._stages[job] is Stage.ABSENT or (displaced and job in scheduled):
                self._launch(job, placement)
            elif self._stages[job] is Stage.READY and job in scheduled:
                self._enter(job, Stage.BEGUN)
                self._job_set.begin(job, at_ns, placement)

    def _seated(self, number: int, placement: Placement) -> bool:
        """Whether a job's launched ranks fit the placement; a rigid job needs all, in their order."""
        job = self._jobs[number]
        launched = self._launched[number]
        ranks = active_ranks(launched, placement, self._node_of)
        return ranks is not None and (job.moldable or job.malleable or ranks == tuple(range(len(launched))))

    def _launch(self, job: int, placement: Placement) -> None:
        self._enter(job, Stage.LAUNCHED)
        self._launched[job] = placement
        self._job_set.launch(job, placement)


def active_ranks(
    launched: Sequence[int], placement: Sequence[int], node_of: Sequence[int]
) -> tuple[int, ...] | None:
    """The rank for each place: the first unused one launched on its node; None if a node has too few.

    ``launched[r]`` is a processor of the node on which rank r was launched, ``node_of`` the node of each.
    """
    waiting: dict[int, deque[int]] = {node_of[processor]: deque() for processor in (*launched, *placement)}
    for rank, processor in enumerate(launched):
        waiting[node_of[processor]].append(rank)
    unused = (waiting[node_of[processor]] for processor in placement)
    active = [ranks.popleft() if ranks else None for ranks in unused]
    seats = tuple(rank for rank in active if rank is not None)
    return seats if len(seats) == len(active) else None
