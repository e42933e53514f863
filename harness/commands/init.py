"""``lockstep init FILE``: write an experiment file to start from, or print the schema of all."""

import argparse
import json
from importlib import resources
from pathlib import Path

from harness.commands import SCHEMA, Answer
from harness.measure.session import Watcher
from workloads.validation import InputError, written

DEFAULT = Path("experiment.toml")

FILE = "lockstep.schema.json"
"""The name under which a new file names its schema, which must lie next to it by then."""

DIRECTIVE = f"#:schema ./{FILE}\n"
"""The first line by which taplo, and editors with it, find the schema of a file."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?", default=DEFAULT, help="write this file")
    parser.add_argument(
        "--schema",
        action="store_true",
        help=f"print the JSON Schema of experiment files, for an editor: lockstep init --schema > {FILE}",
    )


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    if options.schema:
        return _schema(options.file)
    text = (resources.files("harness.spec") / "template.toml").read_text(encoding="utf-8")
    directive = DIRECTIVE if (options.file.parent / FILE).is_file() else ""
    with written("FILE", options.file, "cannot be written", "give a file in a directory of yours"):
        try:
            with options.file.open("x", encoding="utf-8") as file:
                file.write(directive + text)
        except FileExistsError:
            raise InputError(
                "FILE", str(options.file), "must be a new file, and it exists", "give another name"
            ) from None
    lines = [f"{options.file} written; edit it, then: lockstep run {options.file}"]
    return Answer({"schema": SCHEMA, "file": str(options.file)}, lines)


def _schema(file: Path) -> Answer:
    if file != DEFAULT:
        raise InputError(
            "FILE",
            str(file),
            "cannot be combined with --schema, which prints",
            f"write lockstep init --schema > {FILE}",
        )
    from harness.spec.json_schema import experiment_schema  # noqa: PLC0415 - it loads NumPy

    document = experiment_schema()
    return Answer(document, [json.dumps(document, indent=2, allow_nan=False)], verbatim=True)
