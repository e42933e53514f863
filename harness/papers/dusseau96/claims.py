"""The sentences of Dusseau, Arpaci, Culler 1996 about its figures, each with its check."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from harness.papers import CONTRADICTED, FAILS, Cell, Finding, Results, below, verdict
from harness.papers.dusseau96.model import (
    BASE,
    IMBALANCES,
    LONG_SPINS,
    PAPER,
    PATTERNS,
    PUBLISHED,
    UNLIKE,
    WIDE_US,
    slowdown,
)

ABOUT = 0.05
"""Relative tolerance for values that the paper rounds or shows in a graph, and for what it calls
similar."""

ALIKE = 0.01
"""Slowdowns that differ by less do not decide which cell is the worst."""

COARSE: dict[str, Any] = {"granularity_us": WIDE_US[:2], "imbalance": IMBALANCES[3:]}
FINE: dict[str, Any] = {"granularity_us": WIDE_US[3:]}
FINEST: dict[str, Any] = {"granularity_us": 100}


def _of(figure: str, above_us: float = -1, most_us: float = math.inf, **parameters: Any) -> list[Cell]:
    """The cells of a figure with these parameters and an imbalance of so many microseconds."""
    return [
        cell
        for cell in PAPER.figures[figure].cells
        if cell.has(**parameters) and above_us < cell.imbalance * cell.granularity_us <= most_us
    ]


def _value(results: Results, cell: Cell) -> float:
    return slowdown(results, cell).mean


def _mean(results: Results, cells: Iterable[Cell]) -> float:
    return statistics.mean(_value(results, cell) for cell in cells)


def _worst(results: Results, cells: Iterable[Cell]) -> Cell:
    return max(cells, key=lambda cell: _value(results, cell))


def _ratios(results: Results, cells: Iterable[Cell], **other: object) -> list[float]:
    """Slowdowns over the slowdowns of the same cells with other parameters."""
    return [_value(results, cell) / _value(results, cell.but(**other)) for cell in cells]


def _said(results: Results, cell: Cell) -> str:
    found = slowdown(results, cell)
    half = f" +- {found.half:.2f}" if found.half is not None else ""
    grain = cell.granularity_us
    return f"{found.mean:.2f}{half} ({cell.pattern}, g = {grain:g} us, v = {cell.imbalance:g} g)"


def _all_below(figure: str, text: str, bound: float, **chosen: Any) -> None:
    """The claim that cells of a figure are slowed down by less than ``bound``."""

    @PAPER.claim(figure, text)
    def check(results: Results) -> Finding:
        worst = _worst(results, _of(figure, **chosen))
        return _said(results, worst), below(slowdown(results, worst), bound)


@PAPER.claim(
    "2",
    "as the load imbalance increases, the time spent spinning while synchronizing increases",
    "for NEWS and TRANSPOSE, communication per computation grows as the granularity shrinks",
    "no idle time exists and the time spent context-switching is negligible",
)
def _coscheduled(results: Results) -> Iterator[Finding]:
    parts = {cell: results[cell].breakdown for cell in _of("2")}
    shares = {cell: part["synchronizing"] for cell, part in parts.items()}
    grows = [shares[cell.but(imbalance=2.0)] - shares[cell] for cell in _of("2", imbalance=0.0)]
    yield f"share at v = 2 g less share at v = 0: {min(grows):.2f} to {max(grows):.2f}", min(grows) > 0
    ratios = {
        name: [
            parts[cell]["communicating"] / parts[cell]["computing"]
            for cell in _of("2", pattern=name, imbalance=0.0)
        ]
        for name in PATTERNS[1:]
    }
    words = "; ".join(f"{name} {row[0]:.4f} to {row[-1]:.2f}" for name, row in ratios.items())
    yield words, all(a < b for row in ratios.values() for a, b in pairwise(row))
    waste = max(part["idle"] + part["switching"] for part in parts.values())
    yield f"together at most {waste:.1%}", waste < 0.02


@PAPER.claim("3", "superior from 5 ms to 500 ms with an imbalance of one to two times g")
def _superior_from_5_ms(results: Results) -> Finding:
    """Figure 4 has the same machine with one of these programs."""
    coarse = _of("3", granularity_us=WIDE_US[:3], imbalance=IMBALANCES[3:])
    worst = _worst(results, coarse)
    found, holds = _said(results, worst), below(slowdown(results, worst), 1.0)
    (cell,) = (cell for cell in coarse if cell.has(pattern="NEWS", granularity_us=5000.0, imbalance=1.5))
    theirs, ours = PUBLISHED[cell], _value(results, cell)
    if holds != FAILS or theirs < 1 or abs(ours / theirs - 1) > ABOUT:
        return found, holds
    other = f"Figure 4 has {theirs:.2f} for NEWS, g = 5 ms, v = 1.5 g"
    return f"{found}; there {ours:.2f}", CONTRADICTED, ("section 4.1", other)


@PAPER.claim(
    "3",
    "coscheduling is strictly superior for fine-grained jobs",
    "nearly 16 times slower than coscheduling at worst (section 5.1)",
)
def _slower(results: Results) -> Iterator[Finding]:
    least = min(_of("3", **FINEST), key=lambda cell: _value(results, cell))
    found = slowdown(results, least)
    yield _said(results, least), verdict(found.mean > 1, found.apart(1))
    worst = _worst(results, _of("3"))
    yield _said(results, worst), abs(_value(results, worst) / 16.0 - 1) <= ABOUT


@PAPER.claim(
    "4", "published cells (BARRIER, NEWS) are met within a factor of 1.12 in the mean, 1.35 at worst"
)
def _published(results: Results) -> Finding:
    errors = [abs(math.log(_value(results, cell) / theirs)) for cell, theirs in PUBLISHED.items()]
    mean, most = sum(errors) / len(errors), max(errors)
    words = f"geometric mean {math.exp(mean):.3f}, worst {math.exp(most):.3f}"
    return words, mean <= math.log(1.12) and most <= math.log(1.35)


_all_below(
    "4",
    "with high latency and a low switch cost no cell is 15 % slower than coscheduling",
    1.15,
    latency_us=100,
    context_switch_us=50,
)


@PAPER.claim("5", "coarse-grained programs with a high imbalance do as with immediate blocking")
def _as_immediate(results: Results) -> Finding:
    coarse = _of("5", **COARSE)
    ratios = _ratios(results, coarse, blocking="immediate", spin_switches=2.0)
    words = f"slowdowns are {min(ratios):.2f} to {max(ratios):.2f} of immediate blocking's"
    return words, max(abs(ratio - 1) for ratio in ratios) <= ABOUT


_all_below("5", "less than five times slower than coscheduling", 5.0)
_all_below("5", "TRANSPOSE is slowed by less than 2.5", 2.5, pattern="TRANSPOSE")


@PAPER.claim("5", "99 % of the reads of fine-grained programs are successful")
def _reads(results: Results) -> Finding:
    reading = _of("5", **FINEST, pattern=PATTERNS[1:])
    shares = [results[cell].spun_reads for cell in reading]
    mean = sum(shares) / len(shares)
    return f"{mean:.1%} in the mean, at least {min(shares):.1%}", mean >= 0.985


def _by_spin() -> list[list[Cell]]:
    return [_of("6", spin_switches=spins) for spins in (2.0, 4.0, 8.0)]


@PAPER.claim("6", "a spin is poor for an imbalance slightly greater than it (sections 5.2 and 6)")
def _spikes(results: Results) -> Finding:
    worst = [_worst(results, cells) for cells in _by_spin()]
    spikes = [c.imbalance * c.granularity_us / (c.spin_switches * c.context_switch_us) for c in worst]
    words = "the slowest program at 2, 4 and 8 switches has an imbalance of "
    words += ", ".join(f"{spike:.2f}" for spike in spikes) + " spins"
    return words, all(1 < spike <= 2 for spike in spikes)


_all_below("6", "spinning for two switches, fine-grained NEWS is at most 60 % slower", 1.6, spin_switches=2.0)


@PAPER.claim(
    "6", "at g = 400 us few opening barriers succeed with v = 2 g (37 %), most with v = 0.5 g (98 %)"
)
def _opening(results: Results) -> Finding:
    cells = _of("6", spin_switches=2.0, granularity_us=400)
    at = {cell.imbalance: results[cell].spun_opening_barriers for cell in cells}
    return f"{at[2.0]:.0%} and {at[0.5]:.0%}", at[2.0] < 0.5 and at[0.5] > 0.95


@PAPER.claim("6", "longer spins slow down programs with a low load imbalance")
def _longer(results: Results) -> Finding:
    low = [_mean(results, [c for c in cells if c.imbalance <= 0.25]) for cells in _by_spin()]
    words = "mean for v <= g/4 at 2, 4 and 8 switches: " + ", ".join(f"{value:.2f}" for value in low)
    return words, low[0] < low[1] < low[2]


def _is_worst(figure: str, text: str, **chosen: Any) -> None:
    """The claim that g = 1 ms, v = 2 g is the worst; others count only if significantly worse."""

    @PAPER.claim(figure, text)
    def check(results: Results) -> Finding:
        cells = _of(figure, **chosen)
        worst = _worst(results, cells)
        named = _worst(results, [cell for cell in cells if cell.has(granularity_us=1000.0, imbalance=2.0)])
        if worst == named:
            return _said(results, worst), True
        halves = sum(slowdown(results, cell).half or 0.0 for cell in (worst, named))
        significant = _value(results, worst) - _value(results, named) > max(halves, ALIKE)
        words = f"{_said(results, worst)}; there {_said(results, named)}"
        return words, verdict(False, significant)


@PAPER.claim("8", "fine-grained NEWS is within 10 % of coscheduling for most points")
def _near(results: Results) -> Finding:
    fine = _of("8", **FINE, pattern="NEWS")
    near = sum(_value(results, cell) <= 1.10 for cell in fine)
    return f"{near} of {len(fine)}", near > len(fine) / 2


_all_below(
    "8",
    "and within 20 % for imbalances of 450 to 1500 us",
    1.20,
    **FINE,
    pattern="NEWS",
    above_us=450,
    most_us=1500,
)
_is_worst("8", "the worst case is g = 1 ms, v = 2 g = 10 switches", pattern="NEWS")


@PAPER.claim("8", "increasing the spin beyond 10 switches results in no improvement, for all patterns")
def _beyond_10(results: Results) -> Finding:
    shorter = [(cell, cell.but(spin_switches=2 * cell.spin_switches)) for cell in LONG_SPINS]
    longer = [
        _value(results, twice) / _value(results, cell) for cell, twice in shorter if twice in LONG_SPINS
    ]
    words = f"twice the spin takes {min(longer):.2f} to {max(longer):.2f} of the time at g = 5 ms"
    return words, min(longer) > 1 - ABOUT


_all_below(
    "8",
    "equal or superior to coscheduling for all imbalances beyond 10 switches",
    1.0,
    above_us=10 * BASE.context_switch_us,
)


@PAPER.claim("9", "worse than the oracle for a number of fine-grained programs")
def _worse_than_oracle(results: Results) -> Finding:
    fine = _of("9", **FINE)
    pairs = [(_value(results, cell), _value(results, cell.but(blocking="oracle"))) for cell in fine]
    worse, better = sum(a > b * 1.05 for a, b in pairs), sum(b > a * 1.05 for a, b in pairs)
    return f"more than 5 % worse in {worse} of {len(pairs)}, more than 5 % better in {better}", worse >= 3


@PAPER.claim("10", "on NEWS very similar to the oracle")
def _as_oracle(results: Results) -> Finding:
    ratios = _ratios(results, _of("10", pattern="NEWS"), blocking="oracle")
    words = f"slowdowns are {min(ratios):.2f} to {max(ratios):.2f} of the oracle's"
    return words, max(ratios) <= 1 + ABOUT


_is_worst("10", "the largest slowdown is at g = 1 ms, v = 2 g = 10 switches")
_all_below("10", "within 35 % of coscheduling", 1.35)
_all_below(
    "10", "better than coscheduling where coarse-grained programs have a high imbalance", 1.0, **COARSE
)
_all_below("11", "without skew at most 15 % slower than coscheduling", 1.15)
_all_below("11", "identical to coscheduling (within 5 %) at g = 100 us", 1.05, **FINEST)


def _worst_and_mean(results: Results, cells: Sequence[Cell]) -> tuple[float, float]:
    return _value(results, _worst(results, cells)), _mean(results, cells)


@PAPER.claim("11", "synchronised timers improve on independent ones by 20 %")
def _timers(results: Results) -> Finding:
    worst, mean = _worst_and_mean(results, _of("11"))
    skewed_worst, skewed_mean = _worst_and_mean(results, [c.but(timers="independent") for c in _of("11")])
    words = f"the worst slowdown is lower by {skewed_worst - worst:.2f}, the mean by {skewed_mean - mean:.3f}"
    return words, skewed_worst - worst >= 0.2 - ABOUT


@PAPER.claim(
    "12",
    "up to 3.4 times worse than coscheduling",
    "a priority-based scheduler performs two to three times better (abstract)",
    "less robust than SVR4",
)
def _round_robin(results: Results) -> Iterator[Finding]:
    patterns = {name: _of("12", pattern=name) for name in PATTERNS}
    worst = [_worst(results, cells) for cells in patterns.values()]
    most = max(_value(results, cell) for cell in worst)
    yield "; ".join(_said(results, cell) for cell in worst), abs(most / 3.4 - 1) <= ABOUT
    gains = {name: max(_ratios(results, cells, local="svr4")) for name, cells in patterns.items()}
    words = "at most " + ", ".join(f"{gain:.2f} times ({name})" for name, gain in gains.items())
    yield words, 2 <= max(gains.values()) <= 3
    _, mean = _worst_and_mean(results, _of("12"))
    svr4_worst, svr4_mean = _worst_and_mean(results, [cell.but(local="svr4") for cell in _of("12")])
    words = f"worst {most:.2f}, SVR4 {svr4_worst:.2f}; mean {mean:.2f}, SVR4 {svr4_mean:.2f}"
    yield words, most > svr4_worst


_all_below("13", "implicit scheduling is never more than 25 % slower than coscheduling", 1.25)


@PAPER.claim("13", "coarse-grained programs with some imbalance are up to 25 % better")
def _up_to_25(results: Results) -> Finding:
    coarse = _of("13", granularity_us=WIDE_US[0], imbalance=1.5)
    best = min(_value(results, cell) for cell in coarse)
    return f"down to {best:.2f}", abs(best * 1.25 - 1) <= ABOUT  # coscheduling takes 25 % longer


@PAPER.claim("13", "a fine-grained job is given less processor time than coarse-grained ones (section 8)")
def _fine_against_coarse(results: Results) -> Finding:
    """Section 8, "preliminary simulations"."""
    later = {}
    for cell in UNLIKE:
        fine_s, *coarse_s = results[cell].responses_s
        later[cell.pattern] = fine_s / max(coarse_s)
    words = ", ".join(f"{ratio:.2f} ({name})" for name, ratio in later.items())
    words = f"it ends at {words} of the time of the last of two as long with g = 50 ms"
    return words, min(later.values()) > 1
