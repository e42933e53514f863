"""Scenes of a policy as text of 80 columns and less, and as a page to step through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.analyse import pictures
from harness.analyse.pictures import Cell, Picture
from harness.predict.scenes import Scene, Show
from harness.report.cells import Line, Part, Pieces

WIDTH = 80
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red")


def text(scenes: Sequence[Scene], show: Show) -> Iterator[Part]:
    """Each scene with its event and pictures, then the partitions over time."""
    for scene in scenes:
        title, waiting = _about(scene, show)
        yield Line(title, "bold")
        if waiting:
            yield f"Waiting: {waiting}"
        for picture in pictures.of_scene(scene, show):
            yield from _drawn(picture, show)
        yield ""
    if history := pictures.over_time(scenes, show):
        yield from _drawn(history, show)


def page(name: str, scenes: Sequence[Scene], show: Show) -> str:
    """The scenes in one self-contained file, which shows all of them where no script runs."""
    from harness.report.rendering import rendered  # noqa: PLC0415 - slow to load

    values = vars(show) | {
        "name": name,
        "source": show.policy.source,
        "history": pictures.over_time(scenes, show),
    }
    return rendered(
        "scenes", scenes=[(*_about(one, show), pictures.of_scene(one, show)) for one in scenes], **values
    )


def _about(scene: Scene, show: Show) -> tuple[str, str]:
    """Time and cause, and who waits."""
    waiting = ", ".join(show.names[job] for job in scene.waiting)
    return f"{pictures.in_ms(scene.at_ns)}: {scene.cause}", waiting


def _drawn(picture: Picture, show: Show) -> Iterator[Part]:
    """A picture; if it is too wide, some columns after the others."""
    styles = {name: f"bold {COLOURS[number % len(COLOURS)]}" for number, name in enumerate(show.names)}
    cells = [cell for _, row in picture.rows for cell in row]
    size = max(1, *map(len, picture.columns), *(-(-(len(cell.text) + 1) // cell.span) - 1 for cell in cells))
    left = max(len(label) for label, _ in picture.rows)
    at_once = max(1, (WIDTH - left) // (size + 1))
    yield Line(picture.title, "dim")
    for first in range(0, len(picture.columns), at_once):
        heads = picture.columns[first : first + at_once]
        if any(heads):
            yield Line(" " * left + "".join(f" {head:{size}}" for head in heads).rstrip(), "dim")
        for label, row in picture.rows:
            pieces = [Line(f"{label:{left}}")]
            for cell in _between(row, first, first + len(heads)):
                style = styles.get(cell.turn or "".join(cell.jobs[:1]), "")
                pieces.append(Line(f" {cell.text or '.':{cell.span * (size + 1) - 1}}", style))
            yield Pieces(pieces)


def _between(row: Sequence[Cell], first: int, end: int) -> Iterator[Cell]:
    """The cells, or their parts, from a column to another."""
    at = 0
    for cell in row:
        span = min(at + cell.span, end) - max(at, first)
        if span > 0:
            yield replace(cell, span=span)
        at += cell.span
