"""One node as the driver sees it."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from coordinator.host.launch import Started
from coordinator.wire import protocol
from coordinator.wire.zmq_transport import Keys
from coordinator.workload import NodeResult

JOIN_NS = 30_000_000_000
"""How long a node may take to join."""


@dataclass
class NodeState:
    """A node, its agent, and their messages; its processors are ``first`` and those that follow.

    Attributes:
        starter: the agent itself on this host, elsewhere the launcher that has started it.
        join, beat: its first message, and its last sign of life.
        heard_ns: when it was heard last, in CLOCK_MONOTONIC.
        dropped: lines from it that were no message.
        lost: why it has been given up; empty if it has not.
    """

    host: str
    first: int
    count: int
    keys: Keys = field(default_factory=Keys.make)
    starter: Started | None = None
    join: protocol.Join | None = None
    beat: protocol.Beat | None = None
    heard_ns: int = 0
    dropped: int = 0
    lost: str = ""

    @property
    def processors(self) -> range:
        """Its processors as the policy numbers them."""
        return range(self.first, self.first + self.count)

    @property
    def name(self) -> str:
        """Its own name, or the one that the user gave."""
        return self.join.host if self.join else self.host or socket.gethostname()

    @property
    def started(self) -> bool:
        """Whether what started its agent still runs."""
        return self.starter is not None and self.starter.poll() is None

    def kill(self) -> None:
        """End what started its agent."""
        if self.starter is not None and self.starter.poll() is None:
            self.starter.kill()

    def patience_ns(self, silence_ns: int) -> int:
        """When it counts as lost if it is not heard before, in CLOCK_MONOTONIC."""
        return self.heard_ns + (silence_ns if self.join else JOIN_NS)

    def result(self, cores: tuple[int, ...]) -> NodeResult:
        """The node at the end of a run; on this host the run knows its ``cores``, elsewhere its agent."""
        join, beat = self.join, self.beat
        clock = (beat.offset_ns, beat.uncertainty_ns, beat.drift, beat.steps) if beat else (0, 0, 0.0, 0)
        return NodeResult(
            join.host if join else self.host,
            cores or (join.cores[: self.count] if join else ()),
            join.priority if join else "",
            *clock,
            dropped=self.dropped + (beat.dropped if beat else 0),
            lost=self.lost,
        )
