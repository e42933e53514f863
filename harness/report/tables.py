"""Results as files: comma-separated values, Markdown, tests in JUnit's XML, and times as of hyperfine."""

import csv
import io
import json
import shlex
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.analyse.columns import UNKNOWN, Column
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import (
    BREAKDOWN,
    RANKS,
    RESPONSES,
    TIMES,
    Row,
    columns,
    of_known_side,
    of_means,
    place_name,
    places,
    saturated_name,
)
from harness.analyse.verdicts import Broken, Threshold
from harness.measure.disturbance import that_stand
from harness.measure.plan import label
from harness.report.cells import numbered
from harness.report.junit import Case, Failure, as_xml
from harness.store.records import DEDICATED, MEASURED_KINDS, RunRecord

MARKUP = "|<\\`"  # characters that have a meaning in Markdown


def comma_separated(results: ResultsDocument) -> str:
    """A heading and a line for each row, with full precision; of simulated jobs means and half-widths."""
    if results.by_job:
        return _lines([*places(results.rows), *_means(results.rows)], results.rows)
    commands = any(side.states for row in results.rows for side in row.sides.values())
    more = columns("csv", BREAKDOWN, *([RANKS] if commands else []))
    return _lines([*_columns(results.rows), *of_known_side(more, results.rows)], results.rows)


def _means(rows: Sequence[Row]) -> Iterator[Column]:
    """The means over jobs: of each side if some were measured."""
    for key in ("replications", "saturated"):
        yield Column(f"schedule.{key}", csv=key)
    names = dict.fromkeys(name for row in rows if row.schedule for name in row.schedule.metrics)
    if any(row.measured for row in rows):
        for side in dict.fromkeys(side for row in rows for side in row.sides):
            yield from (Column(f"{side}.schedule.metrics.{name}", csv=f"{side}_{name}") for name in names)
        return
    yield from (Column(f"schedule.metrics.{name}", csv=name) for name in names)
    yield from (Column(f"schedule.half_width.{name}", csv=f"{name}_half") for name in names)


def _lines(shown: Sequence[Column], rows: Sequence[Row]) -> str:
    return lines_of_values([{one.csv: one.value(row) for one in shown} for row in rows])


def lines_of_values(lines: Sequence[Mapping[str, Any]]) -> str:
    """A heading of the keys, and a line for each of at least one mapping."""
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def markdown(results: ResultsDocument) -> str:
    """A heading, the warnings and a table."""
    shown = _columns(results.rows)
    lines = [f"# {_short(results.experiment)}", ""]
    lines += [results.notice, ""] if results.notice else []
    lines += [*(f"- {line}" for line in numbered(results.warnings)), ""] if results.warnings else []
    lines += [f"| {' | '.join(one.csv for one in shown)} |", "|---" * len(shown) + "|"]
    lines += [f"| {' | '.join(_short(one.value(row)) for one in shown)} |" for row in results.rows]
    return "\n".join(lines) + "\n"


def _columns(rows: Sequence[Row]) -> list[Column]:
    if any(row.schedule for row in rows):
        texts = [replace(one, path=one.text, csv=one.page.strip()) for one in of_means(rows)]
        *points, name = places(rows)
        named = replace(name, path=lambda row: saturated_name(row, "{} (saturated: {})"))
        return [*points, named, *texts]
    return [
        Column("workload", csv="program"),
        *places(rows),
        *of_known_side(columns("csv", "", RESPONSES, TIMES), rows),
    ]


def _short(value: Any) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:.3f}" if isinstance(value, float) else escaped(str(value))


def escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in MARKUP else c for c in text)


def junit(
    experiment: str, rows: Sequence[Row], side: str, broken: Sequence[Broken], failures: Sequence[str]
) -> str:
    """A test for each row, which fails if it breaks a threshold; one that fails for each failed run."""
    cases = []
    for row in rows:
        duration_s = (row.sides[side].makespan_s if side in row.sides else None) or 0.0
        failed = [Failure(sentence(threshold, row, side)) for threshold, other in broken if other is row]
        cases.append(Case(place_name(row), duration_s, failed))
    cases += [Case(failure.partition(":")[0], failures=[Failure(failure)]) for failure in failures]
    return as_xml(experiment, cases)


def sentence(threshold: Threshold, row: Row, side: str) -> str:
    median = row.median(side)
    exceeded = row.sides[side].exceeded if side in row.sides else None
    unknown = f"is above {exceeded:g}" if exceeded else "is unknown"
    text = unknown if median is None else f"is {median:.3f}"
    reason = row.withheld.reason if row.withheld else row.saturated
    text += f" ({reason})" if reason else ""
    point = "".join(f", {key} = {value}" for key, value in row.settings.items())
    return f"the {side} slowdown of {row.name}{point} {text}: {threshold.text}"


def hyperfine(records: Iterable[RunRecord]) -> str:
    """The times of commands in the form of hyperfine's ``--export-json``, which other tools read.

    There is one for each program alone, one if it is also recorded, and one for all under each scheduler.
    ``times`` are seconds from the first arrival to the last finish. ``user`` is the CPU time of all
    processes, in user mode or in the kernel, which the kernel counts together; ``system`` is 0.
    """
    runs: dict[str, list[RunRecord]] = {}
    successful = [one for one in records if one.kind in MEASURED_KINDS and one.makespan_ns is not None]
    for record in that_stand(successful):
        runs.setdefault(_command(record), []).append(record)
    return json.dumps({"results": [_result(name, run) for name, run in runs.items()]}, indent=2) + "\n"


def _command(record: RunRecord) -> str:
    programs = " ::: ".join(shlex.join(job.program["argv"]) for job in record.jobs)
    how = "" if record.kind == DEDICATED else f" ({label(record.kind, record.scheduler, {})})"
    return programs + how


def _result(command: str, runs: Sequence[RunRecord]) -> dict[str, Any]:
    times = [run.makespan_ns / 1e9 for run in runs if run.makespan_ns is not None]
    used = [sum(rank.running_ns or 0 for rank in run.ranks) / 1e9 for run in runs]
    return {
        "command": command,
        "mean": statistics.fmean(times),
        "stddev": statistics.stdev(times) if len(times) > 1 else None,
        "median": statistics.median(times),
        "user": statistics.fmean(used),
        "system": 0.0,
        "min": min(times),
        "max": max(times),
        "times": times,
        "exit_codes": [0] * len(times),
    }
