"""Anastasiadis and Sevcik 1997: adaptive space sharing with more and more knowledge of the jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator import policies
from harness.papers import Cell, Paper, PaperFigure, Results, grouped_bars, panels, sweep
from harness.predict.replicate import Mean, Precision, Replications, replicate
from harness.predict.replicate import ratio as ratio_of
from harness.predict.time_left import Guess
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, moldable
from harness.simulator.jobs.metrics import Metrics, measure
from harness.simulator.jobs.model import Jobs
from harness.simulator.jobs.simulate import Watched
from harness.simulator.jobs.simulate import simulate as simulate_jobs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    **{name.upper(): (name, {"order": 0}) for name in ("asp", "ap1", "aep")},
    **{
        f"{name.upper()}({order})": (name, {"order": order})
        for order in (1, 2)
        for name in ("asp", "ap1", "aep")
    },
}
"""The policies as the paper names them, their names here and their parameters."""

SHADES = ("#4878a8", "#9cbcd8", "#d9802e", "#f2c28b")
TOP = 5.0
"""Where the axis of normalised response times ends; bars of saturated policies reach it."""


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
    name, options = POLICIES[cell.policy]
    policy = policies.create(name, options)

    def one(random: np.random.Generator) -> Metrics | None:
        outcome = simulate_jobs(
            jobs(cell.workload, cell.load, GENERATED, random), PROCESSORS, policy, Watched(LAST)
        )
        return None if outcome.saturated else measure(outcome, warm_up=WARM_UP, last=LAST)

    # Quick mode stops at twice the paper's interval.
    return replicate(one, seed, Precision(0.1, 3, 20) if quick else Precision(0.05, 10, 400))


def _speedups(mu: float, maximum: int) -> SimpleNamespace:
    """S(p) = T(1) / T(p) for p from 1 to P of one type of job, by the times that jobs have (equation 9)."""
    one = moldable(np.zeros(1), np.array([maximum]), np.ones(1), np.array([mu]))
    times_s = [float(one.times_s(np.array([p]))[0]) for p in range(1, max(PROCESSORS, maximum) + 1)]
    return SimpleNamespace(speedups=[times_s[0] / time_s for time_s in times_s])


def _waiting_ratio(cell: Cell, count: int, seed: int) -> SimpleNamespace:
    """W/T of jobs that are all alike at an actual load, and by equations (3) and (4) (section 4)."""
    random = np.random.default_rng(seed)
    demand_s = 10.0 * (1 + 64**-2.0)
    between = gaps_s("exponential", count, demand_s / (PROCESSORS * cell.load), random)
    alike = moldable(np.cumsum(between), np.full(count, 64), np.full(count, 10.0), np.full(count, np.inf))
    outcome = simulate_jobs(alike, PROCESSORS, policies.create(*POLICIES[cell.policy]))
    counted = slice(count // 10, None)
    times_s = alike.times_s(outcome.size.astype(np.int64))[counted]
    rate = 1 / np.diff(alike.submit_ns[counted] / 1e9).mean()
    actual = float(rate * (outcome.size[counted] * times_s).mean() / PROCESSORS)
    return SimpleNamespace(
        actual_load=actual,
        found=float(outcome.wait_s[counted].mean() / times_s.mean()),
        predicted=(1 - actual) / actual if cell.policy == "AEP" else 1 / actual,
    )


def ratio(results: Results, cell: Cell, policy: str, other: str = REFERENCE) -> Mean:
    """The response time of a policy over that of another, by the estimate with the narrower interval."""
    return ratio_of(results[cell.but(policy=policy)], results[cell.but(policy=other)])


def _guess(cell: Cell, quick: bool) -> Guess:
    """Intervals are wider, and there are more replications, the closer the load is to 1."""
    if hasattr(cell, "workload"):
        return Guess(1 / (1 - cell.load), POLICIES[cell.policy][0])
    return Guess(1.0, "figures 1 and 2")


def _rows(results: Results, figures: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each ratio of Figure 1, each point of Figure 2 and each cell of the others."""
    for cell, found in results.items():
        if hasattr(cell, "mu"):
            mu = None if np.isinf(cell.mu) else cell.mu
            for p, speedup in enumerate(found.speedups[:PROCESSORS], 1):
                one = {"figure": "2", "mu": mu, "maximum": cell.maximum}
                yield one | {"processors": p, "speedup": speedup}
        elif not hasattr(cell, "workload"):
            yield {"figure": "1", "policy": cell.policy, **vars(found)}
        else:
            row = vars(cell) | {"saturated": found.stuck, "replications": len(found.metrics)}
            for name in ("response_s", "wait_s", "processors"):
                mean = found.mean(name)
                row[name] = None if mean.saturated else mean.mean
            row["response_half_s"] = found.mean("response_s").half
            normalized = ratio(results, cell, cell.policy)
            yield row | {"normalized": None if normalized.saturated else normalized.mean}


def _draw_ratios(results: Results) -> Figure:
    picture, ((axes,),) = panels(1, 1, 6, 4)
    axes.set(xlabel="actual load", ylabel="W(n) / T(n)", ylim=(0, 10), xlim=(0, 1))
    load = np.linspace(0.05, 1, 100)
    axes.plot(load, (1 - load) / load, label="AEP, equation (3)", color=SHADES[0])
    axes.plot(load, 1 / load, "--", label="AP1, equation (4)", color=SHADES[2])
    for policy, mark, color in (("AEP", "o", SHADES[0]), ("AP1", "s", SHADES[2])):
        some = results.where(figure="1", policy=policy)
        places, values = some.column("actual_load"), some.column("found")
        axes.plot(places, values, mark, color=color, label=f"{policy}, simulated")
    axes.legend()
    return picture


def _draw_speedups(results: Results) -> Figure:
    exponents = sorted(MU["WK4"], reverse=True)
    picture, (row,) = panels(1, len(exponents), 12, 4, sharey=True)
    for axes, mu in zip(row, exponents, strict=True):
        title = "mu infinite" if np.isinf(mu) else f"mu = {mu:g}"
        axes.set(xlabel="processors", title=title, xlim=(1, PROCESSORS))
        for cell, found in results.where(mu=mu).items():
            speedups = found.speedups[:PROCESSORS]
            axes.plot(range(1, len(speedups) + 1), speedups, label=f"maximum {cell.maximum}")
        axes.legend()
    row[0].set_ylabel("speedup")
    return picture


def _draw_bars(names: Sequence[str], results: Results) -> Figure:
    picture, rows = panels(2, len(MU), 12, 7, sharey="row")
    for column, workload in enumerate(MU):
        cells = sweep(workload=[workload], load=LOADS)
        _responses(rows[0, column], names, cells, results)
        rows[0, column].set(title=workload, ylim=(0, TOP))
        sizes = {}
        for name in names:
            runs = [results[cell.but(policy=name)] for cell in cells]
            sizes[name] = [0.0 if one.saturated else one.mean("processors").mean for one in runs]
        grouped_bars(rows[1, column], [f"{load:.0%}" for load in LOADS], sizes, SHADES)
        rows[1, column].set(xlabel="load")
    rows[0, 0].set_ylabel("response time / DYN-EQUI's\n(dark: running, light: waiting)")
    rows[1, 0].set_ylabel("mean partition size")
    rows[0, -1].legend(fontsize=8)
    return picture


def _responses(axes: Axes, names: Sequence[str], cells: Sequence[Cell], results: Results) -> None:
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
    grouped_bars(axes, groups, running, SHADES)
    grouped_bars(axes, groups, waiting, SHADES, below=running, alpha=0.45)
    grouped_bars(axes, groups, endless, SHADES, alpha=0.35, hatch="//")
    axes.axhline(1, color="black", linewidth=0.6)


def _figure(caption: str, shown: Sequence[str], compared: Sequence[str] = ()) -> PaperFigure:
    """Bars of policies; claims compare them with others."""
    every = dict.fromkeys([REFERENCE, *compared, *shown])
    return PaperFigure(caption, partial(_draw_bars, shown), sweep(workload=MU, load=LOADS, policy=every))


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
