"""The lines of a run's log: its beginning, and the events that lead to decisions."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.decide.conductor import Conductor
from coordinator.drive.agents import Contacts
from coordinator.drive.preflight import Means
from coordinator.host.launchers import LAUNCHERS, Launcher
from coordinator.policies import Policy, known
from coordinator.wire.line_format import LineFormat, by_name
from coordinator.workload import KINDS, Switch, Workload
from workloads.work import Work

VERSION = 1
"""Version of the file's format."""


@dataclass(frozen=True)
class Beginning:
    """The beginning of a run: workload, means, contacts of the agents, start, and deadline."""

    workload: Workload
    means: Means
    contacts: Contacts
    origin_ns: int
    give_up_ns: int


@dataclass(frozen=True)
class Guarded:
    """The driver has a guardian."""

    pid: int


@dataclass(frozen=True)
class Launched:
    """A job's launcher has started."""

    job: int
    pid: int


@dataclass(frozen=True)
class Ready:
    """All processes of a job wait at their first line."""

    job: int
    at_ns: int


@dataclass(frozen=True)
class Evolved:
    """A job can use so many processes from now on."""

    job: int
    processes: int
    at_ns: int


@dataclass(frozen=True)
class Observed:
    """A rank of a job gets messages often from ``peers``, and from no other rank."""

    job: int
    rank: int
    peers: tuple[int, ...]
    at_ns: int


@dataclass(frozen=True)
class Left:
    """A job has finished or failed; ``records`` are the records of its ranks."""

    job: int
    at_ns: int
    failure: str
    records: Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Lost:
    """A node is lost, with its processors: jobs that had begun there fail, others are displaced."""

    node: int
    processors: tuple[int, ...]
    why: str
    at_ns: int
    failed: tuple[int, ...]
    displaced: tuple[int, ...]


@dataclass(frozen=True)
class Advanced:
    """Time has passed, and the conductor made the decisions that were due."""

    at_ns: int


@dataclass(frozen=True)
class Switched:
    """An agent has reported slot switches."""

    switches: tuple[Switch, ...]


Event = Guarded | Launched | Ready | Evolved | Observed | Left | Lost | Advanced | Switched

BEGINNING = LineFormat(
    by_name(Beginning), VERSION, kinds={Policy: known().values(), Work: KINDS, Launcher: LAUNCHERS.values()}
)
EVENT = LineFormat(by_name(*typing.get_args(Event)), VERSION)


def tell(conductor: Conductor, event: Event) -> None:
    """Apply an event to the conductor; events that affect no decision are ignored."""
    match event:
        case Ready(job, at_ns):
            conductor.ready(job, at_ns)
        case Evolved(job, processes, at_ns):
            conductor.evolve(job, processes, at_ns)
        case Observed(job, rank, peers, at_ns):
            conductor.observe(job, rank, peers, at_ns)
        case Left(job, at_ns):
            conductor.leave(job, at_ns)
        case Lost(_, processors, _, at_ns, failed):
            conductor.lose(processors, at_ns, failed)
        case Advanced(at_ns):
            conductor.advance(at_ns)
