"""The sentences of Dusseau, Arpaci, Culler 1996, checked against the simulations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from harness.papers import CONTRADICTED, FAILS, Claim, verdict
from harness.papers.dusseau96 import model
from harness.papers.dusseau96.model import PATTERNS, WIDE_US, Point, PointResults
from harness.papers.dusseau96.published import IMMEDIATE

ABOUT = 0.05
"""Relative tolerance for values that the paper rounds or shows in a graph, and for what it calls
similar."""

ALIKE = 0.01
"""Slowdowns that differ by less do not decide which point is the worst."""


class _Check:
    """The claims of each figure."""

    def __init__(self, results: PointResults) -> None:
        self._results = results

    def coscheduled(self) -> list[Claim]:
        parts = {point: self._results.at(point).breakdown for point in model.bars("2")}
        grows = [
            parts[replace(point, imbalance=2.0)]["synchronizing"] - part["synchronizing"]
            for point, part in parts.items()
            if point.imbalance == 0.0
        ]
        ratios = {
            pattern: [
                parts[point]["communicating"] / parts[point]["computing"]
                for grain in WIDE_US
                for point in parts
                if (point.pattern, point.granularity_us, point.imbalance) == (pattern, grain, 0.0)
            ]
            for pattern in ("NEWS", "TRANSPOSE")
        }
        rises = all(a < b for row in ratios.values() for a, b in itertools.pairwise(row))
        waste = max(part["idle"] + part["switching"] for part in parts.values())
        return [
            Claim(
                "as the load imbalance increases, the time spent spinning while synchronizing increases",
                f"share at v = 2 g less share at v = 0: {min(grows):.2f} to {max(grows):.2f}",
                verdict(min(grows) > 0),
            ),
            Claim(
                "for NEWS and TRANSPOSE, communication per computation grows as the granularity shrinks",
                "; ".join(f"{name} {row[0]:.4f} to {row[-1]:.2f}" for name, row in ratios.items()),
                verdict(rises),
            ),
            Claim(
                "no idle time exists and the time spent context-switching is negligible",
                f"together at most {waste:.1%}",
                verdict(waste < 0.02),
            ),
        ]

    def immediate(self) -> list[Claim]:
        points = model.bars("3")
        coarse = [p for p in points if p.granularity_us >= 5000 and p.imbalance >= 1]
        fine = [p for p in points if p.granularity_us == 100]
        return [
            self._superior_from_5_ms(coarse),
            self._all_above("coscheduling is strictly superior for fine-grained jobs", fine, 1.0),
            self._worst_about(
                "nearly 16 times slower than coscheduling at worst (section 5.1)", points, 16.0
            ),
        ]

    def _superior_from_5_ms(self, coarse: Sequence[Point]) -> Claim:
        """Figure 4 has the same machine with one of these programs."""
        claim = self._all_below(
            "superior from 5 ms to 500 ms with an imbalance of one to two times g", coarse, 1.0
        )
        (cell,) = (p for p in coarse if (p.pattern, p.granularity_us, p.imbalance) == ("NEWS", 5000.0, 1.5))
        published = float(IMMEDIATE["NEWS"][model.table_place(cell)])
        ours = self._value(cell)
        if claim.verdict != FAILS or published < 1 or abs(ours / published - 1) > ABOUT:
            return claim
        other = f"Figure 4 has {published:.2f} for NEWS, g = 5 ms, v = 1.5 g"
        found = f"{claim.found}; there {ours:.2f}"
        return Claim(claim.text, found, CONTRADICTED, ("section 4.1", other))

    def parameters(self) -> list[Claim]:
        points = model.table("4")
        known = [p for p in points if p.pattern in IMMEDIATE]
        errors = [
            abs(math.log(self._results.slowdown(p).value / IMMEDIATE[p.pattern][model.table_place(p)]))
            for p in known
        ]
        mean = sum(errors) / len(errors)
        hidden = [p for p in points if p.latency_us == 100 and p.context_switch_us == 50]
        return [
            Claim(
                "published cells (BARRIER, NEWS) are met within a factor of 1.12 in the mean, 1.35 at worst",
                f"geometric mean {math.exp(mean):.3f}, worst {math.exp(max(errors)):.3f}",
                verdict(mean <= math.log(1.12) and max(errors) <= math.log(1.35)),
            ),
            self._all_below(
                "with high latency and a low switch cost no cell is 15 % slower than coscheduling",
                hidden,
                1.15,
            ),
        ]

    def one_switch(self) -> list[Claim]:
        points = model.bars("5")
        fine = [p for p in points if p.granularity_us == 100]
        shares = [self._results.at(p).spun_reads for p in fine if p.pattern != "BARRIER"]
        reads = sum(shares) / len(shares)
        transpose = [p for p in points if p.pattern == "TRANSPOSE"]
        ratios = [
            self._value(p) / self._value(replace(p, blocking="immediate", spin_switches=2.0))
            for p in points
            if p.granularity_us >= 50_000 and p.imbalance >= 1
        ]
        return [
            Claim(
                "coarse-grained programs with a high imbalance do as with immediate blocking",
                f"slowdowns are {min(ratios):.2f} to {max(ratios):.2f} of immediate blocking's",
                verdict(max(abs(ratio - 1) for ratio in ratios) <= ABOUT),
            ),
            self._all_below("less than five times slower than coscheduling", points, 5.0),
            self._all_below("TRANSPOSE is slowed by less than 2.5", transpose, 2.5),
            Claim(
                "99 % of the reads of fine-grained programs are successful",
                f"{reads:.1%} in the mean, at least {min(shares):.1%}",
                verdict(reads >= 0.985),
            ),
        ]

    def longer_spins(self) -> list[Claim]:
        points = model.bars("6")
        two, four, eight = ([p for p in points if p.spin_switches == k] for k in (2.0, 4.0, 8.0))
        at = {p.imbalance: self._results.at(p).spun_opening_barriers for p in two if p.granularity_us == 400}
        low = [[self._mean([p for p in some if p.imbalance <= 0.25])] for some in (two, four, eight)]
        rising = [row[0] for row in low]
        spikes = [
            worst.imbalance * worst.granularity_us / (worst.spin_switches * worst.context_switch_us)
            for worst in map(self._worst, (two, four, eight))
        ]
        return [
            Claim(
                "a spin is poor for an imbalance slightly greater than it (sections 5.2 and 6)",
                "the slowest program at 2, 4 and 8 switches has an imbalance of "
                + ", ".join(f"{spike:.2f}" for spike in spikes)
                + " spins",
                verdict(all(1 < spike <= 2 for spike in spikes)),
            ),
            self._all_below("spinning for two switches, fine-grained NEWS is at most 60 % slower", two, 1.6),
            Claim(
                "at g = 400 us few opening barriers succeed with v = 2 g (37 %), most with v = 0.5 g (98 %)",
                f"{at[2.0]:.0%} and {at[0.5]:.0%}",
                verdict(at[2.0] < 0.5 and at[0.5] > 0.95),
            ),
            Claim(
                "longer spins slow down programs with a low load imbalance",
                "mean for v <= g/4 at 2, 4 and 8 switches: " + ", ".join(f"{value:.2f}" for value in rising),
                verdict(rising[0] < rising[1] < rising[2]),
            ),
        ]

    def oracle(self) -> list[Claim]:
        news = [p for p in model.bars("8") if p.pattern == "NEWS"]
        fine = [p for p in news if p.granularity_us <= 1000]
        near = sum(self._results.slowdown(p).value <= 1.10 for p in fine)
        middle = [p for p in fine if 450 <= p.imbalance * p.granularity_us <= 1500]
        longer = [
            self._value(replace(p, spin_switches=2 * p.spin_switches)) / self._value(p)
            for p in model.LONG_SPINS
            if p.spin_switches < max(model.LONG_SWITCHES)
        ]
        beyond = [p for p in model.bars("8") if p.imbalance * p.granularity_us > 10 * p.context_switch_us]
        return [
            Claim(
                "fine-grained NEWS is within 10 % of coscheduling for most points",
                f"{near} of {len(fine)}",
                verdict(near > len(fine) / 2),
            ),
            self._all_below("and within 20 % for imbalances of 450 to 1500 us", middle, 1.20),
            self._is_worst("the worst case is g = 1 ms, v = 2 g = 10 switches", news),
            Claim(
                "increasing the spin beyond 10 switches results in no improvement, for all patterns",
                f"twice the spin takes {min(longer):.2f} to {max(longer):.2f} of the time at g = 5 ms",
                verdict(min(longer) > 1 - ABOUT),
            ),
            self._all_below(
                "equal or superior to coscheduling for all imbalances beyond 10 switches", beyond, 1.0
            ),
        ]

    def local(self) -> list[Claim]:
        pairs = [
            (self._results.slowdown(p).value, self._results.slowdown(replace(p, blocking="oracle")).value)
            for p in model.bars("9")
            if p.granularity_us <= 1000
        ]
        worse = sum(local > oracle * 1.05 for local, oracle in pairs)
        return [
            Claim(
                "worse than the oracle for a number of fine-grained programs",
                f"more than 5 % worse in {worse} of {len(pairs)}, more than 5 % better in "
                f"{sum(oracle > local * 1.05 for local, oracle in pairs)}",
                verdict(worse >= 3),
            )
        ]

    def global_(self) -> list[Claim]:
        points = model.bars("10")
        news = [p for p in points if p.pattern == "NEWS"]
        coarse = [p for p in points if p.granularity_us >= 50_000 and p.imbalance >= 1]
        ratios = [
            self._results.slowdown(p).value / self._results.slowdown(replace(p, blocking="oracle")).value
            for p in news
        ]
        return [
            Claim(
                "on NEWS very similar to the oracle",
                f"slowdowns are {min(ratios):.2f} to {max(ratios):.2f} of the oracle's",
                verdict(max(ratios) <= 1 + ABOUT),
            ),
            self._is_worst("the largest slowdown is at g = 1 ms, v = 2 g = 10 switches", points),
            self._all_below("within 35 % of coscheduling", points, 1.35),
            self._all_below(
                "better than coscheduling where coarse-grained programs have a high imbalance",
                coarse,
                1.0,
            ),
        ]

    def timers(self) -> list[Claim]:
        points = model.bars("11")
        finest = [p for p in points if p.granularity_us == 100]
        skewed = [replace(p, timers="independent") for p in points]
        worst = self._value(self._worst(skewed)) - self._value(self._worst(points))
        mean = self._mean(skewed) - self._mean(points)
        return [
            self._all_below("without skew at most 15 % slower than coscheduling", points, 1.15),
            self._all_below("identical to coscheduling (within 5 %) at g = 100 us", finest, 1.05),
            Claim(
                "synchronised timers improve on independent ones by 20 %",
                f"the worst slowdown is lower by {worst:.2f}, the mean by {mean:.3f}",
                verdict(worst >= 0.2 - ABOUT),
            ),
        ]

    def round_robin(self) -> list[Claim]:
        points = model.bars("12")
        svr4 = [replace(p, local="svr4") for p in points]
        worst = {name: self._worst([p for p in points if p.pattern == name]) for name in PATTERNS}
        gains = {
            name: max(
                self._value(p) / self._value(replace(p, local="svr4")) for p in points if p.pattern == name
            )
            for name in PATTERNS
        }
        return [
            Claim(
                "up to 3.4 times worse than coscheduling",
                "; ".join(self._said(point) for point in worst.values()),
                verdict(abs(max(map(self._value, worst.values())) / 3.4 - 1) <= ABOUT),
            ),
            Claim(
                "a priority-based scheduler performs two to three times better (abstract)",
                "at most " + ", ".join(f"{gain:.2f} times ({name})" for name, gain in gains.items()),
                verdict(2 <= max(gains.values()) <= 3),
            ),
            Claim(
                "less robust than SVR4",
                f"worst {self._value(self._worst(points)):.2f}, SVR4 {self._value(self._worst(svr4)):.2f}; "
                f"mean {self._mean(points):.2f}, SVR4 {self._mean(svr4):.2f}",
                verdict(self._value(self._worst(points)) > self._value(self._worst(svr4))),
            ),
        ]

    def final(self) -> list[Claim]:
        points = model.table("13")
        coarse = [p for p in points if p.granularity_us == 500_000 and p.imbalance == 1.5]
        best = min(self._value(p) for p in coarse)
        return [
            self._all_below(
                "implicit scheduling is never more than 25 % slower than coscheduling", points, 1.25
            ),
            Claim(
                "coarse-grained programs with some imbalance are up to 25 % better",
                f"down to {best:.2f}",
                verdict(abs(best * 1.25 - 1) <= ABOUT),  # coscheduling takes 25 % longer
            ),
            self._fine_against_coarse(),
        ]

    def _fine_against_coarse(self) -> Claim:
        """Section 8, "preliminary simulations"."""
        later = {}
        for point in model.UNLIKE:
            fine_s, *coarse_s = self._results.at(point).responses_s
            later[point.pattern] = fine_s / max(coarse_s)
        return Claim(
            "a fine-grained job is given less processor time than coarse-grained ones (section 8)",
            "it ends at "
            + ", ".join(f"{ratio:.2f} ({name})" for name, ratio in later.items())
            + " of the time of the last of two as long with g = 50 ms",
            verdict(min(later.values()) > 1),
        )

    def _value(self, point: Point) -> float:
        return self._results.slowdown(point).value

    def _mean(self, points: Iterable[Point]) -> float:
        values = [self._value(point) for point in points]
        return sum(values) / len(values)

    def _worst(self, points: Iterable[Point]) -> Point:
        return max(points, key=self._value)

    def _all_below(self, text: str, points: Sequence[Point], bound: float) -> Claim:
        worst = self._worst(points)
        return Claim(text, self._said(worst), self._verdict(self._value(worst) < bound, worst, bound))

    def _all_above(self, text: str, points: Sequence[Point], bound: float) -> Claim:
        least = min(points, key=self._value)
        return Claim(text, self._said(least), self._verdict(self._value(least) > bound, least, bound))

    def _worst_about(self, text: str, points: Sequence[Point], value: float) -> Claim:
        worst = self._worst(points)
        return Claim(text, self._said(worst), verdict(abs(self._value(worst) / value - 1) <= ABOUT))

    def _is_worst(self, text: str, points: Sequence[Point]) -> Claim:
        """Whether g = 1 ms, v = 2 g is the worst; another point counts only if it is significantly worse."""
        worst = self._worst(points)
        named = self._worst([p for p in points if (p.granularity_us, p.imbalance) == (1000.0, 2.0)])
        found = self._said(worst) + ("" if worst == named else f"; there {self._said(named)}")
        halves = (self._results.slowdown(point).half or 0.0 for point in (worst, named))
        significant = worst == named or self._value(worst) - self._value(named) > max(sum(halves), ALIKE)
        return Claim(text, found, verdict(worst == named, significant))

    def _verdict(self, holds: bool, point: Point, bound: float) -> str:
        return verdict(holds, self._results.slowdown(point).differs(bound))

    def _said(self, point: Point) -> str:
        slowdown = self._results.slowdown(point)
        half = f" +- {slowdown.half:.2f}" if slowdown.half is not None else ""
        grain = point.granularity_us
        return f"{slowdown.value:.2f}{half} ({point.pattern}, g = {grain:g} us, v = {point.imbalance:g} g)"


def _by(check: Callable[[_Check], list[Claim]]) -> Callable[[PointResults], list[Claim]]:
    return lambda results: check(_Check(results))


CLAIMS = {
    "2": _by(_Check.coscheduled),
    "3": _by(_Check.immediate),
    "4": _by(_Check.parameters),
    "5": _by(_Check.one_switch),
    "6": _by(_Check.longer_spins),
    "7": _by(lambda check: []),
    "8": _by(_Check.oracle),
    "9": _by(_Check.local),
    "10": _by(_Check.global_),
    "11": _by(_Check.timers),
    "12": _by(_Check.round_robin),
    "13": _by(_Check.final),
}
