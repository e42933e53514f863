"""Anastasiadis and Sevcik 1997: adaptive space sharing with more and more knowledge of the jobs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np

from coordinator import policies
from coordinator.policies import Policy
from harness import papers
from harness.measure.time_left import Guess
from harness.papers import FAILS, Cell, Finding, Paper, PaperFigure, Results, below, panels, sweep, verdict
from harness.predict.replicate import Mean, Precision, Replications, replicate
from harness.predict.replicate import ratio as ratio_of
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, moldable
from harness.simulator.jobs.metrics import Metrics, measure
from harness.simulator.jobs.model import Jobs
from harness.simulator.jobs.simulate import simulate as simulate_jobs

PROCESSORS = 32
LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
WARM_UP, LAST, GENERATED = 500, 20_000, 30_000
"""Jobs left out, the last job that counts, and jobs generated before a policy is called saturated."""

SHARES, MEANS_S = (0.125, 0.875), (101.0, 1.3)
"""Large and small jobs: their shares, and their mean work in seconds."""

MAXIMA = (4, 16, 64)
MU = {"WK1": (np.inf,), "WK2": (0.4,), "WK3": (0.2,), "WK4": (0.2, 0.4, np.inf)}
"""Exponents of alpha: the smaller, the poorer the speedup."""

REFERENCE = "DYN-EQUI"
POLICIES: Mapping[str, tuple[str, dict[str, int]]] = {
    REFERENCE: ("dyn-equi", {}),
    "SDF-Max 1": ("sdf-max", {"maximum": 1}),
    "SDF-Max 2": ("sdf-max", {"maximum": 2}),
    "SDF-Max 6": ("sdf-max", {"maximum": 6}),
    "SDF": ("sdf", {}),
    **{
        f"{name.upper()}{suffix}": (name, {"order": order})
        for order, suffix in enumerate(("", "(1)", "(2)"))
        for name in ("asp", "ap1", "aep")
    },
}
"""The policies as the paper names them, their names here and their parameters."""

SHADES = ("#4878a8", "#9cbcd8", "#d9802e", "#f2c28b")
TOP = 5.0  # where the axis of normalised response times ends; bars of saturated policies reach it


def mean_demand_s(workload: str) -> float:
    """E(T(1)) = E(W) + E(alpha) + E(beta), exactly (Table 3 gives rounded values)."""
    work_s = float(np.dot(SHARES, MEANS_S))
    per_maximum = [
        1 + p**-2.0 + np.mean([0.0 if np.isinf(mu) else p ** (-2 * mu) for mu in MU[workload]])
        for p in MAXIMA
    ]
    return work_s * float(np.mean(per_maximum))


def jobs(workload: str, load: float, count: int, random: np.random.Generator) -> Jobs:
    """``count`` jobs of a workload, Poisson arrivals for an offered load (equation 10)."""
    work_s = hyperexponential(count, SHARES, MEANS_S, random)
    most = random.choice(MAXIMA, count)
    mu = random.choice(MU[workload], count)
    between = gaps_s("exponential", count, mean_demand_s(workload) / (PROCESSORS * load), random)
    return moldable(np.cumsum(between), most, work_s, mu)


def simulate(cell: Cell, quick: bool, seed: int) -> Any:
    """A waiting ratio of Figure 1, a curve of Figure 2, or the replications of a policy at a load."""
    if hasattr(cell, "mu"):
        return _speedups(cell.mu, cell.maximum)
    if not hasattr(cell, "workload"):
        return _waiting_ratio(cell, 4_000 if quick else 40_000, seed)
    draw = partial(jobs, cell.workload, cell.load, GENERATED)
    # Quick mode stops at twice the paper's interval.
    precision = Precision(0.1, 3, 20) if quick else Precision(0.05, 10, 400)
    return replicated(draw, policies.create(*POLICIES[cell.policy]), LAST, seed, precision)


def replicated(
    draw: Callable[[np.random.Generator], Jobs], policy: Policy, last: int, seed: int, precision: Precision
) -> Replications:
    """Replications of a policy on this machine; the jobs from WARM_UP to ``last`` count."""

    def one(random: np.random.Generator) -> Metrics | None:
        outcome = simulate_jobs(draw(random), PROCESSORS, policy, last)
        return None if outcome.saturated else measure(outcome, warm_up=WARM_UP, last=last)

    return replicate(one, seed, precision)


def of_type(mu: float, maximum: int) -> Jobs:
    """A job of one type, whose work is a second."""
    return moldable(np.zeros(1), np.array([maximum]), np.ones(1), np.array([mu]))


def _speedups(mu: float, maximum: int) -> SimpleNamespace:
    """S(p) = T(1) / T(p) for p from 1 to P of one type of job, by the times that jobs have (equation 9)."""
    one = of_type(mu, maximum)
    times_s = [float(one.times_s(np.array([p]))[0]) for p in range(1, max(PROCESSORS, maximum) + 1)]
    return SimpleNamespace(speedups=[times_s[0] / time_s for time_s in times_s])


def _waiting_ratio(cell: Cell, count: int, seed: int) -> SimpleNamespace:
    """W/T of jobs that are all alike at an actual load, and by equations (3) and (4) (section 4)."""
    random = np.random.default_rng(seed)
    demand_s = 10.0 * (1 + 64**-2.0)
    between = gaps_s("exponential", count, demand_s / (PROCESSORS * cell.load), random)
    alike = moldable(np.cumsum(between), np.full(count, 64), np.full(count, 10.0), np.full(count, np.inf))
    outcome = simulate_jobs(alike, PROCESSORS, policies.create(*POLICIES[cell.policy]))
    window = slice(count // 10, None)
    times_s = alike.times_s(outcome.size.astype(np.int64))[window]
    rate = 1 / np.diff(alike.submit_ns[window] / 1e9).mean()
    actual = float(rate * (outcome.size[window] * times_s).mean() / PROCESSORS)
    return SimpleNamespace(
        actual_load=actual,
        found=float(outcome.wait_s[window].mean() / times_s.mean()),
        predicted=(1 - actual) / actual if cell.policy == "AEP" else 1 / actual,
    )


def ratio(results: Results, cell: Cell, policy: str, other: str = REFERENCE) -> Mean:
    """The response time of a policy over another's, by the estimate with the narrower interval."""
    return ratio_of(results[cell.but(policy=policy)], results[cell.but(policy=other)])


def _guess(cell: Cell, quick: bool) -> Guess:
    """Intervals are wider, and there are more replications, the closer the load is to 1."""
    return Guess(1 / (1 - cell.load), cell.policy) if hasattr(cell, "workload") else Guess(1.0)


def _rows(results: Results, figures: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each ratio of Figure 1, each point of Figure 2 and each cell of the others."""
    for cell, value in results.items():
        if hasattr(cell, "mu"):
            mu = None if np.isinf(cell.mu) else cell.mu
            for p, speedup in enumerate(value.speedups[:PROCESSORS], 1):
                one = {"figure": "2", "mu": mu, "maximum": cell.maximum}
                yield one | {"processors": p, "speedup": speedup}
        elif not hasattr(cell, "workload"):
            yield {"figure": "1", "policy": cell.policy, **vars(value)}
        else:
            row = vars(cell) | {"saturated": value.stuck, "replications": len(value.metrics)}
            for name in ("response_s", "wait_s", "processors"):
                mean = value.mean(name)
                row[name] = None if mean.saturated else mean.mean
            row["response_half_s"] = value.mean("response_s").half
            normalized = ratio(results, cell, cell.policy)
            yield row | {"normalized": None if normalized.saturated else normalized.mean}


def _draw_ratios(results: Results) -> papers.Picture:
    picture, ((axes,),) = panels(1, 1, 6, 4)
    axes.set(xlabel="actual load", ylabel="W(n) / T(n)", ylim=(0, 10), xlim=(0, 1))
    load = np.linspace(0.05, 1, 100)
    axes.plot(load, (1 - load) / load, label="AEP, equation (3)", color=SHADES[0])
    axes.plot(load, 1 / load, "--", label="AP1, equation (4)", color=SHADES[2])
    for policy, mark, color in (("AEP", "o", SHADES[0]), ("AP1", "s", SHADES[2])):
        some = results.where(figure="1", policy=policy)
        places = some.column("actual_load")
        values = some.column("found")
        axes.plot(places, values, mark, color=color, label=f"{policy}, simulated")
    axes.legend()
    return picture


def _draw_speedups(results: Results) -> papers.Picture:
    exponents = [mu for mu in sorted(MU["WK4"], reverse=True) if results.where(mu=mu)]
    picture, (row,) = panels(1, len(exponents), 12, 4, sharey=True)
    for axes, mu in zip(row, exponents, strict=True):
        title = "mu infinite" if np.isinf(mu) else f"mu = {mu:g}"
        axes.set(xlabel="processors", title=title, xlim=(1, PROCESSORS))
        for cell, value in results.where(mu=mu).items():
            speedups = value.speedups[:PROCESSORS]
            axes.plot(range(1, len(speedups) + 1), speedups, label=f"maximum {cell.maximum}")
        axes.legend()
    row[0].set_ylabel("speedup")
    return picture


def _draw_bars(names: Sequence[str], results: Results) -> papers.Picture:
    picture, rows = panels(2, len(MU), 12, 7, sharey="row")
    for column, workload in enumerate(MU):
        cells = sweep(workload=[workload], load=LOADS)
        _responses(rows[0, column], names, cells, results)
        rows[0, column].set(title=workload, ylim=(0, TOP))
        sizes = {}
        for name in names:
            runs = [results[cell.but(policy=name)] for cell in cells]
            sizes[name] = [0.0 if one.saturated else one.mean("processors").mean for one in runs]
        papers.grouped_bars(rows[1, column], [f"{load:.0%}" for load in LOADS], sizes, SHADES)
        rows[1, column].set(xlabel="load")
    rows[0, 0].set_ylabel("response time / DYN-EQUI's\n(dark: running, light: waiting)")
    rows[1, 0].set_ylabel("mean partition size")
    rows[0, -1].legend(fontsize=8)
    return picture


def _responses(axes: papers.Axes, names: Sequence[str], cells: Sequence[Cell], results: Results) -> None:
    """Time running and waiting; bars of saturated policies are hatched."""
    running, waiting = ({name: [0.0] * len(cells) for name in names} for _ in range(2))
    endless = {f"_{name}": [0.0] * len(cells) for name in names}  # matplotlib's legends leave these names out
    for place, cell in enumerate(cells):
        unit_s = results[cell.but(policy=REFERENCE)].mean("response_s").mean
        for name in names:
            runs: Replications = results[cell.but(policy=name)]
            if runs.saturated:
                endless[f"_{name}"][place] = TOP
                continue
            wait, response = (runs.mean(key).mean / unit_s for key in ("wait_s", "response_s"))
            running[name][place], waiting[name][place] = response - wait, wait
    groups = [f"{cell.load:.0%}" for cell in cells]
    papers.grouped_bars(axes, groups, running, SHADES)
    papers.grouped_bars(axes, groups, waiting, SHADES, below=running, alpha=0.45)
    papers.grouped_bars(axes, groups, endless, SHADES, alpha=0.35, hatch="//")
    axes.axhline(1, color="black", linewidth=0.6)


def _figure(caption: str, names: Sequence[str], compared: Sequence[str] = ()) -> PaperFigure:
    every = dict.fromkeys([REFERENCE, *compared, *names])
    return PaperFigure(caption, partial(_draw_bars, names), sweep(workload=MU, load=LOADS, policy=every))


LIMITED = ("SDF-Max 1", "SDF-Max 2", "SDF-Max 6", "SDF")
PLAIN, ORDERED, DIFFERENTIAL = (
    tuple(f"{name}{suffix}" for name in ("ASP", "AP1", "AEP")) for suffix in ("", "(1)", "(2)")
)
PAPER = Paper(
    figures={
        "1": PaperFigure(
            "W/T of AP1 and AEP against actual load",
            _draw_ratios,
            sweep(figure=["1"], policy=["AEP", "AP1"], load=LOADS),
        ),
        "2": PaperFigure(
            "speedup of the nine types of jobs", _draw_speedups, sweep(mu=MU["WK4"], maximum=MAXIMA)
        ),
        "3": _figure("SDF with and without a limit", LIMITED),
        "4": _figure("ASP, AP1, AEP", PLAIN),
        "5": _figure("ASP(1), AP1(1), AEP(1)", ORDERED, PLAIN),
        "6": _figure("DYN-EQUI, ASP(2), AP1(2), AEP(2)", (REFERENCE, *DIFFERENTIAL), ORDERED),
    },
    quick="intervals of 10 % where the paper has 5 %, at most 20 replications",
    simulate=simulate,
    rows=_rows,
    guess=_guess,
    order=lambda cell: (list(MU).index(cell.workload), cell.load) if hasattr(cell, "workload") else (-1, 0.0),
)


RESOLUTION = 0.05
"""Relative half-width of the paper's intervals: the paper cannot see that a policy is worse by less."""

ALIKE = 2 * RESOLUTION
"""The paper knows each mean within RESOLUTION, and cannot tell two apart that differ by less."""

CLOSE = 0.5
"""Partition sizes that differ by fewer processors are very close, on the paper's axes up to 32."""

ALMOST_ALL = 0.9
CELLS = sweep(workload=MU, load=LOADS)
HIGH = sweep(workload=MU, load=LOADS[-2:])
HIGHEST = sweep(workload=MU, load=LOADS[-1:])


def _all_of(verdicts: Iterable[str]) -> str:
    """The verdict of a claim about several cells: it fails if it fails in one."""
    every = set(verdicts)
    return next(one for one in (FAILS, papers.OPEN, papers.HOLDS) if one in every)


def _shown(ratio: Mean) -> str:
    return f"{ratio.mean:.2f} +- {ratio.half or 0:.2f}"


def _mean(results: Results, cell: Cell, policy: str, name: str) -> float:
    return float(results[cell.but(policy=policy)].mean(name).mean)


def _sizes(results: Results, policy: str, cells: Iterable[Cell] = CELLS) -> list[float]:
    """Mean partition sizes, but of cells in which the policy is saturated."""
    every = (results[cell.but(policy=policy)] for cell in cells)
    return [runs.mean("processors").mean for runs in every if not runs.saturated]


def _size_apart(results: Results, cell: Cell, policy: str, other: str) -> float:
    """Relative difference of the mean partition sizes of two policies; 0 where one is saturated."""
    if any(results[cell.but(policy=name)].saturated for name in (policy, other)):
        return 0.0
    ours, theirs = (_mean(results, cell, name, "processors") for name in (policy, other))
    return ours / theirs - 1


def _smaller(
    results: Results, name: str, policy: str, others: Sequence[str], cells: Iterable[Cell] = CELLS
) -> int:
    """The number of cells in which ``policy`` has a smaller mean than each of the ``others``."""
    return sum(
        all(_mean(results, cell, policy, name) < _mean(results, cell, other, name) for other in others)
        for cell in cells
    )


def _waiting(results: Results, policy: str) -> tuple[list[SimpleNamespace], str]:
    ordered = sorted(results.where(figure="1", policy=policy).values(), key=lambda one: one.actual_load)
    words = (f"{one.found:.2f} (theory {one.predicted:.2f}) at {one.actual_load:.2f}" for one in ordered)
    return ordered, ", ".join(words)


@PAPER.claim(
    "1",
    "the waiting time is shorter under AEP than under AP1",
    "at the highest load AP1 keeps W near T, while W becomes small against T under AEP",
    "W/T of AEP and AP1 follow (1 - load)/load and 1/load (within a factor of 2 from 0.5 on)",
)
def _waiting_times(results: Results) -> Iterator[Finding]:
    (aep, of_aep), (ap1, of_ap1) = _waiting(results, "AEP"), _waiting(results, "AP1")
    yield of_aep, all(a.found <= b.found + 1e-9 for a, b in zip(aep, ap1, strict=True))
    low = aep[-1].found
    high = ap1[-1].found
    yield f"W/T {high:.2f} and {low:.2f}", high > 0.5 and low < high / 2
    ratios = [one.found / one.predicted for one in (*aep, *ap1) if one.actual_load >= 0.5]
    yield f"AEP {of_aep}; AP1 {of_ap1}", all(0.5 <= one <= 2 for one in ratios)


EXPONENTS = sorted(MU["WK4"], reverse=True)


@PAPER.claim(
    "2",
    "without alpha the speedup on p_max processors is about p_max / 2",
    "the smaller mu, the poorer the speedup, for every p_max and up to it",
)
def _curves(results: Results) -> Iterator[Finding]:
    points = results.where(maximum=MAXIMA).items()
    curves = {(cell.mu, cell.maximum): value.speedups for cell, value in points}
    best = {p: curves[EXPONENTS[0], p][p - 1] for p in MAXIMA}
    yield (
        papers.words("{1:.2f} for {0}", best),
        max(abs(speedup / (maximum / 2) - 1) for maximum, speedup in best.items()) < ALIKE,
    )
    last = {mu: curves[mu, MAXIMA[-1]][PROCESSORS - 1] for mu in EXPONENTS}
    words = ", ".join(f"{'infinite' if np.isinf(mu) else mu}: {speedup:.1f}" for mu, speedup in last.items())
    ordered = all(
        curves[more, maximum][p] > curves[less, maximum][p]
        for maximum in MAXIMA
        for more, less in pairwise(EXPONENTS)
        for p in range(1, min(PROCESSORS, maximum))
    )
    yield f"for p_max of {MAXIMA[-1]}, on {PROCESSORS} processors, mu {words}", ordered


@PAPER.claim(
    "3",
    "{} saturates at {:.0%} on {}",
    each=[(policy, 0.9, "WK1") for policy in ("SDF", "SDF-Max 2", "SDF-Max 6")]
    + [(policy, 0.5, "WK3") for policy in ("SDF", "SDF-Max 6")],
)
def _saturates(results: Results, policy: str, load: float, workload: str) -> Finding:
    runs = results[Cell(workload=workload, load=load, policy=policy)]
    return f"in {runs.stuck} of {runs.stuck + len(runs.metrics)} replications", runs.saturated


@PAPER.claim("3", "SDF-Max 1 never saturates")
def _never(results: Results) -> Finding:
    hit = [c for c in CELLS if results[c.but(policy="SDF-Max 1")].saturated]
    return ", ".join(f"{c.workload} {c.load:.0%}" for c in hit) or f"in none of {len(CELLS)} cells", not hit


@PAPER.claim("3", "the higher the load, the smaller the limit on allocations that is best")
def _best_limit(results: Results) -> Finding:
    """The best has the shortest mean response time; a saturated policy's is infinite."""

    def fastest(cell: Cell) -> str:
        return min(LIMITED, key=lambda name: _mean(results, cell, name, "response_s"))

    best = {workload: [fastest(cell) for cell in CELLS if cell.has(workload=workload)] for workload in MU}
    falls = all(LIMITED.index(a) >= LIMITED.index(b) for row in best.values() for a, b in pairwise(row))
    words = "; ".join(f"{workload} {', '.join(row)}" for workload, row in best.items())
    return f"best at loads of 10 to 90 %: {words}", falls


@PAPER.claim(
    "3",
    "SDF-Max 1 and SDF-Max 2 keep partition sizes of 1 and 2",
    "SDF-Max 6 and SDF do not lower their mean partition sizes much below four",
)
def _limited_sizes(results: Results) -> Iterator[Finding]:
    sizes = {name: _sizes(results, name) for name in LIMITED}
    words = ", ".join(f"{name} {min(sizes[name]):.3f} to {max(sizes[name]):.3f}" for name in LIMITED[:2])
    yield words, all(abs(size - limit) < 0.01 for limit in (1, 2) for size in sizes[f"SDF-Max {limit}"])
    least = {name: min(sizes[name]) for name in LIMITED[2:]}
    yield papers.words("{} at least {:.2f}", least), min(least.values()) >= 4 * (1 - ALIKE)


@PAPER.claim("3", "SDF performs excellently on WK1 at 70 %: close to DYN-EQUI")
def _good(results: Results) -> Finding:
    good = ratio(results, Cell(workload="WK1", load=0.7), "SDF")
    return f"{_shown(good)} times its response time", below(good, 1 + ALIKE)


@PAPER.claim("4", "ASP and AP1 have almost the same response time everywhere")
def _alike(results: Results) -> Finding:
    ratios = [ratio(results, cell, "AP1", "ASP") for cell in CELLS]
    apart = [Mean(abs(one.mean - 1), one.half, one.n) for one in ratios]
    cell, worst = max(zip(CELLS, apart, strict=True), key=lambda pair: pair[1].mean)
    words = f"at most {worst.mean:.0%} apart ({cell.workload}, {cell.load:.0%})"
    return words, _all_of(below(one, ALIKE) for one in apart)


def _shorter(results: Results, policy: str, other: str) -> Finding:
    ratios = [ratio(results, cell, policy, other) for cell in CELLS]
    above = [(cell, one) for cell, one in zip(CELLS, ratios, strict=True) if one.low > 1]
    lower = sum(one.high < 1 for one in ratios)
    words = f"lower in {lower} of {len(CELLS)} cells, down to {min(one.mean for one in ratios):.2f}"
    higher = ", ".join(f"{cell.workload} {cell.load:.0%}: {one.mean:.2f}" for cell, one in above)
    contradiction = any(one.mean > 1 + RESOLUTION for _, one in above)
    return (
        f"{words}; higher in {higher or 'none'}",
        FAILS if contradiction else papers.HOLDS if lower else papers.OPEN,
    )


SHORTER = "{} has a shorter response time than {}, or one as long within 5 %"
PAPER.claim("4", SHORTER, each=[("AEP", "ASP"), ("AEP", "AP1")])(_shorter)


@PAPER.claim(
    "4",
    "the partition sizes of ASP and AP1 are the same",
    "in almost all cases AEP has smaller partitions than ASP and AP1",
    "jobs tend to wait less under AEP than under ASP and AP1",
)
def _plain(results: Results) -> Iterator[Finding]:
    apart = [(abs(_size_apart(results, cell, "AP1", "ASP")), cell) for cell in CELLS]
    worst, cell = max(apart, key=lambda pair: pair[0])
    yield f"at most {worst:.0%} apart ({cell.workload}, {cell.load:.0%})", worst < ALIKE
    smaller = _smaller(results, "processors", "AEP", ("ASP", "AP1"))
    yield f"in {smaller} of {len(CELLS)}", smaller >= ALMOST_ALL * len(CELLS)
    waits = _smaller(results, "wait_s", "AEP", ("ASP", "AP1"))
    yield f"in {waits} of {len(CELLS)} cases", waits >= 2 / 3 * len(CELLS)


def _ordered(results: Results, name: str, cells: Iterable[Cell] = HIGH) -> list[Mean]:
    """With the shortest demand first over first come, first served."""
    return [ratio(results, cell, f"{name}(1)", name) for cell in cells]


@PAPER.claim("5", "{0}(1) improves on {0} at high load (70 and 90 %)", each=PLAIN)
def _improves(results: Results, name: str) -> Finding:
    ratios = _ordered(results, name)
    words = f"ratios {min(r.mean for r in ratios):.2f} to {max(r.mean for r in ratios):.2f}"
    return words, FAILS if any(r.low > 1 for r in ratios) else verdict(True, all(r.high < 1 for r in ratios))


@PAPER.claim(
    "5",
    "at high load the response time falls, in some cases, by more than half",
    "at very low load (10 %) the order of the queue improves nothing",
)
def _gains(results: Results) -> Iterator[Finding]:
    lowest = min((r for name in PLAIN for r in _ordered(results, name)), key=lambda ratio: ratio.mean)
    yield f"down to {_shown(lowest)}", below(lowest, 0.5)
    cells = [cell for cell in CELLS if cell.has(load=LOADS[0])]
    low = {name: [one.mean for one in _ordered(results, name, cells)] for name in PLAIN}
    words = ", ".join(f"{name} {min(values):.2f} to {max(values):.2f}" for name, values in low.items())
    yield words, min(map(min, low.values())) > 1 - ALIKE / 2


@PAPER.claim(
    "5", "the advantage of AEP is considerably smaller with the shortest demand first (at least halved)"
)
def _halved(results: Results) -> Finding:
    before, after = (
        sum(1 - ratio(results, cell, f"AEP{suffix}", f"ASP{suffix}").mean for cell in HIGH) / len(HIGH)
        for suffix in ("", "(1)")
    )
    return f"{before:.0%} against ASP at 70 and 90 %, {after:.0%} against ASP(1)", after <= before / 2


@PAPER.claim("5", "the shortest demand first decreases the waiting time at high load (70 and 90 %)")
def _waits_fall(results: Results) -> Finding:
    less = sum(_smaller(results, "wait_s", f"{name}(1)", (name,), HIGH) for name in PLAIN)
    return f"in {less} of {len(PLAIN) * len(HIGH)} cases", less == len(PLAIN) * len(HIGH)


@PAPER.claim("5", "it does not restrict the adaptability: partition sizes fall with the load")
def _adapts(results: Results) -> Finding:
    sizes = {
        (name, workload): _sizes(results, name, sweep(workload=[workload], load=LOADS))
        for workload in MU
        for name in ORDERED
    }
    ranges = ((name, some) for (name, workload), some in sizes.items() if workload == "WK4" and some)
    words = ", ".join(f"{name} {max(some):.1f} to {min(some):.1f}" for name, some in ranges)
    return f"on WK4 {words}", all(a > b for some in sizes.values() for a, b in pairwise(some))


PAPER.claim("6", SHORTER, each=[("AEP(2)", "ASP(2)"), ("AEP(2)", "AP1(2)")])(_shorter)


@PAPER.claim(
    "6",
    "differential allocation hardly changes ASP(1) and AP1(1)",
    "differential allocation is effective with AEP: the gain of AEP(2) is considerable at high loads",
)
def _differential(results: Results) -> Iterator[Finding]:
    """Sections 6.4 and 7; the gain counts as considerable if the paper could see it."""
    changes = [
        (abs(ratio(results, cell, f"{name}(2)", f"{name}(1)").mean - 1), name, cell)
        for name in ("ASP", "AP1")
        for cell in CELLS
    ]
    most, name, cell = max(changes, key=lambda change: change[0])
    yield f"at most {most:.0%} ({name}, {cell.workload}, {cell.load:.0%})", most <= ALIKE
    ratios = [ratio(results, cell, "AEP(2)", "AEP(1)") for cell in HIGH]
    best = min(ratios, key=lambda ratio: ratio.mean)
    words = f"AEP(2) takes {_shown(best)} to {max(one.mean for one in ratios):.2f} of AEP(1)'s time"
    yield words, below(best, 1 - RESOLUTION)


@PAPER.claim(
    "6",
    "on WK4 AEP(2) stays within 30 % of DYN-EQUI",
    "on WK4 at 50 % ASP(2) is more than 75 % above DYN-EQUI",
    "at 90 % ASP(2), AP1(2) and AEP(2) do better than DYN-EQUI",
    "at 90 % the mean partition sizes of the three are very close to DYN-EQUI's",
)
def _against_reference(results: Results) -> Iterator[Finding]:
    """The partition size under a saturated policy counts as 0."""
    within = [ratio(results, cell, "AEP(2)") for cell in sweep(workload=["WK4"], load=LOADS)]
    words = ", ".join(map(_shown, within))
    yield f"{words} at loads of 10 to 90 %", _all_of(below(one, 1.3) for one in within)
    half = ratio(results, Cell(workload="WK4", load=0.5), "ASP(2)")
    yield _shown(half), verdict(half.mean > 1.75, half.apart(1.75))
    ratios = {(name, cell): ratio(results, cell, name) for name in DIFFERENTIAL for cell in HIGHEST}
    words = ", ".join(f"{name} {_shown(one)} on {cell.workload}" for (name, cell), one in ratios.items())
    yield words, _all_of(below(one, 1) for one in ratios.values())
    far = {}
    for cell, name in product(HIGHEST, DIFFERENTIAL):
        ours, theirs = (sum(_sizes(results, policy, [cell])) for policy in (name, REFERENCE))
        far[f"{name} on {cell.workload}"] = abs(ours - theirs)
    where = max(far, key=lambda where: far[where])
    yield f"at most {far[where]:.2f} processors apart ({where})", far[where] < CLOSE


@PAPER.claim("6", "differential allocation leaves AEP's partition sizes and waiting times as they are")
def _as_they_are(results: Results) -> Finding:
    size = max(abs(_size_apart(results, cell, "AEP(2)", "AEP(1)")) for cell in CELLS)
    wait = max(_waits_apart(results, cell) for cell in CELLS)
    words = f"sizes at most {size:.0%} apart, waits {wait:.0%} of the response time"
    return words, size < ALIKE and wait < ALIKE


def _waits_apart(results: Results, cell: Cell) -> float:
    """Difference of the mean waits of AEP(1) and AEP(2) over the response time of AEP(1)."""
    if any(results[cell.but(policy=name)].saturated for name in ("AEP(1)", "AEP(2)")):
        return 0.0
    first, second = (_mean(results, cell, name, "wait_s") for name in ("AEP(1)", "AEP(2)"))
    return abs(first - second) / _mean(results, cell, "AEP(1)", "response_s")
