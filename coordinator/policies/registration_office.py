"""The registration office: a linked list of jobs and the rule that moves its pointer.

Every node carries its level l and the slots f that its job has received since it came to
that level. From left to right both are in nonincreasing order: on the left the jobs with
most service, newcomers on the right. The pointer visits levels from 0 (new jobs) down and
each level from left to right; a job that has had its f_l slots begins again, with f = 0, at
level l + 1, where it then is the rightmost: nothing ever moves in the list.
Source: Zhou, Brent, Qu 1997, sections 2, 4 and 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Registration:
    """A registered job. ``received`` is f: slots received since it came to ``level``."""

    job: int
    level: int = 0
    received: int = 0


@dataclass(frozen=True)
class Rules:
    """How the pointer moves.

    Attributes:
        service: jobs that a round serves (N), 0 for all.
        slots: slots at each level (f_l), 0 for any number; the last one also holds for all
            levels below it.
        limits: most jobs of each level in a round, 0 for any number; the last one also
            holds for all levels below it (the adaptive service queue).
    """

    service: int
    slots: tuple[int, ...]
    limits: tuple[int, ...] = (0,)


Office = tuple[Registration, ...]


def at(values: tuple[int, ...], level: int) -> int:
    """The value for ``level``; the last one holds for all further levels."""
    return values[min(level, len(values) - 1)]


def register(office: Office, jobs: Iterable[int]) -> Office:
    """New jobs come to the right end, at level 0."""
    return office + tuple(Registration(job) for job in jobs)


def check_out(office: Office, here: Iterable[int]) -> Office:
    """Only the jobs that are ``here`` stay."""
    stay = set(here)
    return tuple(node for node in office if node.job in stay)


def visited(office: Office, job: int, rules: Rules) -> Office:
    """``job`` has received one slot more."""
    return tuple(_served(node, rules) if node.job == job else node for node in office)


def _served(node: Registration, rules: Rules) -> Registration:
    allowed = at(rules.slots, node.level)
    if allowed and node.received + 1 >= allowed:
        return Registration(node.job, node.level + 1, 0)
    return replace(node, received=node.received + 1)


def one_round(office: Office, rules: Rules, taken: Mapping[int, int | None] | None = None) -> tuple[int, ...]:
    """The jobs that the pointer has still to visit in a round, in this order.

    ``taken`` are the jobs that the round has visited or is about to, each with the level at
    which it was then, or None if it does not count; nobody is visited twice.
    """
    levels = [level for level in (taken or {}).values() if level is not None]
    counts = Counter(levels)
    served: list[int] = []
    for node in sorted(office, key=lambda node: node.level):  # stable: left to right
        limit = at(rules.limits, node.level)
        full = rules.service and len(levels) + len(served) >= rules.service
        if full or (limit and counts[node.level] >= limit) or node.job in (taken or {}):
            continue
        served.append(node.job)
        counts[node.level] += 1
    return tuple(served)
