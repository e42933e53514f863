"""``lockstep reproduce PAPER``: simulate a paper's figures and check its claims."""

import argparse
from pathlib import Path

from harness import papers
from harness.commands import Answer
from harness.measure.session import Counted, Watcher, announce_compiler
from harness.report import documents


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paper", metavar="PAPER", help="one of " + ", ".join(papers.PAPERS))
    add("--figure", metavar="N", action="append", help="only this figure (repeatable)")
    add("--quick", action="store_true", help="simulate shorter jobs, or to wider intervals")
    add("--seed", type=int, default=1, help="seed of all random numbers (default: %(default)s)")
    add("-o", dest="folder", type=Path, metavar="DIR", help="write pictures of the figures to this directory")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Reproduce; the status is 0 even if claims do not hold: that is a result."""
    if options.paper == "dusseau96":  # the only one at process level
        announce_compiler(watcher)
    progress = Counted(watcher, options.paper)
    made = papers.reproduce(
        options.paper, options.figure, quick=options.quick, seed=options.seed, progress=progress
    )
    pictures = made.draw(options.folder) if options.folder else []
    document = made.document()
    if len(made.figures) == 1:
        document["figure"] = made.figures[0]
    return Answer(document, documents.reproduction(document, pictures))
