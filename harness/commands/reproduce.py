"""``lockstep reproduce PAPER``: a paper's figures and claims, simulated."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from harness import papers
from harness.commands import Answer
from harness.report import simulations
from harness.site import Progress, Watcher


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add = parser.add_argument
    add("paper", metavar="PAPER", help="one of " + ", ".join(papers.PAPERS))
    add("--figure", metavar="N", action="append", help="only this figure; may be given several times")
    add("--quick", action="store_true", help="shorter jobs or wider intervals; the answer says which")
    add("--seed", type=int, default=1, help="seed of all random numbers (default: %(default)s)")
    add("-o", dest="folder", type=Path, metavar="DIR", help="draw the figures into this directory")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Reproduce; the status is 0 also if claims do not hold: that is a result.

    Raises:
        InputError: for a paper or figure that is not known.
    """
    begin_s = time.monotonic()

    def progress(done: int, total: int) -> None:
        elapsed_s = time.monotonic() - begin_s
        left_s = elapsed_s / max(done, 1) * (total - done)
        watcher.progress(Progress(options.paper, done, total, elapsed_s, left_s))

    made = papers.reproduce(
        options.paper, options.figure, quick=options.quick, seed=options.seed, progress=progress
    )
    pictures = made.draw(options.folder) if options.folder else []
    document = made.document()
    if len(made.figures) == 1:
        document["figure"] = made.figures[0]
    return Answer(document, simulations.reproduction(document, pictures))
