"""The profile of a job: in which calls of MPI its ranks wait, for how long, and for which rank.

In a collective call a rank waits until the last one has come, in one from a root for the root: for at most
the time that it is in there. Load imbalance is the percent imbalance of Pearce et al. (ICS 2012): the
largest time outside MPI over the mean of the ranks, minus 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from harness.measure.rank_profile import Arrival, RankProfile, profile_of

if TYPE_CHECKING:
    from harness.measure.rank_sight import Rank

MOST_CALLS, MOST_JOBS = 8, 3
COMMAND_LETTERS = 60

FROM_ROOT = ("Bcast", "Scatter", "Scatterv")
"""In these calls the other ranks wait for the root, not for the last rank."""

LEAST_OF_TIME = 0.01
"""A rank is named if the others have waited for it for this share of their time, or more, ..."""
LEAST_SHARE, TIMES_CHANCE = 0.25, 1.5
"""... in this share of the calls, and as many times more than if all ranks were alike, ..."""
DEVIATIONS = 3.0
"""... which chance does not explain: it is as many standard deviations away."""


@dataclass(frozen=True)
class Awaited:
    """The rank for which others waited most in a call.

    It came last, or late as the root, in this share of its ``calls``, of which so many were ``compared``;
    ``later_s`` is how much later it came then than the median of the others. In calls that wait for one
    rank, the share is that of the time in them; ``later_s`` is None.
    """

    rank: int
    share: float
    later_s: float | None
    calls: int
    compared: int


@dataclass(frozen=True)
class CallProfile:
    """A call, by all ranks. ``share`` is that of the ranks' time.

    ``until_last`` is the share of the time in it before the last rank, or the root, had come; None if that
    is not known.
    """

    call: str
    calls: int
    within_s: float
    share: float
    until_last: float | None
    awaited: Awaited | None


@dataclass(frozen=True)
class JobProfile:
    """A job of ``ranks`` ranks, of which ``heard`` have left a profile here.

    ``elapsed_s`` is the longest time of a rank, ``outside`` the share of the ranks' time in which their first
    threads were outside MPI. ``imbalance`` is None for a single rank, or without any time outside MPI;
    ``busiest`` is the rank with the longest time outside MPI.
    """

    command: str
    ranks: int
    heard: int
    elapsed_s: float
    outside: float
    imbalance: float | None
    busiest: int
    busiest_s: float
    calls: tuple[CallProfile, ...]  # that of most time first

    @property
    def within_s(self) -> float:
        return sum(one.within_s for one in self.calls)

    @property
    def document(self) -> dict[str, Any]:
        return asdict(self)


def combined(profiles: Sequence[RankProfile], command: str = "") -> JobProfile:
    """The profile of a job with at least one rank that has left one."""
    total_ns = sum(max(one.elapsed_ns, one.within_ns) for one in profiles) or 1
    outside_ns = [one.outside_ns for one in profiles]
    elapsed_ns = sum(one.elapsed_ns for one in profiles)
    busiest = max(profiles, key=lambda one: one.outside_ns)
    mean_ns = fmean(outside_ns)
    ranks = max([len(profiles), *(one.ranks for one in profiles)])
    waits = _waits(profiles, whole=len(profiles) == ranks)
    by_call: dict[str, list[RankProfile]] = defaultdict(list)
    for one in profiles:
        for call in one.in_call:
            by_call[call].append(one)
    calls = [_call(call, ranks_of, waits.get(call), total_ns, ranks) for call, ranks_of in by_call.items()]
    return JobProfile(
        command=command,
        ranks=ranks,
        heard=len(profiles),
        elapsed_s=max(one.elapsed_ns for one in profiles) / 1e9,
        outside=min(1.0, sum(outside_ns) / elapsed_ns) if elapsed_ns else 0.0,
        imbalance=busiest.outside_ns / mean_ns - 1 if len(profiles) > 1 and mean_ns else None,
        busiest=busiest.rank,
        busiest_s=busiest.outside_ns / 1e9,
        calls=tuple(sorted(calls, key=lambda one: -one.within_s)),
    )


@dataclass
class _Waits:
    """What the collective calls of a name that can be compared tell of the waits in them."""

    within_ns: int = 0
    waited_ns: int = 0
    caused_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # by the rank that came last
    later_ns: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))  # the same
    compared: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # by each rank
    expected: dict[int, float] = field(default_factory=lambda: defaultdict(float))  # if all were alike
    variance: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, came: Mapping[int, Arrival]) -> None:
        """One call, with the arrivals of its ranks."""
        root = _root(came)
        last = max(came, key=lambda rank: came[rank].entered_ns) if root is None else root
        others_ns = median(other.entered_ns for rank, other in came.items() if rank != last)
        for rank, arrival in came.items():
            waited_ns = min(arrival.within_ns, max(0, came[last].entered_ns - arrival.entered_ns))
            self.within_ns += arrival.within_ns
            self.waited_ns += waited_ns
            self.caused_ns[last] += waited_ns
            self.compared[rank] += 1
            chance = 1 / len(came) if root is None else 0.5 * (rank == root)
            self.expected[rank] += chance
            self.variance[rank] += chance * (1 - chance)
        if came[last].entered_ns > others_ns:  # a root may come first
            self.later_ns[last].append(came[last].entered_ns - others_ns)

    def awaited(self, calls: Mapping[int, int], least_ns: float) -> Awaited | None:
        """The rank to be named, if there is one.

        ``calls`` of each rank; the others have waited for it for ``least_ns`` in the compared calls.
        """
        rank = max(self.caused_ns, key=self.caused_ns.__getitem__)
        came_last, compared = len(self.later_ns[rank]), self.compared[rank]
        share, alike = came_last / compared, self.expected[rank] / compared
        beyond = came_last - self.expected[rank] >= DEVIATIONS * math.sqrt(self.variance[rank])
        if self.caused_ns[rank] < least_ns or not beyond or share < _least_share(alike):
            return None
        later_s = median(self.later_ns[rank]) / 1e9
        return Awaited(rank, share, later_s, max(compared, calls.get(rank, 0)), compared)


def _root(came: Mapping[int, Arrival]) -> int | None:
    """The root for which the others wait; None where they wait for the last rank."""
    one = next(iter(came.values()))
    return one.root if one.call in FROM_ROOT and one.root in came else None


def _least_share(alike: float) -> float:
    return max(LEAST_SHARE, min(1.0, TIMES_CHANCE * alike))


def _waits(profiles: Sequence[RankProfile], *, whole: bool) -> dict[str, _Waits]:
    """By their names, the collective calls for which the arrivals of all ranks that are here are known.

    Of a job that is not ``whole`` here, these are the ranks here that have come to others of the same
    communicator.
    """
    meetings: dict[tuple[int, int], dict[int, Arrival]] = defaultdict(dict)
    members: dict[int, set[int]] = defaultdict(set)
    for one in profiles:
        for arrival in one.arrivals:
            meetings[arrival.comm, arrival.number][one.rank] = arrival
            members[arrival.comm].add(one.rank)
    waits: dict[str, _Waits] = defaultdict(_Waits)
    for (comm, _), came in meetings.items():
        arrival = next(iter(came.values()))
        expected = arrival.ranks if whole else len(members[comm])
        if len(came) == expected > 1 and len({one.call for one in came.values()}) == 1:
            waits[arrival.call].add(came)
    return waits


def _call(
    call: str, profiles: Sequence[RankProfile], waits: _Waits | None, total_ns: int, ranks: int
) -> CallProfile:
    within_ns = sum(one.in_call[call].within_ns for one in profiles)
    counts = {one.rank: one.in_call[call].calls for one in profiles}
    awaited, until_last = None, None
    if waits is not None:
        compared_of_all = waits.within_ns / within_ns if within_ns else 1.0
        awaited = waits.awaited(counts, LEAST_OF_TIME * total_ns * min(1.0, compared_of_all))
        until_last = waits.waited_ns / waits.within_ns if waits.within_ns else None
    else:
        awaited = _sender(call, profiles, within_ns, total_ns, ranks)
    return CallProfile(call, sum(counts.values()), within_ns / 1e9, within_ns / total_ns, until_last, awaited)


def _sender(
    call: str, profiles: Iterable[RankProfile], within_ns: int, total_ns: int, ranks: int
) -> Awaited | None:
    """The rank for which the others waited most in a call that waits for one rank."""
    by_rank: dict[int, int] = defaultdict(int)
    for one in profiles:
        for (name, rank), ns in one.awaited_ns.items():
            if name == call:
                by_rank[rank] += ns
    if not by_rank:
        return None
    rank = max(by_rank, key=by_rank.__getitem__)
    share = min(1.0, by_rank[rank] / max(1, within_ns))
    if by_rank[rank] < LEAST_OF_TIME * total_ns or share < _least_share(1 / ranks):
        return None
    return Awaited(rank, share, None, 0, 0)


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.0f} us"


def _waiting(one: CallProfile, *, whole: bool) -> str:
    """The end of a line: the waits in a call. ``whole``: whether all ranks of the job were compared."""
    here = "" if whole else " of the ranks here"
    parts = []
    awaited = one.awaited
    if awaited is not None and awaited.later_s is not None:
        sample = f", sampled {awaited.compared:,}" if awaited.compared < awaited.calls else ""
        came = "was the root, and late," if one.call in FROM_ROOT else f"came last{here}"
        parts.append(
            f"rank {awaited.rank} {came} in {_share(awaited.share)} of its {awaited.calls:,}{sample},"
            f" {_time(awaited.later_s)} later than the median of the others"
        )
    elif awaited is not None:
        parts.append(f"{_share(awaited.share)} for rank {awaited.rank}")
    if one.until_last is not None:
        whom = "the root" if one.call in FROM_ROOT else f"the last{here or ' rank'}"
        parts.append(f"{_share(one.until_last)} of it before {whom} had come")
    return "; ".join(parts)


def lines(job: JobProfile) -> list[str]:
    """A headline, and a line for each of the calls with most time."""
    shown, rest = job.calls[:MOST_CALLS], job.calls[MOST_CALLS:]
    whole = job.heard >= job.ranks
    rows = [
        (f"MPI_{one.call}", f"{one.calls:,} calls", _within([one]), _waiting(one, whole=whole))
        for one in shown
    ]
    name, calls, within = (max([len(row[column]) for row in rows], default=0) for column in range(3))
    table = [
        f"  {one:<{name}}  {two:>{calls}}  {three:>{within}}  {four}".rstrip()
        for one, two, three, four in rows
    ]
    others = [f"  and {len(rest)} other calls, {_within(rest)}"] if rest else []
    return [_headline(job), *table, *others]


def _within(calls: Sequence[CallProfile]) -> str:
    """The time in some calls, and its share."""
    return f"{_time(sum(one.within_s for one in calls))} ({_share(sum(one.share for one in calls))})"


def _headline(job: JobProfile) -> str:
    ranks = "1 rank" if job.ranks == 1 else f"{job.ranks} ranks"
    command = f" ({_short(job.command)})" if job.command else ""
    heard = "" if job.heard >= job.ranks else f", of which {job.heard} have left a profile here"
    text = f"profile of {ranks}{command}{heard}: {_time(job.elapsed_s)}, {_share(job.outside)} outside MPI"
    if job.imbalance is None:
        return text
    more = f"{_share(job.imbalance)} more than the mean"
    busiest = f"rank {job.busiest} is outside MPI for {_time(job.busiest_s)}, {more}"
    return f"{text}, load imbalance {_share(job.imbalance)}: {busiest}"


def _short(command: str) -> str:
    """A command without the way to its program."""
    program, blank, words = command.partition(" ")
    text = program.rpartition("/")[2] + blank + words
    return text if len(text) <= COMMAND_LETTERS else text[: COMMAND_LETTERS - 3] + "..."


class Profiles:
    """The profiles of the jobs of a command, in the order of their ends."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """``tell`` gets a sentence on each job whose profile cannot be made."""
        self._tell = tell
        self.jobs: list[JobProfile] = []

    def add(self, ranks: Sequence[Rank]) -> None:
        """A job that has ended. Nothing that its ranks have left can harm the command."""
        try:
            found = [profile for one in ranks if (profile := profile_of(one)) is not None]
            if found:
                self.jobs.append(combined(found, ranks[0].command))
        except Exception as error:
            self._tell(f"the profile of a job cannot be told: {type(error).__name__}: {error}")

    @property
    def text(self) -> str:
        """The tables of the jobs with most time in MPI."""
        if not self.jobs:
            return "profile: none, no MPI program with the library has ended on this host"
        first = sorted(self.jobs, key=lambda job: -job.within_s)
        shown = [line for job in first[:MOST_JOBS] for line in lines(job)]
        rest = first[MOST_JOBS:]
        if rest:
            within_s = sum(job.within_s for job in rest)
            shown.append(f"profile: and {len(rest)} other jobs, with {_time(within_s)} in MPI")
        return "\n".join(shown)
