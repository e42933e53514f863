"""How much of its processors a run lost to other programs, and which runs stand for their repeats."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from harness.measure.plan import Key, key_of
from harness.store.records import DEDICATED, MEASURED_KINDS, RunRecord

DISTURBED = 0.02
"""A run that lost more than this share of its CPU time is repeated, and then set aside.

What one processor loses, all that wait for it may lose: on two processors a run may lose twice as much time.
"""

OWN_S = 0.08
"""CPU time of a run's own processes, such as guardians, that its conditions count as that of others."""

MOST, IN_THE_MEAN, LEFT = 0.20, 0.15, 0.06
"""Nothing is known if most runs lost more than the first, all of them on average more than the second, or
those that stand more than the third."""


def lost(record: RunRecord) -> float:
    """The share of its CPU time that others took from a measured run; 0 where it is unknown.

    In a dedicated run with a processor for each rank, ranks wait for processors only while others have these:
    the kernel counts that exactly, and from the start of the program to its end.
    """
    # What others took on other hosts is unknown.
    if record.kind not in MEASURED_KINDS or record.conditions.nodes:
        return 0.0
    if record.kind == DEDICATED and len(record.processors) >= len(record.ranks):
        ranks = [rank for rank in record.ranks if rank.run_queue_ns is not None]
        if whole_ns := sum(rank.elapsed_ns for rank in ranks):
            return min(1.0, sum(rank.run_queue_ns or 0 for rank in ranks) / whole_ns)
    whole_s = record.wall_s * len(record.conditions.processors or record.processors)
    return max(0.0, (record.conditions.others or 0.0) - OWN_S / whole_s) if whole_s else 0.0


def disturbed(record: RunRecord) -> bool:
    return lost(record) > DISTURBED


def least_disturbed(records: Iterable[RunRecord]) -> dict[int, RunRecord]:
    """Of the records of each repeat the one that lost least, or of those not disturbed the last."""
    best: dict[int, RunRecord] = {}
    for record in records:
        before = best.get(record.repeat)
        if before is None or not disturbed(record) or lost(record) <= lost(before):
            best[record.repeat] = record
    return best


def standing(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs that are not disturbed; all of them if all are."""
    return [record for record in records if not disturbed(record)] or list(records)


def that_stand(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs without those that were repeated because others disturbed them, or are set aside."""
    groups: dict[Key, list[RunRecord]] = defaultdict(list)
    for record in (one for one in records if one.succeeded):
        groups[key_of(record).series].append(record)
    kept = {id(one) for alike in groups.values() for one in standing([*least_disturbed(alike).values()])}
    return [record for record in records if not record.succeeded or id(record) in kept]


def overloaded(records: Sequence[RunRecord]) -> bool:
    """Whether the host was so busy that nothing is known from these runs."""
    shares = [lost(record) for record in records]
    most = 2 * sum(share > MOST for share in shares) > len(shares)
    return most or (bool(shares) and statistics.fmean(shares) > IN_THE_MEAN)


def too_much(records: Sequence[RunRecord]) -> bool:
    """Whether these runs of one kind lost so much that nothing is known, also from those that stand."""
    left = [lost(record) for record in that_stand(records)]
    return overloaded(records) or (bool(left) and statistics.fmean(left) > LEFT)
