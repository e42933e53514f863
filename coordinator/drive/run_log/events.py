"""The lines of a run's log: its beginning, and the events that its driver decides by."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.decide.conductor import Conductor
from coordinator.drive.agents import Contacts
from coordinator.drive.preflight import Means
from coordinator.policies import Policy, known
from coordinator.wire.line_format import LineFormat, by_name
from coordinator.workload import Switch, Workload

VERSION = 1
"""Of the file."""


@dataclass(frozen=True)
class Beginning:
    """How a run began: the workload, its means, the agents, the start, and when to give up."""

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
    """A job's launcher has been started."""

    job: int
    pid: int


@dataclass(frozen=True)
class Ready:
    """All processes of a job wait at their first line."""

    job: int
    at_ns: int


@dataclass(frozen=True)
class Left:
    """A job has finished or failed; its ranks have handed in ``records``."""

    job: int
    at_ns: int
    failure: str
    records: Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Lost:
    """A node is lost, with its processors and the jobs that had begun there; others are displaced."""

    node: int
    processors: tuple[int, ...]
    why: str
    at_ns: int
    failed: tuple[int, ...]
    displaced: tuple[int, ...]


@dataclass(frozen=True)
class Advanced:
    """Time has passed, and something foreseeable was due."""

    at_ns: int


@dataclass(frozen=True)
class Switched:
    """Agents have reported changes of slot."""

    switches: tuple[Switch, ...]


Event = Guarded | Launched | Ready | Left | Lost | Advanced | Switched

BEGINNING = LineFormat(by_name(Beginning), VERSION, kinds={Policy: known().values()})
EVENT = LineFormat(by_name(*typing.get_args(Event)), VERSION)


def tell(conductor: Conductor, event: Event) -> None:
    """Pass an event on to the conductor, if it concerns decisions."""
    match event:
        case Ready(job, at_ns):
            conductor.ready(job, at_ns)
        case Left(job, at_ns):
            conductor.leave(job, at_ns)
        case Lost(_, processors, _, at_ns, failed):
            conductor.lose(processors, at_ns, failed)
        case Advanced(at_ns):
            conductor.advance(at_ns)
