"""The survey's rules that allocate processors to moldable jobs, its costs of moves, its packings of gangs.

The survey gives the rules but no workload. We take the workload of Anastasiadis and Sevcik 1997 with speedups
of all kinds (WK4), and its work beside work of little variance. Of Ousterhout's packings (1982) it gives the
results, so we try several workloads: closed systems with a constant number of jobs, sizes from three
distributions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from coordinator import policies
from coordinator.decide.session import Plan
from coordinator.migration import Migration
from coordinator.policies import allocation
from coordinator.policies.packing import seat
from coordinator.view import ExecutionTime, Job
from harness import papers
from harness.measure.time_left import Guess, alike
from harness.papers import Cell, Finding, Paper, PaperFigure, Results, panels, sweep, verdict
from harness.papers.anastasiadis97 import (
    MAXIMA,
    MEANS_S,
    MU,
    PROCESSORS,
    SHARES,
    mean_demand_s,
    of_type,
    replicated,
)
from harness.predict.replicate import Mean, Precision, Replications, mean_of, ratio
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, in_ns, moldable
from harness.simulator.jobs.model import Floats, Jobs, rigid
from harness.simulator.jobs.simulate import simulate as simulate_jobs

# Moves of processes. Numbers as others cite them, since we do not have the papers: Artsy and Finkel 1989
# (Charlotte: about 45 ms and 12.2 ms for each 2 KB; 242 ms for a process of 32 KB); Theimer, Lantz and
# Cheriton 1985 (V: 3 s for a MB; two copies, then 0.5 to 70 KB, for which programs stopped 5 to 210 ms);
# Zayas 1987 (Accent: up to a thousand times faster than copying, 58 % fewer bytes); Douglis and Ousterhout
# 1991 (Sprite: 76 ms, and 660 ms for a MB of modified pages).
FAST_ETHERNET_MB_S = 12.5
KB = 1 / 1024
TECHNIQUES = ("eager", "pre-copy", "on-reference", "flush")

CHARLOTTE = Migration("eager", 32 * KB, 2 * KB / 0.0122, fixed_ms=45.0)
V_EAGER = Migration("eager", 1.0, 1 / 3)


def v(dirty: float) -> Migration:
    """V at a dirty rate that is this share of the bandwidth."""
    return Migration("pre-copy", 1.0, 1 / 3, dirty_mb_s=dirty / 3, rounds=2)


V_LITTLE, V_MUCH = v(0.0221), v(0.2615)
"""The dirty rates are those that leave 0.5 and 70 KB after two copies."""


def accent(size_mb: float) -> Migration:
    return Migration("on-reference", size_mb, 1 / 3, touched=0.42, fixed_ms=150.0)


def here(technique: str, size_mb: float = 50.0) -> Migration:
    """Each technique on the same network, with a dirty rate of a tenth of the bandwidth."""
    return Migration(technique, size_mb, FAST_ETHERNET_MB_S, dirty_mb_s=FAST_ETHERNET_MB_S / 10)


MOVES: Mapping[str, tuple[Migration, str]] = {
    "Charlotte": (CHARLOTTE, "0.242 s"),
    "V, eager copy": (V_EAGER, "3 s"),
    "V, little is written": (V_LITTLE, "0.005 s"),
    "V, much is written": (V_MUCH, "0.21 s"),
    "Accent, small": (accent(0.1), ""),
    "Accent, large": (accent(100.0), "a thousandth of copying"),
    "Sprite": (Migration("flush", 2.0, 1 / 0.66, modified=0.5, fixed_ms=76.0), "0.74 s"),
    **{f"Fast Ethernet, {technique}": (here(technique), "") for technique in TECHNIQUES},
}
"""Moves in these systems, and the time for which they stop the process as published."""


WORKLOAD = "WK4"
VARIANCES = {"low": 0.5, "high": 3.5}  # coefficients of variation of the work
LOADS = (0.2, 0.5, 0.8)
LAST, GENERATED = 10_000, 15_000
"""The last job that counts, and jobs generated before a rule is called saturated."""

GANGS = 32
"""Processors of the machine whose gangs are packed."""
POPULATIONS = (4, 8, 16, 32)
DISTRIBUTIONS = ("uniform, 1 to P", "uniform, 1 to P/2", "powers of two")
PACKINGS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "matrix": ("gang", {"packing": "matrix"}),
    "continuous": ("gang", {"packing": "continuous"}),
    "undivided": ("gang", {"packing": "undivided"}),
    "hierarchical control": ("dhc", {}),
}

GUESS = np.log(3.0)
"""Standard deviation of the logarithm of a guess: two of three guesses are wrong by at most a factor of 3."""

TOP = 3.0  # where the axis ends; bars of rules that cannot keep up reach it

EQUAL = "equal shares"
RULES: Mapping[str, tuple[str, dict[str, Any], bool]] = {
    EQUAL: ("aep", {}, False),
    "four fixed parts": ("equipartition", {"parts": 4}, False),
    "average parallelism": ("average-parallelism", {}, False),
    "knee": ("knee", {}, False),
    "range of parallelism": ("parallelism-range", {}, False),
    "variance of parallelism": ("parallelism-variance", {}, False),
    "square root of work": ("square-root", {}, False),
    "equal time": ("equal-time", {}, False),
    "square root of guessed work": ("square-root", {}, True),
    "equal time by guessed work": ("equal-time", {}, True),
}
"""The rules: their policies with parameters, and whether users guess the work."""


def over(results: Results, cell: Cell, other: str = EQUAL) -> Mean:
    """The response time of a cell over the rule ``other``'s for the same jobs."""
    return ratio(results[cell], results[cell.but(rule=other)])


def draw_jobs(cell: Cell, count: int, random: np.random.Generator) -> Jobs:
    """``count`` jobs; the same for all rules, but for the users' guesses."""
    work_s = _work_s(VARIANCES[cell.variance], count, random)
    most = random.choice(MAXIMA, count)
    mu = random.choice(MU[WORKLOAD], count)
    between = gaps_s("exponential", count, mean_demand_s(WORKLOAD) / (PROCESSORS * cell.load), random)
    jobs = moldable(np.cumsum(between), most, work_s, mu)
    if not RULES[cell.rule][2]:
        return jobs
    return replace(jobs, factor=np.exp(random.normal(0.0, GUESS, count)))


def _work_s(variation: float, count: int, random: np.random.Generator) -> Floats:
    """Work with the paper's mean; Erlang below a coefficient of variation of 1, the paper's above."""
    if variation > 1:
        return hyperexponential(count, SHARES, MEANS_S, random)
    stages = round(1 / variation**2)
    return random.gamma(stages, float(np.dot(SHARES, MEANS_S)) / stages, count)


def idle(sizes: Sequence[int], processors: int) -> float:
    """Share of the matrix's slots that is empty after gangs of these sizes arrive and none leaves."""
    seats: set[int] = set()
    for size in sizes:
        seats |= set(seat("matrix", seats, size, processors) or ())
    return 1 - len(seats) / ((max(seats) // processors + 1) * processors)


def most_idle(processors: int, jobs: int) -> tuple[float, tuple[int, ...]]:
    """The largest such share over all sequences of up to ``jobs`` gangs, and a shortest sequence with it."""
    every = (sizes for n in range(2, jobs + 1) for sizes in product(range(1, processors + 1), repeat=n))
    # Gangs that fit into one row do not count: no job could use the rest of that row.
    several = (sizes for sizes in every if sum(sizes) > processors)
    return max(((idle(sizes, processors), sizes) for sizes in several), key=lambda pair: pair[0])


def _sizes(distribution: str, count: int, random: np.random.Generator) -> np.ndarray:
    if distribution == "powers of two":
        return 2 ** random.integers(0, GANGS.bit_length(), count)
    most = GANGS if distribution == "uniform, 1 to P" else GANGS // 2
    return random.integers(1, most + 1, count)


def _packed(cell: Cell, quick: bool, seed: int) -> SimpleNamespace:
    """Simulate three replications of a packing under a workload, without the beginning and the end of each.

    Returns:
        ``busy`` is the mean share of the processors that run coscheduled processes, ``lowest`` the lowest
        such share between two decisions; ``spread`` the mean difference in processes between the processors
        with most and with fewest.
    """
    count = 150 if quick else 600
    name, options = PACKINGS[cell.packing]
    policy = policies.create(name, {"quantum_ms": 100.0, **options})
    shares = []
    spreads = []
    lowest = 1.0
    for repeat in range(3):
        key = (DISTRIBUTIONS.index(cell.distribution), cell.population, repeat)
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        size = _sizes(cell.distribution, count, random)
        length = np.maximum(in_ns(random.exponential(10.0, count)), 1)
        jobs = rigid(np.zeros(count, dtype=np.int64), size, length)
        watched: list[tuple[int, int]] = []

        def watch(plan: Plan, now_ns: int, watched: list[tuple[int, int]] = watched) -> None:
            processes = np.zeros(GANGS, dtype=np.int64)
            for place in plan.decision.placements.values():
                processes[list(place)] += 1
            watched.append((now_ns, int(np.ptp(processes))))

        outcome, usage = event_by_event.simulate(jobs, GANGS, policy, population=cell.population, watch=watch)
        # From the time when the first jobs have left to the arrival of the last job.
        begin, end = outcome.jobs.submit_ns[[2 * cell.population, -1]]
        last = outcome.finish_ns.max()
        share, low = _over_time(usage.time_ns, usage.busy / GANGS, begin, end, last)
        times, values = np.array(watched).T
        spread, _ = _over_time(times, values, begin, end, last)
        shares.append(share)
        spreads.append(spread)
        lowest = min(lowest, low)
    return SimpleNamespace(busy=mean_of(shares), lowest=lowest, spread=mean_of(spreads))


def _over_time(times: np.ndarray, values: np.ndarray, begin: int, end: int, last: int) -> tuple[float, float]:
    """Mean and least of ``values``, each from its time to the next, the last one to ``last``."""
    lengths = np.diff(np.clip(np.append(times, last), begin, end))
    return float((values * lengths).sum() / (end - begin)), float(values[lengths > 0].min())


def simulate(cell: Cell, quick: bool, seed: int) -> Replications | SimpleNamespace:
    """Simulate jobs under a rule, or the packing of gangs."""
    if hasattr(cell, "packing"):
        return _packed(cell, quick, seed)
    name, options, _ = RULES[cell.rule]
    precision = Precision(0.1, 3, 8) if quick else Precision(0.03, 10, 100)
    return replicated(
        partial(draw_jobs, cell, GENERATED), policies.create(name, options), LAST, seed, precision
    )


def at_average_parallelism() -> list[tuple[float, float]]:
    """Speedup and efficiency on the average parallelism over the best, of the nine types of jobs."""
    results = []
    for mu in MU[WORKLOAD]:
        for maximum in MAXIMA:
            jobs = of_type(mu, maximum)
            time = ExecutionTime(1.0, 1.0, float(jobs.alpha_s[0]), float(jobs.beta_s[0]))
            job = Job(0, maximum, moldable=True, estimate=time)
            parameters = (time.work_s, time.alpha_s, time.beta_s)
            size = allocation.bound(
                allocation.AVERAGE, job.min_processes, job.max_processes, job.average, *parameters
            )
            speedup = time.on(1) / time.on(size)
            results.append((speedup / job.average, speedup / size))
    return results


def summed_times(variance: str, jobs: int, seed: int) -> dict[str, float]:
    """The sum of response times of 200 sets of ``jobs`` jobs that arrive together, over equal shares'."""
    random = np.random.default_rng(seed)
    sets_s = _work_s(VARIANCES[variance], 200 * jobs, random).reshape(200, jobs)
    once = np.zeros(jobs, dtype=np.int64)
    none = np.zeros(jobs)
    sums = {}
    for rule in (EQUAL, "square root of work", "equal time"):
        name, options, _ = RULES[rule]
        policy = policies.create(name, options)
        sums[rule] = 0.0
        for work_s in sets_s:
            together = Jobs(once, once + 1, once + PROCESSORS, work_s, none, none, none + 1)
            sums[rule] += float(simulate_jobs(together, PROCESSORS, policy).response_s.sum())
    return {rule: sum_s / sums[EQUAL] for rule, sum_s in sums.items()}


def _rows(results: Results, figures: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Times in seconds, memory in MB; times are None for a rule that cannot keep up."""
    for system, (move, published) in MOVES.items() if "2" in figures else ():
        settings = {key: getattr(move, key) for key in ("technique", "size_mb", "bandwidth_mb_s")}
        costs = move.cost()._asdict()
        yield {"figure": "2", "system": system, **settings, **costs, "published": published}
    for cell, value in results.items():
        if hasattr(cell, "packing"):
            columns = {"busy": value.busy.mean, "half": value.busy.half, "lowest": value.lowest}
            spread = {"spread": value.spread.mean, "spread_half": value.spread.half}
            yield {"figure": "3", **vars(cell), **columns, **spread}
    for cell, runs in results.items():
        if hasattr(cell, "packing"):
            continue
        row: dict[str, Any] = {"figure": "1", **vars(cell), "saturated": runs.stuck}
        for name in ("response_s", "wait_s", "processors", "utilisation"):
            mean = runs.mean(name)
            row[name] = None if mean.saturated else mean.mean
        mean = over(results, cell)
        unknown = mean.saturated or runs.saturated
        yield row | {"over_equal": None if unknown else mean.mean, "half": None if unknown else mean.half}


def _draw_rules(results: Results) -> papers.Picture:
    rules = [rule for rule in RULES if rule != EQUAL]
    picture, rows = panels(len(VARIANCES), 1, 12, 7.5, sharex=True)
    for axes, variance in zip(rows[:, 0], VARIANCES, strict=True):
        heights = {}
        for load in LOADS:
            cells = [Cell(variance=variance, load=load, rule=rule) for rule in rules]
            heights[f"load {load:.0%}"] = [min(TOP, over(results, cell).mean) for cell in cells]
        papers.grouped_bars(axes, [rule.replace(" of ", "\nof ") for rule in rules], heights)
        axes.tick_params(axis="x", labelsize=8)
        axes.axhline(1, color="black", linewidth=0.6)
        axes.set(title=f"{variance} variance of work", ylim=(0, TOP), ylabel="response time / equal shares'")
    rows[0, 0].legend(fontsize=8)
    return picture


def _draw_moves(results: Results) -> papers.Picture:
    picture, ((axes,),) = panels(1, 1, 9, 5)
    places = np.arange(len(MOVES))
    costs = [move.cost() for move, _ in MOVES.values()]
    axes.barh(places - 0.2, [cost.stopped_s for cost in costs], 0.4, label="stopped")
    axes.barh(places + 0.2, [cost.total_s for cost in costs], 0.4, label="until nothing more must come")
    labels = [f"{system}, {move.size_mb:.3g} MB" for system, (move, _) in MOVES.items()]
    axes.set_yticks(places, labels, fontsize=8)
    axes.set(xscale="log", xlabel="seconds")
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    return picture


def _draw_packings(results: Results) -> papers.Picture:
    """Processors that run coscheduled processes, and the spread of processes, by packing, sizes and jobs."""
    picture, rows = panels(2, len(DISTRIBUTIONS), 12, 7.5, sharey="row")
    for row, value in zip(rows, ("busy", "spread"), strict=True):
        for axes, distribution in zip(row, DISTRIBUTIONS, strict=True):
            some = {name: results.where(packing=name, distribution=distribution) for name in PACKINGS}
            heights = {
                name: [mean.mean for mean in some_results.column(value)]
                for name, some_results in some.items()
            }
            papers.grouped_bars(axes, list(map(str, POPULATIONS)), heights)
    for axes, distribution in zip(rows[0], DISTRIBUTIONS, strict=True):
        axes.set(title=distribution, ylim=(0, 1))
        axes.axhline(0.8, color="grey", linewidth=0.6)
    for axes in rows[1]:
        axes.set_xlabel("jobs in the system")
    rows[0, 0].set_ylabel("processors that run coscheduled processes")
    rows[1, 0].set_ylabel("processes per processor, most minus fewest")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    return picture


def _guess(cell: Cell, quick: bool) -> Guess:
    """The more gangs, the longer decisions take."""
    return Guess(cell.population, cell.packing) if hasattr(cell, "packing") else alike(cell)


PAPER = Paper(
    figures={
        "1": PaperFigure(
            "rules that allocate processors, by what they know of the jobs",
            _draw_rules,
            sweep(variance=VARIANCES, load=LOADS, rule=RULES),
        ),
        "2": PaperFigure("what it costs to move a process, by technique", _draw_moves),
        "3": PaperFigure(
            "processors that run coscheduled processes, and how even their load is, by packing",
            _draw_packings,
            sweep(packing=PACKINGS, distribution=DISTRIBUTIONS, population=POPULATIONS),
        ),
    },
    quick="figure 1: intervals of 10 % instead of 3 %, at most 8 replications; "
    "figure 3: 150 jobs a replication instead of 600",
    simulate=simulate,
    rows=_rows,
    guess=_guess,
    apart=True,
)


TOGETHER = 8  # jobs that share the machine in the claim about the square root of work

AVERAGE = "average parallelism"
RANGE = "range of parallelism"
VARIANCE = "variance of parallelism"
ROOT = "square root of work"


def _ratios(
    results: Results, ours: str, theirs: str, loads: Sequence[float]
) -> dict[tuple[str, float], Mean]:
    """Our response time over theirs by variance and load; infinite if we cannot keep up, 0 if they cannot."""
    cells = [Cell(variance=variance, load=load, rule=ours) for variance in VARIANCES for load in loads]
    return {(cell.variance, cell.load): over(results, cell, theirs) for cell in cells}


def _words(ratios: dict[tuple[str, float], Mean]) -> str:
    return ", ".join(
        f"{'the other saturates' if mean.mean == 0 else f'{mean.mean:.2f}'} ({variance} variance, {load:.0%})"
        for (variance, load), mean in ratios.items()
    )


@PAPER.claim(
    "1", "on its average parallelism a job has at least half of its best speedup and of the best efficiency"
)
def _half_of_the_best(results: Results) -> Finding:
    types = at_average_parallelism()
    speedup, efficiency = map(min, zip(*types, strict=True))
    words = f"at least {speedup:.2f} and {efficiency:.2f} of the best, over {len(types)} types of jobs"
    return words, min(speedup, efficiency) >= 0.5


def _shorter(results: Results, ours: str, theirs: str, loads: Sequence[float] = LOADS) -> Finding:
    """It fails if a ratio is above 1 beyond its interval, and holds if all are below 1 beyond theirs."""
    ratios = _ratios(results, ours, theirs, loads)
    worse = any(mean.low > 1 for mean in ratios.values())
    better = all(mean.high < 1 for mean in ratios.values())
    return f"ratio of response times {_words(ratios)}", verdict(not worse, worse or better)


LOW = LOADS[:1]
HIGH = LOADS[-1:]
for text, *compared in (
    (
        "when the load is low, jobs should receive their maximum parallelism, not the average",
        RANGE,
        AVERAGE,
        LOW,
    ),
    ("when the load is high, jobs should receive less than their average parallelism", RANGE, AVERAGE, HIGH),
    ("with the range of parallelism, the allocation is better than by the average alone", RANGE, AVERAGE),
    ("with the variance of parallelism, the allocation is better than by its range", VARIANCE, RANGE),
):
    PAPER.claim("1", text, each=[tuple(compared)])(_shorter)


@PAPER.claim(
    "1", "allocation in proportion to the square root of work is optimal (jobs of perfect speedup, all there)"
)
def _optimal(results: Results) -> Finding:
    sums_by_variance = {name: summed_times(name, TOGETHER, seed=1) for name in VARIANCES}
    words = "; ".join(
        f"{name} variance {sums[ROOT]:.2f} (equal time {sums['equal time']:.2f})"
        for name, sums in sums_by_variance.items()
    )
    what = f"sum of the response times of {TOGETHER} jobs under the policy over that of equal shares"
    return f"{what}: {words}", all(
        min(sums, key=lambda rule: sums[rule]) == ROOT for sums in sums_by_variance.values()
    )


BETTER = "shares by the square root of work give shorter response times than equal shares"
PAPER.claim("1", BETTER, each=[(ROOT, EQUAL)])(_shorter)


@PAPER.claim("1", "rules may do worse than those without knowledge if the jobs are known only approximately")
def _not_robust(results: Results) -> Finding:
    """It holds if guesses make a rule worse than equal shares where it is better with exact knowledge."""
    rules = {ROOT: "square root of guessed work", "equal time": "equal time by guessed work"}
    ratios = {rule: _ratios(results, rule, EQUAL, LOADS) for rule in (*rules, *rules.values())}
    spoilt = [
        cell
        for known, unknown in rules.items()
        for cell, mean in ratios[unknown].items()
        if mean.low > 1 and ratios[known][cell].high < 1
    ]
    words = f"only then in {len(spoilt)} of {sum(len(ratios[rule]) for rule in rules)} cells; "
    words += "over equal shares: " + "; ".join(f"{rule} {_words(some)}" for rule, some in ratios.items())
    return words, bool(spoilt)


@PAPER.claim("2", "copying several tens of MB takes several seconds even over a Fast Ethernet")
def _several_seconds(results: Results) -> Finding:
    times_s = [here("eager", size_mb).cost().stopped_s for size_mb in (30.0, 90.0)]
    words = " to ".join(f"{time_s:.1f}" for time_s in times_s) + " s for 30 to 90 MB"
    return words, all(2 <= time_s <= 10 for time_s in times_s)


@PAPER.claim(
    "2",
    "Charlotte moves a process of 32 KB in 242 ms",
    "V stops programs for 5 to 210 ms, while a copy of their memory takes 3 s for each MB",
    "copy on reference takes one time for all sizes, a thousand times less than eager copy (Accent)",
    "eager copy moves memory that is never used; copy on reference does not, and pre-copy moves more",
    "only copy on reference leaves memory on the old machine; a flush leaves it on the file server",
)
def _by_settings(results: Results) -> Iterator[Finding]:
    """These follow from the settings above, which are the papers'."""
    charlotte_s, eager_s, min_s, max_s = (
        move.cost().stopped_s for move in (CHARLOTTE, V_EAGER, V_LITTLE, V_MUCH)
    )
    yield f"{charlotte_s * 1e3:.0f} ms", papers.arithmetic(abs(charlotte_s / 0.242 - 1) <= 0.05)
    words = f"{min_s * 1e3:.1f} to {max_s * 1e3:.0f} ms, and {eager_s:.0f} s for 1 MB"
    yield words, papers.arithmetic(eager_s == 3.0 and min_s <= 0.01 and 0.1 <= max_s <= 0.4)
    moves = [accent(size_mb) for size_mb in (0.01, 0.1, 1.0, 10.0, 100.0)]
    stopped_s = [move.cost().stopped_s for move in moves]
    copied_s = [replace(move, technique="eager").cost().stopped_s for move in moves]
    faster = max(eager / ours for eager, ours in zip(copied_s, stopped_s, strict=True))
    words = f"{max(stopped_s):.2f} s (assumed) over four orders of magnitude, up to {faster:.0f} times less"
    yield words, papers.arithmetic(min(stopped_s) == max(stopped_s) and faster >= 1000)
    costs = {name: here(name).cost() for name in TECHNIQUES}
    words = ", ".join(f"{name} {costs[name].moved_mb:.1f} MB" for name in TECHNIQUES[:3])
    holds = costs["on-reference"].moved_mb < costs["eager"].moved_mb < costs["pre-copy"].moved_mb
    yield f"{words} of a process of 50 MB that uses 40 %", papers.arithmetic(holds)
    leftovers = [name for name, cost in costs.items() if cost.residual_mb]
    yield papers.words("{} {.residual_mb:.0f} MB", costs), papers.arithmetic(leftovers == ["on-reference"])


ABOUT = 0.05  # the survey's "about 80 %" and "about half" are whole tenths


def _busy(results: Results, packing: str) -> list[float]:
    return [busy.mean for busy in results.where(packing=packing).column("busy")]


def _mean(results: Results, packing: str) -> float:
    return float(np.mean(_busy(results, packing)))


@PAPER.claim(
    "3", "under the matrix algorithm about 80 % of the processors run coscheduled processes on average"
)
def _full(results: Results) -> Finding:
    busy = _busy(results, "matrix")
    matrix = _mean(results, "matrix")
    halves = [one.half or 0.0 for one in results.where(packing="matrix").column("busy")]
    half = float(np.linalg.norm(halves)) / len(halves)
    words = f"{matrix:.1%} +- {half:.1%} on average, {min(busy):.0%} to {max(busy):.0%} by workload"
    apart = abs(matrix - 0.8)
    return words, verdict(apart <= ABOUT, abs(apart - ABOUT) > half)


@PAPER.claim(
    "3",
    "in the worst case the matrix algorithm leaves about half of the processors idle, as jobs come",
    "in the worst case the matrix algorithm leaves about half of them idle, as jobs come and leave",
)
def _worst(results: Results) -> Iterator[Finding]:
    """The survey's example has jobs of 4 and 5 on 8 processors: 7 of 16 slots are empty."""
    example = idle((4, 5), 8)
    most, sizes = most_idle(8, 4)
    words = f"{example:.0%} in the survey's example; at most {most:.0%} with up to 4 jobs "
    words += f"({' and '.join(map(str, sizes))}; P = 8)"
    yield words, example == 7 / 16 and abs(most - 0.5) <= 0.5 / 8
    most = 1 - min(results.where(packing="matrix").column("lowest"))
    yield f"up to {most:.0%} between two decisions", most <= 0.5 + ABOUT


@PAPER.claim(
    "3",
    "the continuous algorithm packs better than the matrix algorithm",
    "the undivided algorithm reduces the fragmentation that arises in the continuous one",
)
def _packings(results: Results) -> Iterator[Finding]:
    matrix, continuous, undivided = (_mean(results, name) for name in ("matrix", "continuous", "undivided"))
    pairs = list(zip(_busy(results, "continuous"), _busy(results, "matrix"), strict=True))
    better = sum(ours >= theirs - 0.005 for ours, theirs in pairs)
    words = f"{continuous:.0%} against {matrix:.0%}; not worse in {better} of {len(pairs)} workloads"
    yield words, verdict(continuous > matrix, abs(continuous - matrix) > 0.005)
    words = f"{undivided:.0%} against {continuous:.0%}"
    yield words, verdict(undivided > continuous, abs(undivided - continuous) > 0.005)


@PAPER.claim("3", "where sizes are powers of two, hierarchical control balances the load across processors")
def _balance(results: Results) -> Finding:
    """Processes per processor: the largest difference."""
    ours, theirs = (
        results.where(packing=packing, distribution="powers of two").column("spread")
        for packing in ("hierarchical control", "matrix")
    )
    pairs = list(zip(ours, theirs, strict=True))
    words = ", ".join(
        f"{a.mean:.2f} against {b.mean:.2f} ({n} jobs)" for n, (a, b) in zip(POPULATIONS, pairs, strict=True)
    )
    apart = [abs(b.mean - a.mean) > (a.half or 0) + (b.half or 0) for a, b in pairs]
    worse = any(far and a.mean >= b.mean for far, (a, b) in zip(apart, pairs, strict=True))
    words = f"processes per processor, most minus fewest, against the matrix: {words}"
    return words, verdict(not worse, worse or any(apart))
