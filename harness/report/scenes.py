"""Scenes of a policy as text of 80 columns and less, and as a page to step through."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Any

from harness.predict import pictures
from harness.predict.pictures import Cell, Picture, Scene
from harness.report.cells import Fragments, Line, Part

WIDTH = 80
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red")


def text(scenes: Sequence[Scene], names: Sequence[str]) -> Iterator[Part]:
    """Each scene with its event and pictures, then the partitions over time."""
    for scene in scenes:
        yield from (
            Line(line, "bold") for line in wrap(f"{pictures.in_ms(scene.at_ms)}: {scene.cause}", WIDTH)
        )
        yield from wrap(f"Waiting: {', '.join(scene.waiting)}" if scene.waiting else "", WIDTH)
        for picture in pictures.of_scene(scene):
            yield from _drawn(picture, names)
        yield ""
    if history := pictures.over_time(scenes):
        yield from _drawn(history, names)


def page(scenes: Sequence[Scene], **about: Any) -> str:
    """The scenes in one self-contained file, which shows all of them where no script runs."""
    from harness.report.rendering import rendered  # noqa: PLC0415 - slow to load

    return rendered("scenes", scenes=scenes, pictures=pictures, **about)


def _drawn(picture: Picture, names: Sequence[str]) -> Iterator[Part]:
    """A picture; if it is too wide, some columns after the others, and the beginnings of long texts."""
    styles = {name: f"bold {COLOURS[number % len(COLOURS)]}" for number, name in enumerate(names)}
    cells = [cell for _, row in picture.rows for cell in row]
    left = max(len(label) for label, _ in picture.rows)
    size = max(1, *map(len, picture.columns), *(-(-(len(cell.text) + 1) // cell.span) - 1 for cell in cells))
    size = min(size, WIDTH - left - 1)
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
                wide = cell.span * (size + 1) - 1
                text = cell.text or "."
                shown = text if len(text) <= wide else f"{text[: max(0, wide - 3)]}..."[:wide]
                pieces.append(Line(f" {shown:{wide}}", style))
            yield Fragments(pieces)


def _between(row: Sequence[Cell], first: int, end: int) -> Iterator[Cell]:
    """The cells, or their parts, from a column to another."""
    at = 0
    for cell in row:
        span = min(at + cell.span, end) - max(at, first)
        if span > 0:
            yield replace(cell, span=span)
        at += cell.span
