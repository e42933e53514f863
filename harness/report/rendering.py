"""Pages from templates and pictures: self-contained, no network, light and dark; reports have no scripts."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from harness.analyse.columns import Column
from harness.report.style import DARK, LIGHT, drawn, inline
from workloads.validation import InputError, one_of

WIDE, NARROW = 900, 358
"""Every picture is drawn in these widths, in pixels: for a window and for a telephone."""

Draw = Callable[[int], Figure | None]  # draws a picture in a width, in pixels; None without data


@dataclass(frozen=True)
class Picture:
    """A picture of a page, with a heading and ``about`` it."""

    name: str
    heading: str
    about: str
    missing: str  # why there may be no data; empty if no picture is expected then
    draw: Draw


@dataclass(frozen=True)
class Table:
    """A table of a page; ``label`` is for screen readers. A table without records is left out."""

    name: str
    heading: str
    label: str
    columns: Sequence[Column]
    records: Sequence[Any]
    about: str = ""


@dataclass(frozen=True)
class Page:
    """What a report shows."""

    title: str
    about: str
    # The key figures: numbers and their meaning; an empty number is not conclusive.
    facts: Sequence[tuple[str, str]]
    behind: str  # the heading of ``conditions``, which are names and values
    conditions: Sequence[tuple[str, str]]
    warnings: Sequence[str]
    failures: Sequence[str]
    pictures: Sequence[Picture]  # also those without data, as are the tables
    tables: Sequence[Table]
    origin: str  # what follows after "from records only" at the end
    remedy: str  # for an error about a picture without data


def pictures(kind: str, drawn: Mapping[str, Draw], *, commands: bool = False, **values: Any) -> list[Picture]:
    """Pictures with their captions, in which ``values`` have places."""
    source = resources.files("harness.report").joinpath("captions.toml").read_text(encoding="utf-8")
    captions = tomllib.loads(source)[kind]
    page_pictures = []
    for name, draw in drawn.items():
        caption = captions[name]
        missing = caption.get("missing", "")
        missing = caption.get("missing_of_commands", missing) if commands else missing
        about, missing = (text.format(**values) for text in (caption["about"], missing))
        page_pictures.append(Picture(name, caption["heading"], about, missing, draw))
    return page_pictures


def html(page: Page) -> str:
    figures = [vars(one) | {"drawn": drawn(partial(_both, one))} for one in page.pictures]
    return rendered("page", page=page, figures=figures)


def rendered(template: str, **values: Any) -> str:
    """A page from a template of this room that extends the skeleton of all pages."""
    environment = Environment(
        loader=PackageLoader("harness.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{template}.html.j2").render(light=LIGHT, dark=DARK, **values)


def picture(page: Page, name: str) -> Figure:
    """The picture of this name, as wide as in a window; InputError for an unknown one, or without data."""
    by_name = {one.name: one for one in page.pictures}
    one_of("--picture", name, by_name)
    chosen = by_name[name]
    if (figure := drawn(lambda: chosen.draw(WIDE))) is None:
        rule = chosen.missing or "the records have no data for this picture"
        raise InputError("--picture", name, rule, page.remedy)
    return figure


def _both(one: Picture) -> dict[str, Markup]:
    figures = {"wide": one.draw(WIDE), "narrow": one.draw(NARROW)}
    present = {width: figure for width, figure in figures.items() if figure}
    return {at: Markup(inline(figure, f"{one.name}-{at}", one.heading)) for at, figure in present.items()}
