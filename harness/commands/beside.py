"""``lockstep beside -- COMMAND ::: COMMAND...``: whether programs may run at once on the same processors."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import application
from harness.analyse.sharing import Advice, advice
from harness.commands import Answer
from harness.commands.shared import (
    anyway_argument,
    judged,
    results_argument,
    thresholds_of,
    verdict_arguments,
    write,
)
from harness.measure.session import Watcher
from harness.report import hyperfine, text
from harness.spec import beside, experiment
from harness.spec.beside import SEPARATOR
from workloads.validation import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_text = 'also under this policy, with its keys: "gang quantum_ms=20"; may be repeated'
    add("--policy", action="append", default=[], metavar="POLICY", help=help_text)
    add("--rounds", type=int, default=8, metavar="N", help="how often everything is measured at the most")
    help_text = "enough rounds: 95 %% intervals are at most this share of the median (default: %(default)s)"
    add("--precision", type=float, default=experiment.PRECISION, metavar="SHARE", help=help_text)
    add("--record", action="store_true", help="record each program alone, and simulate all ways")
    add("--file", type=Path, metavar="FILE", help="a file with a command on each line")
    help_text = "write the times in the form of hyperfine's --export-json"
    add("--export-hyperfine", type=Path, metavar="FILE", help=help_text)
    results_argument(parser)
    anyway_argument(parser)
    verdict_arguments(parser)
    help_text = f"programs, with {SEPARATOR} between them; each in one word or several"
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help=help_text)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Measure each program alone and all together, and advise."""
    commands = _commands(options)
    table = beside.table(
        commands,
        options.policy,
        rounds=options.rounds,
        precision=options.precision,
        record=options.record,
    )
    wanted = experiment.load(table, here=True)
    conditions = thresholds_of(options, wanted)
    ran = application.run(wanted, options.results, watcher, simulate=options.record, anyway=options.anyway)
    found = ran.results
    if options.export_hyperfine is not None:
        write("--export-hyperfine", options.export_hyperfine, hyperfine.exported(ran.made))
    said = advice(found.rows)
    failed = [record.failure for record in ran.made if record.failure]
    notes = [f"{len(failed)} of {len(ran.made)} runs failed: {failed[0]}"] if failed else []
    lines = [*text.render(found), *([said.sentence] if said else [])]
    document = {**found.document(), "advice": said and _document(said)}
    answer = Answer(document, lines, status=1 if failed else 0, notes=tuple(notes))
    return judged(answer, found, options, conditions, "measured")


def _commands(options: argparse.Namespace) -> list[list[str]]:
    words: Sequence[str] = options.program[options.program[:1] == ["--"] :]
    if options.file is None:
        return beside.split(words)
    if words:
        rule = "names commands, and more of them follow --"
        raise InputError("--file", str(options.file), rule, "leave one of the two out")
    try:
        return beside.lines(options.file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        remedy = "name a file with a command on each line"
        raise InputError("--file", str(options.file), f"cannot be read: {why}", remedy) from error


def _document(said: Advice) -> dict[str, Any]:
    return {
        "way": said.best.kind,
        "scheduler": said.best.scheduler or None,
        "sentence": said.sentence,
        "ways": [asdict(way) for way in said.ways],
    }
