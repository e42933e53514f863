"""Tiers of jobs once more, plain and slow, from second to second, written from docs/policies/queues.md.

It imports nothing of ours. Every tier is first come, first served, without backfilling, and one job of a tier
has a processor.
"""

from dataclasses import dataclass, field


@dataclass(eq=False)
class Submitted:
    """A job: its tier, how many processors it needs, when it comes, and for how long it runs."""

    tier: int
    size: int
    arrival: int
    run: int
    place: set = field(default_factory=set)
    """The processors that it has."""
    claim: set = field(default_factory=set)
    """Those that it will have after a grace."""
    done: int = 0
    leaves: int | None = None
    """When its grace is over."""
    finish: int | None = None


def finishes(jobs, processors, mode, grace):
    """When each job finishes. ``mode`` is "suspend" or "requeue", ``grace`` in seconds."""
    now = 0
    while any(job.finish is None for job in jobs):
        here = [job for job in jobs if job.arrival <= now and job.finish is None]
        _take_places(here, processors, mode, grace, now)
        for job in runs(here):
            job.done += 1
        now += 1
        for job in here:
            if job.done == job.run:
                job.finish = now
                job.place = set()
    return [job.finish for job in jobs]


def runs(here):
    """The jobs all of whose processors are free of jobs of higher tiers."""
    return [
        job
        for job in here
        if job.place and not any(job.place & other.place for other in here if other.tier > job.tier)
    ]


def _take_places(here, processors, mode, grace, now):
    ran = [job for job in here if getattr(job, "ran", False)]
    wanted = set()  # jobs whose processors somebody claims now
    for tier in sorted({job.tier for job in here}, reverse=True):
        ours = [job for job in here if job.tier == tier]
        for job in ours:
            if job.claim:
                _settle(job, here, mode, grace, now, ran, wanted)
        for job in ours:  # in order of arrival, until one finds no room
            if job.place or job.claim:
                continue
            taken = set().union(*(other.place | other.claim for other in here if other.tier >= tier))
            room = [p for p in range(processors) if p not in taken]
            if len(room) < job.size:
                break
            job.claim = _chosen(job, room, here, mode)
            _settle(job, here, mode, grace, now, ran, wanted)
    for job in here:
        if job not in wanted:
            job.leaves = None
        job.ran = job in runs(here)


def _settle(job, here, mode, grace, now, ran, wanted):
    """Let the job have what it claims if the grace of all below it is over."""
    below = [other for other in here if other.tier < job.tier and (other.place | other.claim) & job.claim]
    for other in below:
        other.claim = set()
    below = [other for other in below if other.place]
    for other in below:
        if grace and other in ran:
            wanted.add(other)
            if other.leaves is None:
                other.leaves = now + grace
    if any(other.leaves is not None and other in wanted and other.leaves > now for other in below):
        return
    job.place, job.claim = job.claim, set()
    if mode == "requeue":
        for other in below:
            other.place, other.done = set(), 0


def _chosen(job, room, here, mode):
    """The processors for a job among those that no job of its tier or above has."""
    users = {p: [other for other in here if p in other.place | other.claim] for p in room}
    if mode == "suspend":
        level = {p: max((other.tier for other in users[p]), default=0) for p in room}
        for most in sorted(set(level.values())):
            low = [p for p in room if level[p] <= most]
            if len(low) >= job.size:
                return set(low[: job.size])
    candidates = sorted({o for p in room for o in users[p]}, key=lambda o: (o.tier, here.index(o)))
    out = []
    while sum(set(users[p]) <= set(out) for p in room) < job.size:
        out.append(candidates.pop(0))
    for other in reversed(list(out)):
        rest = [one for one in out if one is not other]
        if sum(set(users[p]) <= set(rest) for p in room) >= job.size:
            out = rest
    return set([p for p in room if set(users[p]) <= set(out)][: job.size])
