"""Consecutive slots on a clock: the only place for their arithmetic."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Cycle:
    """A table of slots in time."""

    start_ns: int  # when the first slot begins, or counts as begun
    lengths_ns: tuple[int | None, ...]  # length of each slot; None for an endless one
    cyclic: bool  # whether the table starts over at its end

    @cached_property
    def total_ns(self) -> int | None:
        """Length of one pass; None if a slot is endless."""
        finite = [length for length in self.lengths_ns if length is not None]
        return sum(finite) if len(finite) == len(self.lengths_ns) else None

    @property
    def end_ns(self) -> int | None:
        """When the table is used up; None if it starts over or a slot is endless."""
        total_ns = self.total_ns
        return None if self.cyclic or total_ns is None else self.start_ns + total_ns

    def slot_at(self, now_ns: int) -> tuple[int, int | None]:
        """Which slot covers ``now_ns``, and its end: None at the next decision, past after the last one."""
        index, elapsed_ns = self.position(now_ns)
        length_ns = self.lengths_ns[index]
        return index, None if length_ns is None else now_ns - elapsed_ns + length_ns

    def in_force_ns(self, since_ns: int, until_ns: int) -> tuple[int, ...]:
        """For how long each slot is in force between two times, neither of them before the table begins."""
        before = self._so_far_ns(since_ns)
        after = self._so_far_ns(until_ns)
        return tuple(end - begin for begin, end in zip(before, after, strict=True))

    def _round(self, now_ns: int) -> tuple[int, int]:
        """How often the table is over, and for how long the present pass lasts."""
        elapsed_ns = now_ns - self.start_ns
        if self.cyclic and self.total_ns is not None:
            return divmod(elapsed_ns, self.total_ns)
        return 0, elapsed_ns

    def _so_far_ns(self, now_ns: int) -> list[int]:
        rounds, rest_ns = self._round(now_ns)
        had_ns = []
        last = len(self.lengths_ns) - 1
        for index, length_ns in enumerate(self.lengths_ns):
            part_ns = rest_ns if index == last or length_ns is None else min(rest_ns, length_ns)
            had_ns.append(part_ns + rounds * (length_ns or 0))
            rest_ns -= part_ns
        return had_ns

    def position(self, now_ns: int) -> tuple[int, int]:
        """Which slot covers ``now_ns`` and for how long it has been in force."""
        _, elapsed_ns = self._round(now_ns)
        last = len(self.lengths_ns) - 1
        for index, length_ns in enumerate(self.lengths_ns):
            if index == last or length_ns is None or elapsed_ns < length_ns:
                return index, elapsed_ns
            elapsed_ns -= length_ns
        raise ValueError("a table has at least one slot")
