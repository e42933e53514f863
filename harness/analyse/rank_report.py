"""What is said of the ranks of a job, and where in their program some of them are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.measure.stacks import Stack, Stacks, Thread

NO_CONCLUSION = "no conclusion"

MOST = 8
"""So many stacks are read for the reports of one moment."""

ONE_RANK = re.compile(r"\brank (\d+)")

Reader = Callable[[Sequence[Thread]], Stacks]


@dataclass(frozen=True)
class Report:
    """What is said of a job: ranks with the same state on one line, and a verdict with its evidence.

    ``groups`` are the ranks of each line; ``threads`` those that the lines are about, by rank.
    """

    lines: tuple[str, ...]
    verdict: str
    document: Mapping[str, Any]
    groups: Sequence[Sequence[int]] = ()
    threads: Mapping[int, Sequence[Thread]] = field(default_factory=dict)

    @property
    def pids(self) -> list[int]:
        return [rank["pid"] for rank in self.document["ranks"]]

    @property
    def examples(self) -> dict[int, Sequence[Thread]]:
        """The threads of ranks that stand for all: those that the verdict names, and one of each line."""
        named = [int(one) for one in ONE_RANK.findall(self.verdict)]
        first = [ranks[0] for ranks in self.groups if ranks and not {*ranks} & {*named}]
        return {rank: self.threads[rank] for rank in dict.fromkeys([*named, *first]) if rank in self.threads}

    def with_stacks(self, stacks: Stacks) -> Report:
        """The report with a line for each rank whose stack was read, below the line of its state."""
        of = dict[int, list[Stack]]()
        for rank, threads in self.examples.items():
            if own := [stacks.of[one] for one in threads if one in stacks.of]:
                of[rank] = own
        lines = []
        for line, ranks in zip(self.lines, self.groups, strict=True):
            lines.append(line)
            lines += [f"  rank {rank}: {'; '.join(map(str, of[rank]))}" for rank in ranks if rank in of]
        if stacks.reason:
            lines.append(f"where in their program ranks are is not shown: {stacks.reason}")
        all_ranks = [{**one, "stacks": _documents(of.get(one["rank"]))} for one in self.document["ranks"]]
        document = {**self.document, "ranks": all_ranks, "stack_failure": stacks.reason or None}
        return Report(tuple(lines), self.verdict, document)


def _documents(stacks: Sequence[Stack] | None) -> list[list[dict[str, Any]]] | None:
    return None if stacks is None else [one.document for one in stacks]


def with_stacks(reports: Sequence[Report], read: Reader) -> list[Report]:
    """Reports on several jobs, with at most MOST stacks of their ranks, which are read together.

    Only the first says why there are none.
    """
    threads = dict.fromkeys(thread for one in reports for some in one.examples.values() for thread in some)
    try:
        stacks = read([*threads][:MOST])
    except Exception as error:  # the reports are more important
        stacks = Stacks(reason=f"{type(error).__name__}: {error}")
    without_reason = replace(stacks, reason="")
    return [one.with_stacks(without_reason if place else stacks) for place, one in enumerate(reports)]
