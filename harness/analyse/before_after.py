"""Results before and after a change, or under two schedulers, compared row by row."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.analyse import comparison
from harness.analyse.comparison import Comparison
from harness.analyse.rows import Row
from harness.analyse.stored_runs import Found, read
from harness.measure.session import Watcher
from harness.store import conditions
from harness.store.records import MEASURED_KINDS, RunRecord
from workloads.validation import InputError, one_of


def compare(
    results: Path, other: Path | None, between: Sequence[str] | None, experiment: str | None, watcher: Watcher
) -> tuple[list[dict[str, Any]], list[Comparison]]:
    """A document of each experiment and all rows, of two directories or two schedulers; else InputError."""
    if between and other is not None:
        raise InputError(
            "--between",
            between,
            "cannot be combined with two directories",
            "name one directory, or leave --between out",
        )
    before = read(results, experiment, watcher)
    if between or other is None:
        pairs = [(result, result) for result in before]
        schedulers = dict.fromkeys(row.name for result in before for row in result.results.rows)
        for name in between or ():
            one_of("--between", name, schedulers)
        if between and between[0] == between[1]:
            raise InputError(
                "--between",
                " ".join(between),
                "must be two schedulers, and is one",
                f"choose from {', '.join(schedulers)}",
            )
    else:
        pairs = list(_pairs(before, read(other, experiment, watcher), other))
    experiments = [(*pair, _compared(*pair, between)) for pair in pairs]
    every = [row for *_, rows in experiments for row in rows]
    if not every:
        raise InputError(
            "--between",
            between,
            "must be two schedulers that ran the same jobs",
            "choose two schedulers of one experiment",
        )
    return [_document(*one) for one in experiments], every


def _rows(found: Found) -> list[Row]:
    """The rows; without simulated sides if anything was measured, which those are no counterparts of."""
    measured = any(record.kind in MEASURED_KINDS for record in found.records)
    return [replace(row, simulated=None) if measured else row for row in found.results.rows]


def _pairs(before: Sequence[Found], after: Sequence[Found], folder: Path) -> Iterator[tuple[Found, Found]]:
    """The newest experiments of one name in both directories; the only ones may have different names."""
    first, second = ({results.experiment.name: results for results in side} for side in (before, after))
    names = [name for name in first if name in second]
    if not names and len(first) == len(second) == 1:
        yield before[-1], after[-1]
        return
    if not names:
        raise InputError(
            "RESULTS",
            str(folder),
            f"must hold {' or '.join(first)}, as the other directory, and holds {', '.join(second)}",
            "run the same experiment in both",
        )
    yield from ((first[name], second[name]) for name in names)


def _compared(before: Found, after: Found, between: Sequence[str] | None) -> list[Comparison]:
    if between:
        return comparison.of_two_schedulers(_rows(before), *between)
    same_seed = before.records[-1].seed == after.records[-1].seed
    return comparison.of_two_stores(_rows(before), _rows(after), same_seed=same_seed)


def _document(before: Found, after: Found, rows: Sequence[Comparison]) -> dict[str, Any]:
    ends = {"before": before, "after": after} if after is not before else {"": before}
    last = [_last(results).conditions for results in (before, after)]
    return {
        "experiment": after.experiment.name,
        "digests": [results.experiment_digest for results in ends.values()],
        "differences": [
            {"field": field, "before": old, "after": new} for field, old, new in conditions.differences(*last)
        ],
        "warnings": [
            f"{side}: {it}" if side else it
            for side, results in ends.items()
            for it in (results.results.notice, *results.results.warnings)
            if it
        ],
        "rows": [row.plain() for row in rows],
    }


def _last(results: Found) -> RunRecord:
    measured = [record for record in results.records if record.kind in MEASURED_KINDS]
    return (measured or results.records)[-1]
