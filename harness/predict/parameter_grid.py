"""An experiment and its neighbours in four dimensions, as short simulations that a page can show at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeGuard

from harness.spec.experiment import Cell, Experiment
from harness.spec.jobs import JobGroup
from harness.spec.scheduler import scheduler_of
from workloads.patterns import BULK_SYNCHRONOUS, reads_per_phase
from workloads.program import Program
from workloads.validation import InputError
from workloads.work import duration_name

PANELS = {"none": "none", "implicit": "two-phase", "gang": "gang"}
"""The policies that stand side by side, with the headings of their panels."""

FACTORS = (1, 4, 20)
IMBALANCES = (0.25, 1.0, 1.75)
QUANTA_MS = (10.0, 50.0)
RULES: Mapping[str, Mapping[str, Any]] = {
    "none: block at once": {"waiting": "immediate"},
    "2 context switches": {"waiting": "fixed", "spin_switches": 2},
    "adaptive": {"waiting": "global-adaptive"},
}
"""How long processes of the two-phase scheduler spin."""

WINDOW_NS, MOST_SPANS, MOST_SPANS_OF_PROCESS = 200_000_000, 330_000, 50_000
"""The window is so short that about so many spans are in it: of all simulations, and of one process."""


@dataclass(frozen=True)
class ParameterGrid:
    """Points of a grid around an experiment; simulations of all of them begin alike."""

    # A cell for each granularity and imbalance, the latter fastest, under ``none``, a two-phase scheduler
    # for each of RULES, and ``gang`` for each quantum, in this order.
    experiment: Experiment
    # Of granularity (of the first program), imbalance, quantum and spin, in words.
    values: Mapping[str, Sequence[str]]
    # The places of the experiment's own values, but for the spin, which is adaptive.
    own: tuple[int, int, int, int]
    window_ns: int  # how much of each simulation there is to show


def around(base: Experiment) -> ParameterGrid:
    """The neighbours of an experiment's first point; InputError if no job has a bulk-synchronous program."""
    cell = base.cells[0]
    ours = [job.program for job in cell.jobs() if _varies(job.program)]
    if not ours:
        rule = "has no bulk-synchronous program, whose granularity and imbalance could vary"
        raise InputError("EXPERIMENT", base.name, rule, "choose one with a pattern, such as three-jobs")
    first = ours[0]
    near = min(IMBALANCES, key=lambda value: abs(value - first.imbalance))
    imbalances = sorted({*IMBALANCES} - {near} | {first.imbalance})
    own_ms = [one.table["quantum_ms"] for one in base.schedulers if one.name == "gang"] or QUANTA_MS
    quanta_ms = sorted(list(dict.fromkeys([*own_ms, *QUANTA_MS]))[:2])
    tables: list[Mapping[str, Any]] = [{"policy": "none"}]
    tables += [{"policy": "implicit", **rule} for rule in RULES.values()]
    tables += [{"policy": "gang", "quantum_ms": quantum_ms} for quantum_ms in quanta_ms]
    # A phase has two spans, and two more for each read.
    per_ns = max((2 + 2 * reads_per_phase(it.pattern, it.processes)) / it.granularity_us for it in ours) / 1e3
    simulations = len(imbalances) * len(tables) * sum(1 / factor for factor in FACTORS)
    max_ns = MOST_SPANS / (per_ns * cell.processors * simulations), MOST_SPANS_OF_PROCESS / per_ns
    window_ns = int(min(WINDOW_NS, *max_ns))
    # Even under the best of schedulers the jobs take twice as long as the window.
    share = cell.processors / max(cell.processors, sum(job.program.width for job in cell.jobs()))
    cells = [
        replace(cell, index=n, settings={}, groups=tuple(_varied(cell, *at, 2 * share * window_ns / 1e9)))
        for n, at in enumerate(product(FACTORS, imbalances))
    ]
    schedulers = tuple(map(scheduler_of, tables))
    experiment = replace(base, repeats=1, min_repeats=1, schedulers=schedulers, cells=tuple(cells))
    values = {
        "granularity": [duration_name(first.granularity_us * factor) for factor in FACTORS],
        "imbalance": [f"{v:g} g" for v in imbalances],
        "quantum": [f"{quantum_ms:g} ms" for quantum_ms in quanta_ms],
        "spin": list(RULES),
    }
    own = 0, imbalances.index(first.imbalance), [it in own_ms for it in quanta_ms].index(True), len(RULES) - 1
    return ParameterGrid(experiment, values, own, window_ns)


def _varies(one: object) -> TypeGuard[Program]:
    return isinstance(one, Program) and one.pattern in BULK_SYNCHRONOUS


def _varied(cell: Cell, factor: float, imbalance: float, dedicated_s: float) -> Iterator[JobGroup]:
    """The groups with other programs; each lasts ``dedicated_s`` alone."""
    for group in cell.groups:
        if _varies(one := group.program):
            wide = replace(one, granularity_us=one.granularity_us * factor, imbalance=imbalance)
            group = replace(group, program=replace(wide, dedicated_s=dedicated_s, phases=None))  # noqa: PLW2901
        yield group
