"""``lockstep reproduce PAPER``: simulate a paper's figures and check its claims."""

import argparse
from pathlib import Path

from harness import Interrupted, papers
from harness.analyse.columns import duration
from harness.commands import Answer, shared
from harness.measure.session import Counted, Watcher, announce_compiler
from harness.report import documents

LONG_S = 60.0  # what takes longer is announced in a line


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paper", metavar="PAPER", help="reproduce one of " + ", ".join(papers.PAPERS))
    add("--figure", metavar="N", action="append", help="simulate only this figure")
    add("--quick", action="store_true", help="simulate shorter jobs, or to wider intervals")
    add("--seed", type=int, default=1, metavar="N", help="draw all random numbers from this seed")
    add("--resume", action="store_true", help="continue with what an interrupted command has simulated")
    shared.add(parser, "--results")
    add("-o", dest="folder", type=Path, metavar="DIR", help="write pictures of the figures to this directory")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Reproduce; the status is 0 even if claims do not hold: that is a result."""
    if options.paper == "dusseau96":  # the only one at process level
        announce_compiler(watcher)
    kept = papers.kept_cells(options.paper, options.results, quick=options.quick, seed=options.seed)
    if options.resume:
        kept.read()
    try:
        reproduction = papers.reproduce(
            options.paper,
            options.figure,
            quick=options.quick,
            seed=options.seed,
            progress=_Announced(watcher, options.paper),
            kept=kept,
        )
    except KeyboardInterrupt:
        if not kept:
            raise
        where = f"{len(kept)} simulations are kept in {kept.path}"
        raise Interrupted(f"interrupted: {where}; the same command with --resume continues") from None
    kept.remove()
    pictures = reproduction.draw(options.folder) if options.folder else []
    document = reproduction.document()
    if len(reproduction.figures) == 1:
        document["figure"] = reproduction.figures[0]
    return Answer(document, documents.reproduction(document, pictures))


class _Announced:
    """Reports progress, and says once how many minutes are left, when that is known."""

    def __init__(self, watcher: Watcher, paper: str) -> None:
        self._watcher = watcher
        self._paper = paper
        self._counted = Counted(watcher, paper)
        self._said = False

    def __call__(self, done: int, total: int, left_s: float | None) -> None:
        self._counted(done, total, left_s)
        if left_s is not None and left_s > LONG_S and not self._said:
            self._said = True
            self._watcher.note(f"{self._paper}: about {duration(left_s)} for {total - done} simulations")
