"""Results as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from harness.analyse import agreement
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import Row, different_jobs
from harness.report.cells import (
    ENDLESS,
    LEGEND_STATES,
    LEGEND_TWO,
    OF_RANKS,
    SHARES,
    SLOWDOWNS,
    UNKNOWN,
    doubts,
    fixed,
    headed,
    share_cells,
    slowdown_cells,
    state_cells,
    table,
)
from harness.spec.naming import policy_name, program_name, short_name, waiting_name

Headings = tuple[str, ...]
_SIMULATED: Headings = ("simu-\nlated", "error\n%")
_SLOTS: Headings = ("late\nus", "skew\nus")
_SPINNING: Headings = ("against\nspinning",)
_RESPONSES: Headings = ("burst\nms",)
_SIMULATED_RESPONSES: Headings = ("burst ms\nsimulated",)
LEGEND_RESPONSES = "Burst: mean/99th percentile of the response times of the bursts of interactive jobs."
LEGEND_SPINNING = "Against spinning: makespan / sum of the dedicated times of spinning jobs."
LEGEND = (
    "Workload slowdown: makespan / sum of dedicated times; job: response time / dedicated time. "
    "Late, skew: median/99th percentile of slot switches."
)


def render(found: ResultsDocument) -> Iterator[RenderableType]:
    """The doubts, a table for each point of the sweep, and the agreement."""
    yield from doubts(found.doubts)
    for _, rows in groupby(found.rows, key=lambda row: row.settings):
        block = list(rows)
        yield Text(_title(found.experiment, block[0]), style="bold")
        yield _Block(block)
        if different_jobs(block):
            yield _each_job(block)
    yield Text(LEGEND, style="dim")
    if any(row.measured and row.measured.responses for row in found.rows):
        yield Text(LEGEND_RESPONSES, style="dim")
    sides = [side for row in found.rows for side in row.sides.values()]
    if any(side.states for side in sides):
        yield Text(LEGEND_STATES, style="dim")
    if any(side.against_spinning for side in sides):
        yield Text(LEGEND_SPINNING, style="dim")
    if any(side.workload_slowdown.n == 2 for side in sides):
        yield Text(LEGEND_TWO, style="dim")
    if found.agreement:
        yield Text(agreement.sentence(found.agreement))


def _each_job(rows: Sequence[Row]) -> Table:
    """The slowdown of each job under each scheduler, measured before simulated."""
    names = [f"{n}\n{short_name(job.program)}" for n, job in enumerate(rows[0].jobs)]
    made = table(["slowdown of job\nunder"], names)
    for row in rows:
        found = [side.slowdown.per_job for side in row.sides.values() if side.slowdown]
        made.add_row(row.name, *(" / ".join(map(fixed, values)) for values in zip(*found, strict=True)))
    return made


class _Block:
    """The rows of one point of the sweep: one table, or two if the terminal is too narrow for one."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        measured = [row.measured for row in rows if row.measured]
        simulated = [row.simulated for row in rows if row.simulated]
        states, parts = (any(getattr(side, of) for side in measured) for of in ("states", "breakdown"))
        self._shares: Headings = OF_RANKS if states else SHARES if parts else ()
        self._slots = _SLOTS if any(side.switches for side in measured) else ()
        self._others: Headings = _RESPONSES if any(side.responses for side in measured) else ()
        if any(side.responses for side in simulated):
            self._others += _SIMULATED_RESPONSES
        if any(side.against_spinning for side in (*measured, *simulated)):
            self._others = (*_SPINNING, *self._others)
        self._slowdowns = headed(SLOWDOWNS, (side.workload_slowdown for side in measured))
        if simulated:
            self._slowdowns = (*self._slowdowns[:2], *_SIMULATED, *self._slowdowns[2:])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = self._table(self._slowdowns, self._shares, self._slots)
        if Measurement.get(console, options.update(max_width=ENDLESS), whole).maximum <= options.max_width:
            yield whole
        else:
            yield self._table(self._slowdowns, (), ())
            if self._shares or self._slots:
                yield self._table((), self._shares, self._slots)

    def _table(self, slowdowns: Headings, shares: Headings, slots: Headings) -> Table:
        others = self._others if slowdowns else ()
        made = table(["policy", "waiting"], [*slowdowns, *others, *shares, *slots], wrap=False)
        for row in self._rows:
            cells = [policy_name(row.scheduler), waiting_name(row.scheduler)]
            cells += _slowdowns(row, slowdowns) if slowdowns else ()
            cells += _others(row, others)
            if shares:
                cells += (state_cells if shares is OF_RANKS else share_cells)(row.measured)
            cells += _slots(row) if slots else ()
            made.add_row(*cells)
        return made


def _title(name: str, row: Row) -> str:
    described = "; ".join(dict.fromkeys(program_name(job.program) for job in row.jobs))
    jobs = f"{len(row.jobs)} job{'s' if len(row.jobs) > 1 else ''}"
    alone_s = row.measured and row.measured.dedicated_s
    alone = f"; alone, one after the other: {alone_s:.2f} s" if alone_s else ""
    if row.measured and row.measured.against_spinning:
        alone += f", spinning: {row.measured.against_spinning.dedicated_s:.2f} s"
    n = max(row.measured.workload_slowdown.n if row.measured else 0, 1)
    point = "".join(
        f", {key} = {value}" for key, value in row.settings.items() if not key.startswith("program.")
    )
    return f"{name}: {jobs} of {described}{point}{alone}; {n} repeat{'s' if n > 1 else ''}"


def _slowdowns(row: Row, headings: Headings) -> list[str]:
    cells = slowdown_cells(row.measured)
    if _SIMULATED[0] in headings:
        error = UNKNOWN if row.error is None else f"{100 * row.error:+.0f}"
        cells[2:2] = fixed(row.median("simulated")), error
    return cells


def _others(row: Row, headings: Headings) -> Iterator[str]:
    if _SPINNING[0] in headings:
        side = row.measured or row.simulated
        other = side and side.against_spinning
        yield fixed(other.workload_slowdown.median if other else None)
    for (heading,), side in (_RESPONSES, row.measured), (_SIMULATED_RESPONSES, row.simulated):
        if heading in headings:
            found = side and side.responses
            yield f"{found.mean_ms:.1f}/{found.p99_ms:.1f}" if found else UNKNOWN


def _slots(row: Row) -> Iterator[str]:
    switches = row.measured and row.measured.switches
    for times in (switches.lateness_us, switches.skew_us) if switches else (None, None):
        yield f"{times.p50:.0f}/{times.p99:.0f}" if times else ""
