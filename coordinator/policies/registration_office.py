"""The registration office: a linked list of jobs and the rule that moves its pointer.

Every node has its level l and the number f of slots that its job has received at
that level. From left to right both are nonincreasing: the jobs with
most service are on the left, newcomers on the right. The pointer visits levels from 0 (new jobs) down and
each level from left to right. A job that has received its f_l slots goes to
level l + 1 with f = 0; it is then the rightmost there, so no node ever moves in the list.
Source: Zhou, Brent, Qu 1997, sections 2, 4 and 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Registration:
    """A registered job. ``received`` is f: slots that it has received at ``level``."""

    job: int
    level: int = 0
    received: int = 0


@dataclass(frozen=True)
class Rules:
    """The rules by which the pointer moves.

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
    """The office with new jobs at the right end, at level 0."""
    return office + tuple(Registration(job) for job in jobs)


def check_out(office: Office, here: Iterable[int]) -> Office:
    """The office with only the jobs that are ``here``."""
    stay = set(here)
    return tuple(node for node in office if node.job in stay)


def visited(office: Office, job: int, rules: Rules) -> Office:
    """The office after ``job`` has received one more slot."""
    return tuple(_served(node, rules) if node.job == job else node for node in office)


def _served(node: Registration, rules: Rules) -> Registration:
    allowed = at(rules.slots, node.level)
    if allowed and node.received + 1 >= allowed:
        return Registration(node.job, node.level + 1, 0)
    return replace(node, received=node.received + 1)


def one_round(office: Office, rules: Rules, taken: Mapping[int, int | None] | None = None) -> tuple[int, ...]:
    """The jobs that the pointer must still visit in a round, in order.

    ``taken`` holds the jobs that the round has visited or will visit, each with its level at that
    time, or None if it does not count. The pointer visits no job twice.
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
