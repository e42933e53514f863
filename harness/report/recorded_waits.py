"""Recorded and simulated waits as text: how far the simulation is off, and why it may be."""

from collections.abc import Iterator

from harness.analyse.columns import counted, four_digits, percent
from harness.predict.recorded_waits import NO_WAIT, WaitComparison, Waits
from harness.report.cells import Line, Part, Table, table
from harness.spec.naming import scheduler_name

SMALL = 0.005  # a smaller error is none in whole percents


def render(compared: WaitComparison) -> Iterator[Part]:
    """The errors in a sentence, both sides in a table, and what the log shows that may explain them."""
    yield Line(sentence(compared), style="bold")
    if compared.recorded and compared.simulated:
        yield _table(compared.recorded, compared.simulated)
        if compared.rank_correlation is not None:
            yield f"Rank correlation of the waits, job by job: {compared.rank_correlation:.2f}."
    if compared.left_out and compared.jobs:
        yield Line(f"Not compared: {counted(compared.left_out, ',')}.", indent=4)
    for text in compared.differences:
        yield Line(f"Differs: {text}.", indent=9)


def sentence(compared: WaitComparison) -> str:
    """How far the simulated waits are off."""
    name = scheduler_name(compared.scheduler)
    what = f"Your queue as it was, {name} on {compared.processors:,} processors"
    recorded = compared.recorded
    simulated = compared.simulated
    if not (recorded and simulated):
        if NO_WAIT in compared.left_out:
            return f"{what}: not compared, since the log has no recorded waits"
        return f"{what}: not compared (jobs left out: {counted(compared.left_out, ',')})"
    mean = _error(compared.mean_error, simulated.mean_s, recorded.mean_s)
    p90 = _error(compared.p90_error, simulated.p90_s, recorded.p90_s)
    return f"{what}: simulated wait {mean} recorded (mean of {compared.jobs:,} jobs), 90th percentile {p90}"


def _error(error: float | None, simulated_s: float, recorded_s: float) -> str:
    if error is None:
        return f"{four_digits(simulated_s)} s, {four_digits(recorded_s)} s"
    if abs(error) < SMALL:
        return f"within {percent(SMALL)} % of"
    return f"{percent(abs(error), 0)} % {'below' if error < 0 else 'above'}"


def _table(recorded: Waits, simulated: Waits) -> Table:
    waits = table(["wait, s"], ["mean", "median", "90th\npercentile", "longest", "% of jobs\nthat wait"])
    for name, side in (("recorded", recorded), ("simulated", simulated)):
        values = (side.mean_s, side.median_s, side.p90_s, side.max_s)
        waits.add_row(name, *map(four_digits, values), percent(side.waiting))
    return waits
