"""``lockstep colocate -- COMMAND ::: COMMAND``: whether programs may run at once on the same processors."""

from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path

from harness import application
from harness.analyse.sharing import advice
from harness.analyse.verdicts import Threshold
from harness.application import Ran, RunOptions
from harness.commands import SCHEMA, Answer, shared, tune
from harness.commands.shared import judged, thresholds_of, write
from harness.measure.session import Watcher
from harness.report import tables, text
from harness.spec import colocate, experiment, hosts
from harness.spec.colocate import SEPARATOR
from harness.store.records import RunRecord
from workloads.validation import InputError, one_of

FEWEST_PAIRED = 3
FORMATS = ("csv", "png", "svg")


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--policy",
        action="append",
        default=[],
        metavar="POLICY",
        help='also measure under this policy, with its keys, e.g. "gang quantum_ms=20"',
    )
    add("--rounds", type=int, default=8, metavar="N", help="measure everything at most this many times")
    add(
        "--precision",
        type=float,
        default=experiment.PRECISION,
        metavar="SHARE",
        help="stop when all 95 %% intervals are at most this share of the median",
    )
    add("--record", action="store_true", help="record each program alone, and simulate all policies")
    add("--file", type=Path, metavar="FILE", help="read commands from a file, one on each line")
    add(
        "--export-hyperfine",
        type=Path,
        metavar="FILE",
        help="write the times in the form of hyperfine's --export-json",
    )
    add(
        "--settings",
        action="store_true",
        help=(
            "measure the settings of MPI, OpenMP and OpenBLAS against spinning, as tune does for one program"
        ),
    )
    add(
        "--pairs",
        action="store_true",
        help="measure the programs two at a time, and print a matrix of slowdowns",
    )
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"write the matrix of --pairs to a file; its suffix is one of {', '.join(FORMATS)}",
    )
    shared.add_one_of(parser, *shared.HOSTS)
    shared.add(parser, "--env", "--results", "--resume", "--no-wait", *shared.VERDICTS)
    parser.add_argument(
        "program",
        nargs=REMAINDER,
        metavar="-- COMMAND ...",
        help=f"measure these programs, with {SEPARATOR} between them; each is one word or several",
    )


def execute(options: Namespace, watcher: Watcher) -> Answer:
    commands = colocate.given(options.program, options.file)
    if options.settings:
        return _settings(options, commands, watcher)
    if options.pairs:
        return _pairs(options, commands, watcher)
    if options.output is not None:
        raise InputError(
            "--output",
            str(options.output),
            "needs --pairs, whose matrix it writes",
            "add --pairs, or leave it out",
        )
    if options.export_hyperfine is not None:
        shared.check_writable("--export-hyperfine", options.export_hyperfine)
    ran, conditions = _measured(options, commands, watcher)
    results = ran.results
    if options.export_hyperfine is not None:
        write("--export-hyperfine", options.export_hyperfine, tables.hyperfine(ran.made))
    sentences = advice(results.rows)
    lines = [*text.render(results, programs=True), *([sentences.sentence] if sentences else [])]
    if results.notice:
        lines.append("No advice: repeat it when the other programs have ended.")
    advised = sentences and {
        "way": sentences.best.kind,
        "scheduler": sentences.best.scheduler or None,
        "sentence": sentences.sentence,
        "ways": [asdict(way) for way in sentences.ways],
    }
    document = {**results.document(), "advice": advised}
    answer = Answer(document, lines, status=1 if results.failures else 0, notes=_notes(ran))
    return judged(answer, results, options, conditions, "measured")


def _measured(
    options: Namespace, commands: Sequence[Sequence[str]], watcher: Watcher, records: Sequence[RunRecord] = ()
) -> tuple[Ran, list[Threshold]]:
    table = colocate.table(
        commands,
        options.policy,
        rounds=options.rounds,
        precision=options.precision,
        record=options.record,
        environment=shared.environment_of(options),
    )
    where = hosts.chosen(options.hosts, options.hostfile)
    experiment_here = experiment.load(table, settings=where, here=True)
    conditions = thresholds_of(options, experiment_here)
    run = RunOptions(simulate=options.record, resume=options.resume, no_wait=options.no_wait, known=records)
    return application.run(experiment_here, options.results, watcher, run), conditions


def _settings(options: Namespace, commands: Sequence[Sequence[str]], watcher: Watcher) -> Answer:
    unlike = (
        *("pairs", "policy", "record", "environment", "output", "export_hyperfine", "precision"),
        *("hosts", "hostfile"),
    )
    _only(options, "settings", unlike)
    table = colocate.table(commands, rounds=options.rounds, precision=options.precision)
    experiment.load(table, here=True)  # bad input shows before anything runs
    same = (
        "rounds",
        "no_wait",
        "results",
        "resume",
        *(name[2:].replace("-", "_") for name in shared.VERDICTS),
    )
    return tune.measured(tune.usual(**{name: getattr(options, name) for name in same}), commands, watcher)


def _only(options: Namespace, mode: str, unlike: Sequence[str]) -> None:
    parser = ArgumentParser()
    arguments(parser)
    for name in unlike:
        if getattr(options, name) != parser.get_default(name):
            option = {"environment": "env"}.get(name, name.replace("_", "-"))
            raise InputError(
                f"--{mode}", True, f"cannot be combined with --{option}", "leave one of the two out"
            )


def _pairs(options: Namespace, commands: Sequence[Sequence[str]], watcher: Watcher) -> Answer:
    judging = (name[2:].replace("-", "_") for name in shared.VERDICTS)
    _only(options, "pairs", ("export_hyperfine", *judging))
    if len(commands) < FEWEST_PAIRED:
        raise InputError(
            "--pairs",
            True,
            f"needs {FEWEST_PAIRED} or more programs, and has {len(commands)}",
            f"write another behind {SEPARATOR}, or leave --pairs out",
        )
    kind = options.output.suffix[1:] if options.output else "csv"
    one_of("--output", kind, FORMATS)
    ran, records = {}, list[RunRecord]()
    for first, second in combinations(range(len(commands)), 2):
        watcher.note(f"jobs {first} and {second}")
        ran[first, second], _ = _measured(options, [commands[first], commands[second]], watcher, records)
        records += [*ran[first, second].resumed, *ran[first, second].made]
    from harness.report import pairs, style  # noqa: PLC0415 - matplotlib is slow to import

    matrix = pairs.of({both: one.results for both, one in ran.items()})
    if options.output is not None and kind == "csv":
        write("--output", options.output, tables.lines_of_values(list(matrix.lines())))
    elif options.output is not None:
        figure = style.drawn(lambda: pairs.heat_map(matrix))
        write("--output", options.output, style.file(figure, kind))
    sentences = [(names, advice(one.results.rows)) for names, one in ran.items()]
    lines = [f"{a} and {b}: {best.sentence}" for (a, b), best in sentences if best]
    document = {
        "schema": SCHEMA,
        "programs": [list(words) for words in commands],
        "pairs": [{"programs": [*both], **one.results.document()} for both, one in ran.items()],
        "slowdowns": list(matrix.lines()),
    }
    notes = [note for one in ran.values() for note in _notes(one)]
    return Answer(document, [pairs.text(matrix), *lines], status=1 if notes else 0, notes=tuple(notes))


def _notes(ran: Ran) -> tuple[str, ...]:
    failed = [record.failure.partition("\n")[0] for record in ran.made if record.failure]
    return (f"{len(failed)} of {len(ran.made)} runs failed: {failed[0]}",) if failed else ()
