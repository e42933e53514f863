"""The cost of moving a running process to another machine: four techniques, as functions of its memory.

Times are seconds, memory is in MB, rates are in MB/s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from workloads.parameters import Bounds, Checked, OneOf

PAGE_MB = 4 / 1024
"""The memory that one fault brings."""


class MoveCost(NamedTuple):
    """The cost of one move.

    Attributes:
        stopped_s: how long the process runs nowhere.
        slowed_s: how long it waits for its memory after that.
        total_s: from the beginning of the move until the process needs nothing more from elsewhere.
        moved_mb: memory sent over the network, twice if it is sent twice.
        residual_mb: memory that stays behind on the machine that the process has left.
    """

    stopped_s: float
    slowed_s: float
    total_s: float
    moved_mb: float
    residual_mb: float


@dataclass(frozen=True)
class Migration(Checked):
    """How processes move, and the memory of each.

    Attributes:
        technique: name of one of TECHNIQUES.
        size_mb: memory of a process.
        bandwidth_mb_s: at which memory moves.
        dirty_mb_s: at which a process that runs changes its memory.
        rounds: copies of what has changed before the last one, for which pre-copy stops the process.
        modified: share of the memory that the file server does not have.
        touched: share of the memory that the process still uses after the move.
        fixed_ms: to stop a process and to start it elsewhere, with its kernel's state.
        fault_ms: a fault for a page that is elsewhere, without its transfer.
        checkpoint_s: progress of a job from one checkpoint to the next; 0 if it makes none. A job that
            vacates its processors continues from its last checkpoint.
    """

    technique: Annotated[str, OneOf(TECHNIQUES)] = "eager"
    size_mb: Annotated[float, Bounds(1e-6, 1e9)] = 8.0
    bandwidth_mb_s: Annotated[float, Bounds(1e-6, 1e9)] = 1.0
    dirty_mb_s: Annotated[float, Bounds(0, 1e9)] = 0.1
    rounds: Annotated[int, Bounds(1, 1000)] = 2
    modified: Annotated[float, Bounds(0, 1)] = 0.5
    touched: Annotated[float, Bounds(0, 1)] = 0.4
    fixed_ms: Annotated[float, Bounds(0, 1e7)] = 0.0
    fault_ms: Annotated[float, Bounds(0, 1e7)] = 0.0
    checkpoint_s: Annotated[float, Bounds(0, 1e9)] = 0.0

    def cost(self) -> MoveCost:
        """The cost of moving one process. All processes of a job move at once and do not share bandwidth."""
        return TECHNIQUES[self.technique](self)

    @property
    def fixed_s(self) -> float:
        return self.fixed_ms / 1e3

    @property
    def delay_ns(self) -> int:
        cost = self.cost()
        return round((cost.stopped_s + cost.slowed_s) * 1e9)

    @property
    def restart_ns(self) -> int:
        """How long a job takes to read its checkpoint when it continues."""
        return round((self.fixed_s + self.size_mb / self.bandwidth_mb_s) * 1e9)

    def kept_ns(self, done_ns: int) -> int:
        """The progress that a job keeps when it vacates its processors."""
        every_ns = round(self.checkpoint_s * 1e9)
        return done_ns // every_ns * every_ns if every_ns else 0


def eager_copy(m: Migration) -> MoveCost:
    """Charlotte and LOCUS (Artsy and Finkel 1989; Popek and Walker 1985): stop, send all, continue."""
    stopped_s = m.fixed_s + m.size_mb / m.bandwidth_mb_s
    return MoveCost(stopped_s, 0.0, stopped_s, m.size_mb, 0.0)


def pre_copy(m: Migration) -> MoveCost:
    """Copy the address space in ``rounds`` while the process runs; stop it to copy the rest.

    The first round copies everything, each later one what the process has changed in the round before. The
    process stops early if it changes as much in a round as the round copies.
    Source: Theimer, Lantz and Cheriton 1985 (V).
    """
    left_mb = m.size_mb
    copied_mb = 0.0
    for _ in range(m.rounds):
        changed_mb = min(m.size_mb, left_mb / m.bandwidth_mb_s * m.dirty_mb_s)
        copied_mb += left_mb
        if changed_mb >= left_mb:
            break
        left_mb = changed_mb
    stopped_s = m.fixed_s + left_mb / m.bandwidth_mb_s
    return MoveCost(stopped_s, 0.0, copied_mb / m.bandwidth_mb_s + stopped_s, copied_mb + left_mb, 0.0)


def copy_on_reference(m: Migration) -> MoveCost:
    """Zayas 1987 (Accent): move the kernel's state; the process fetches each page when it uses it."""
    fetched_mb, slowed_s = _fetched(m)
    return MoveCost(m.fixed_s, slowed_s, m.fixed_s + slowed_s, fetched_mb, m.size_mb - fetched_mb)


def flush(m: Migration) -> MoveCost:
    """Douglis and Ousterhout 1991 (Sprite): write modified pages to the file server, and fetch from there."""
    stopped_s = m.fixed_s + m.modified * m.size_mb / m.bandwidth_mb_s
    fetched_mb, slowed_s = _fetched(m)
    return MoveCost(stopped_s, slowed_s, stopped_s + slowed_s, m.modified * m.size_mb + fetched_mb, 0.0)


def _fetched(m: Migration) -> tuple[float, float]:
    """The memory that the process fetches after its move, and how long it waits for that."""
    fetched_mb = m.touched * m.size_mb
    return fetched_mb, fetched_mb / m.bandwidth_mb_s + fetched_mb / PAGE_MB * (m.fault_ms / 1e3)


TECHNIQUES: Mapping[str, Callable[[Migration], MoveCost]] = {
    "eager": eager_copy,
    "pre-copy": pre_copy,
    "on-reference": copy_on_reference,
    "flush": flush,
}
"""The techniques by name."""
