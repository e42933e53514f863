"""Pages from templates and pictures: self-contained, no network, no scripts, light and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from harness.analyse.columns import four_digits, one_digit
from harness.report.style import DARK, LIGHT, SETTINGS, drawn, inline
from harness.spec.naming import short_name
from workloads.validation import InputError, one_of

WIDE, NARROW = 900, 358
"""Every picture is drawn in these widths, in pixels: for a window and for a telephone."""


@dataclass(frozen=True)
class Picture:
    """A picture of a page, with a heading and ``about`` it; ``draw`` makes it in a width, None without data.

    ``missing`` says why there may be no data; it is empty if nobody would expect the picture then.
    """

    name: str
    heading: str
    about: str
    draw: Callable[[int], Figure | None]
    missing: str = ""


def rendered(template: str, pictures: Iterable[Picture], **values: Any) -> str:
    """A page from a template that extends ``base.html.j2``."""
    with rc_context(SETTINGS):
        figures = [vars(one) | {"drawn": _drawn(one.draw, one.name, one.heading)} for one in pictures]
    environment = Environment(
        loader=PackageLoader("harness.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"short": short_name, "four_digits": four_digits, "one_digit": one_digit}
    return environment.get_template(template).render(figures=figures, light=LIGHT, dark=DARK, **values)


def chosen(pictures: Iterable[Picture], name: str, remedy: str) -> Figure:
    """The picture of this name, as wide as in a window."""
    known = {one.name: one for one in pictures}
    one_of("--picture", name, known)
    wanted = known[name]
    if (figure := drawn(lambda: wanted.draw(WIDE))) is None:
        rule = wanted.missing or "the records have no data for this picture"
        raise InputError("--picture", name, rule, remedy)
    return figure


def _drawn(draw: Callable[[int], Figure | None], name: str, heading: str) -> dict[str, Markup]:
    figures = {"wide": draw(WIDE), "narrow": draw(NARROW)}
    known = {width: figure for width, figure in figures.items() if figure}
    return {width: Markup(inline(figure, f"{name}-{width}", heading)) for width, figure in known.items()}
