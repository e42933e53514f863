"""Whether programs should run together, take turns, or run one after the other: from measured rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator import policies
from harness.analyse.columns import fixed, interval
from harness.analyse.rows import Row, Summary
from harness.analyse.statistics import Estimate, apart

TOGETHER, APART, TURNS, ONE_BY_ONE = "together", "apart", "turns", "one after the other"
"""At once on all processors, each on some processors, in slots, and each when the one before has ended."""

WORDS = {
    TOGETHER: "Run them together",
    APART: "Give each some of the processors",
    TURNS: "Let them take turns",
    ONE_BY_ONE: "Run them one after the other",
}
"""Ways to use the same processors, in words; of two that are equally fast, the earlier one is advised."""

OF_POLICY = {"batch": ONE_BY_ONE, "partitioned": APART}

SCATTERED = 1.0  # width of an interval, as a share of the median, from which the median says little
TIE = 0.03  # workload slowdowns that differ by less count as equal


@dataclass(frozen=True)
class Way:
    """One way to use the processors: its kind, the scheduler that does it, and the workload slowdown."""

    kind: str
    scheduler: str
    slowdown: Estimate

    @property
    def median(self) -> float:
        assert self.slowdown.median is not None
        return self.slowdown.median

    @property
    def scatters(self) -> bool:
        return self.slowdown.ci95 is not None and self.slowdown.width > SCATTERED

    @property
    def takes(self) -> str:
        """The workload slowdown; from the minimum to the maximum where the median says little."""
        return interval(self.slowdown.extremes, 2) if self.scatters else fixed(self.median)


@dataclass(frozen=True)
class Advice:
    """The best of several ways; ``rivals`` are the ways of another kind that do not differ measurably."""

    best: Way
    ways: Sequence[Way]
    rivals: Sequence[Way]

    @property
    def sentence(self) -> str:
        how = "" if self.best.kind == ONE_BY_ONE or not self.best.scheduler else f" ({self.best.scheduler})"
        others = [way for way in self.ways if way.kind != self.best.kind]
        text = f"{WORDS[self.best.kind]}{how}: {fixed(self.best.median)} of the time one after the other"
        if self.best.kind == ONE_BY_ONE:
            text = WORDS[ONE_BY_ONE]
        compared = [f"{way.scheduler} takes {way.takes}" for way in others if way.scheduler]
        text += f"; {', '.join(compared)}" if compared else ""
        unclear = [way.scheduler or ONE_BY_ONE for way in self.rivals]
        if any(way.slowdown.ci95 is None for way in (self.best, *self.rivals)):
            return f"{text}; so few rounds give no interval."
        return text + (f"; not measurably different: {', '.join(unclear)}." if unclear else ".")


def advice(rows: Sequence[Row]) -> Advice | None:
    """The steady way with the smallest workload slowdown, or an easier one within TIE.

    None without runs, or if what was measured of any way is withheld, which may be the best.
    """
    if any(row.withheld for row in rows):
        return None
    ways = [
        Way(_kind(row.scheduler["policy"], row.measured), row.name, row.measured.workload_slowdown)
        for row in rows
        if row.measured and row.measured.workload_slowdown.median is not None
    ]
    if not ways:
        return None
    if all(way.kind != ONE_BY_ONE for way in ways):  # by definition
        ways.append(Way(ONE_BY_ONE, "", Estimate(1.0, (1.0, 1.0), max(way.slowdown.n for way in ways))))
    ways.sort(key=lambda way: [*WORDS].index(way.kind))
    steady = [way for way in ways if not way.scatters] or ways
    least = min(way.median for way in steady)
    best = next(way for way in steady if way.median <= least * (1 + TIE))
    best = min((way for way in steady if way.kind == best.kind), key=lambda way: way.median)
    rivals = [way for way in ways if way.kind != best.kind and not apart(way.slowdown, best.slowdown)]
    return Advice(best, ways, rivals)


def _kind(policy: str, summary: Summary) -> str:
    """The kind of sharing; programs that had a slot in common, and processors each, did not take turns."""
    if not policies.known()[policy].stops_processes:
        return OF_POLICY.get(policy, TOGETHER)
    return OF_POLICY.get(policy, TURNS if summary.switches else APART)
