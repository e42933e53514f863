"""``lockstep compare`` of two results directories, or of two schedulers of one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.analyse import comparison, results_document
from harness.analyse.comparison import Comparison
from harness.analyse.summary import TAU_S
from harness.commands import SCHEMA, Answer
from harness.commands.shared import write
from harness.commands.stored import Found, read
from harness.measure.session import Watcher
from harness.report import documents, tables
from harness.store import conditions
from harness.store.records import MEASURED_KINDS, RunRecord
from workloads.validation import InputError, one_of


def answer(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Compare before with after; the status is 1 if a row of the second directory is worse.

    Raises:
        InputError: if there is no such directory, experiment or scheduler, or nothing to compare.
    """
    if options.between and options.after is not None:
        rule = "two directories are compared scheduler by scheduler"
        raise InputError("--between", options.between, rule, "give one directory, or leave --between out")
    before = read(options.results, options.experiment, watcher)
    pairs = (
        [(found, found) for found in before]
        if options.between
        else list(_pairs(before, read(options.after, options.experiment, watcher), options.after))
    )
    if options.between:
        known = dict.fromkeys(row.scheduler for found in before for row in comparison.series(*_parts(found)))
        for name in options.between:
            one_of("--between", name, known)
    experiments = [(*pair, _compared(*pair, options.between)) for pair in pairs]
    made = [_document(*one) for one in experiments]
    every = [row for *_, rows in experiments for row in rows]
    if not every:
        rule = "never measured the same jobs under both schedulers"
        raise InputError("--between", options.between, rule, "choose two schedulers of one experiment")
    if options.csv:
        write("--csv", options.csv, tables.lines_of_values(comparison.flat(row.plain() for row in every)))
    worse = any(row.verdict == comparison.WORSE for row in every)
    document = {"schema": SCHEMA, "experiments": made}
    text = [part for one in made for part in documents.before_after(one)]
    return Answer(document, text, status=1 if worse and not options.between else 0)


def _parts(found: Found) -> tuple[Any, Sequence[RunRecord]]:
    return found.experiment, found.records


def _pairs(before: Sequence[Found], after: Sequence[Found], folder: Path) -> Iterator[tuple[Found, Found]]:
    """The newest experiments of one name in both directories; the only ones may have different names.

    Raises:
        InputError: if no name is in both.
    """
    first, second = ({found.experiment.name: found for found in side} for side in (before, after))
    names = [name for name in first if name in second]
    if not names and len(first) == len(second) == 1:
        yield before[-1], after[-1]
        return
    if not names:
        rule = f"holds {', '.join(second)}, but the other directory {', '.join(first)}"
        raise InputError("RESULTS", str(folder), rule, "run the same experiment in both")
    yield from ((first[name], second[name]) for name in names)


def _compared(before: Found, after: Found, between: Sequence[str] | None) -> list[Comparison]:
    rows = comparison.series(*_parts(before))
    if between:
        return comparison.of_two_schedulers(rows, *between)
    return comparison.of_two_stores(rows, comparison.series(*_parts(after)))


def _document(before: Found, after: Found, rows: Sequence[Comparison]) -> dict[str, Any]:
    """An experiment of the document that --json prints."""
    ends = {"before": before, "after": after} if after is not before else {"": before}
    last = [_last(found).conditions for found in (before, after)]
    return {
        "experiment": after.experiment.name,
        "digests": [found.experiment_digest for found in ends.values()],
        "differences": [
            {"field": field, "before": old, "after": new} for field, old, new in conditions.differences(*last)
        ],
        "doubts": [f"{side}: {it}" if side else it for side, found in ends.items() for it in _doubts(found)],
        "rows": [row.plain() for row in rows],
    }


def _last(found: Found) -> RunRecord:
    measured = [record for record in found.records if record.kind in MEASURED_KINDS]
    return (measured or found.records)[-1]


def _doubts(found: Found) -> Sequence[str]:
    return results_document.results(found.experiment, found.records, TAU_S).doubts
