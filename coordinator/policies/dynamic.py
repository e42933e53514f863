"""Equal parts of the processors for malleable jobs, by their sizes or present phases, and process control."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from coordinator.policies import allocation, partitions
from coordinator.policies.registry import Policy, register
from coordinator.policies.sharing import shared
from coordinator.view import Decision, Job, Placement, Reason, Slot, View


@register("dyn-equi")
class DynamicEquipartition(Policy):
    """Dynamic equipartition: every arrival and departure divides the processors again, in equal parts.

    Only malleable jobs gain and lose processors while they run; others keep theirs.
    """

    source = "Tucker and Gupta 1989; Anastasiadis and Sevcik 1997, section 3.1"

    def processes(self, job: Job, view: View) -> int | None:
        """The size of a rigid job; None for others, whose size is known only when they start."""
        return job.processes if job.min_processes == job.processes else None

    def decide(self, view: View, reason: Reason) -> Decision:
        """Equal parts for all jobs, the larger ones to earlier arrivals.

        Jobs start in order of arrival as long as each can have a processor (a rigid job: as many as it
        requests). A malleable job keeps as many of its processors as possible, and always at least one. If
        all are lost, it waits in its turn for others.
        """
        before = _left(view)
        kept = [job.number for job in view.jobs if job.number in before and not job.malleable]
        placements = {number: before[number] for number in kept}
        free = partitions.free(view, placements)
        jobs = _admitted(view, before, len(free))
        flexible = [job for job in jobs if job.min_processes < job.processes]
        parts = [0] * len(flexible)
        left = len(free) - sum(job.processes for job in jobs if job.min_processes == job.processes)
        allocation.share(left, len(flexible), [job.max_processes for job in flexible], parts)
        sizes = {job.number: part for job, part in zip(flexible, parts, strict=True)}
        for job in jobs:
            size = sizes.setdefault(job.number, job.processes)
            placements[job.number] = tuple(p for p in before.get(job.number, ()) if p in free)[:size]
        spare = partitions.free(view, placements)
        for number, size in sizes.items():
            more = size - len(placements[number])
            placements[number] += tuple(spare[:more])
            spare = spare[more:]
        return partitions.for_good(view, placements)


def _left(view: View) -> partitions.Placements:
    """What jobs still have of their placements; rigid jobs keep those with lost processors whole."""
    placements = partitions.still_running(view)
    for job in view.jobs:
        if job.malleable and job.number in placements:
            placements[job.number] = tuple(p for p in placements[job.number] if p not in view.lost)
    return {number: place for number, place in placements.items() if place}


def _admitted(view: View, before: partitions.Placements, free: int) -> list[Job]:
    """The malleable jobs that have begun, and those that start now, in order of arrival."""
    room = free - sum(job.malleable and job.number in before for job in view.jobs)
    jobs = []
    nobody_overtakes = False
    for job in view.jobs:
        if job.number in before:
            jobs += [job] if job.malleable else []
        elif not nobody_overtakes:
            nobody_overtakes = job.min_processes > room
            if not nobody_overtakes:
                room -= job.min_processes
                jobs.append(job)
    return jobs


@register("dynamic")
class DynamicAllocation(DynamicEquipartition):
    """As dyn-equi, also when a program's parallelism changes: equal shares of what each job can use now.

    Of the processors that do not divide, jobs get one more that have had least service so far.
    """

    source = "after McCann, Vaswani, Zahorjan 1993; the survey, section Space-Sharing Policies"
    reacts_to_phases = True
    uses_attained_service = True

    def decide(self, view: View, reason: Reason) -> Decision:
        """Equal shares of the processors, as far as jobs can use them in their present phases."""
        jobs = sorted(map(_now, view.jobs), key=lambda job: view.attained_ns.get(job.number, 0))
        return super().decide(replace(view, jobs=tuple(jobs)), reason)


def _now(job: Job) -> Job:
    """The job as if it asked for what it can use now."""
    if job.usable is None or not job.malleable:
        return job
    return replace(job, processes=min(job.processes, job.usable))


@register("process-control")
class ProcessControl(Policy):
    """Equal shares of the processors; a job with more processes suspends the others between its tasks.

    Jobs that cannot suspend processes share their processors under the local scheduler.
    """

    source = "Tucker and Gupta 1989; the survey, section Space-Sharing Policies"
    allows_oversubscription = True

    def decide(self, view: View, reason: Reason) -> Decision:
        """Divide the processors again among all jobs, the larger shares to earlier arrivals; no job waits.

        The processes of jobs that cannot suspend any count as given; the others share what they leave, and
        have one process at least. Processes stay where they are unless others are better off.
        """
        there = [p for p in range(view.machine.processors) if p not in view.lost] or [0]
        alive = frozenset(there)
        before = partitions.still_running(view)
        placements: partitions.Placements = {}
        load = Counter(dict.fromkeys(there, 0))
        for job in view.jobs:
            if not job.malleable:
                place = before.get(job.number) or _spread(job.processes, load)
                placements[job.number] = place
                load.update(place)
        able = [job for job in view.jobs if job.malleable]
        shares = _shares(len(there) - load.total(), able)
        # As many processes on a processor as there must be somewhere.
        most = -(-(load.total() + sum(shares.values())) // len(there))
        for job in able:
            stay = [p for p in before.get(job.number, ()) if p in alive and load[p] < most]
            placements[job.number] = tuple(stay[: shares[job.number]])
            load.update(placements[job.number])
        for job in able:
            more = shares[job.number] - len(placements[job.number])
            new = _spread(more, load, placements[job.number])
            placements[job.number] += new
            load.update(new)
        ordered = {job.number: placements[job.number] for job in view.jobs}
        return Decision(ordered, (Slot(shared(ordered, view)),))


def _shares(processors: int, jobs: list[Job]) -> dict[int, int]:
    """Equal shares, one processor at least."""
    parts = [0] * len(jobs)
    allocation.share(max(0, processors), len(jobs), [job.max_processes for job in jobs], parts)
    return {job.number: max(1, part) for job, part in zip(jobs, parts, strict=True)}


def _spread(processes: int, load: Counter[int], without: Iterable[int] = ()) -> Placement:
    """Processors for that many processes, the least loaded ones, ``without`` some; each once, then again."""
    if not processes:
        return ()
    order = sorted(set(load) - set(without), key=lambda p: (load[p], p))
    return tuple(order[n % len(order)] for n in range(processes))
