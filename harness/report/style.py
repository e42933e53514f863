"""Colours and type of all pictures, and their conversion to SVG and PNG.

Every colour has a name. On a page the names are CSS variables, so that one picture serves
light and dark; a picture file has the light palette.
"""

import io
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

Drawn = TypeVar("Drawn")

PALETTE: Mapping[str, tuple[str, str]] = {
    "surface": ("#ffffff", "#12181f"),
    "ink": ("#1b2430", "#e7edf3"),
    "muted": ("#5c6875", "#9dabb8"),
    "grid": ("#dde3e9", "#2c3742"),
    "band": ("#eef3f8", "#1b2530"),
    "measured": ("#1f5fae", "#7db4ff"),
    "simulated": ("#c4500f", "#ff9a5c"),
    "within": ("#0f6a8c", "#5cc3e8"),
    "outside": ("#b23b12", "#ff8f66"),
    "computing": ("#6b85f3", "#8076cc"),
    "communicating": ("#e8a432", "#f6b61f"),
    "synchronizing": ("#9e4a40", "#cf4e47"),
    "switching": ("#5f5288", "#b4c5e6"),
    "idle": ("#cad3dc", "#3b4753"),
    "others": ("#25000f", "#71feb9"),
    "job0": ("#a093f7", "#dabffd"),
    "job1": ("#f19016", "#d78000"),
    "job2": ("#31957a", "#5ec1a2"),
    "job3": ("#a206cc", "#666747"),
    "job4": ("#130e63", "#626ad9"),
    "job5": ("#6c6917", "#ddff89"),
}
LIGHT = {name: light for name, (light, _) in PALETTE.items()}
DARK = {name: dark for name, (_, dark) in PALETTE.items()}
JOBS = 6

DASHES = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)))
"""Lines on top of each other can be told apart by their dashes."""

HATCHES: Mapping[str, str] = {"communicating": "////", "synchronizing": "\\\\\\\\", "switching": "xxxx"}
"""CPU time without progress is hatched, so that it needs no colours to be seen.

Lines only: the pattern of dots is 100 kB in every picture.
"""


def fill(name: str) -> dict[str, Any]:
    """The fill of a bar or patch in the colour of this name, hatched in the colour of the page."""
    look = {"facecolor": LIGHT[name], "edgecolor": LIGHT["surface"], "linewidth": 0}
    return look | {"hatch": HATCHES.get(name)}


def of_job(job: int) -> dict[str, Any]:
    """The fill of a job: after JOBS of them the colours repeat, hatched."""
    return fill(f"job{job % JOBS}") | {"hatch": (None, *HATCHES.values())[job // JOBS % 4]}


def line_of(number: int) -> dict[str, Any]:
    """The line of one of several schedulers; after JOBS of them the colours repeat."""
    return {"color": LIGHT[f"job{number % JOBS}"], "linestyle": DASHES[number % len(DASHES)], "linewidth": 2}


NO_JOB: Mapping[str, Any] = {
    "facecolor": LIGHT["surface"],
    "edgecolor": LIGHT["muted"],
    "linewidth": 0.8,
    "label": "no job",
}
"""The key for what a Gantt chart leaves white."""


SETTINGS: dict[Any, Any] = {
    "text.parse_math": False,  # text between two dollar signs of a command is no formula
    "svg.fonttype": "none",
    "svg.hashsalt": "lockstep",
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "axes.edgecolor": LIGHT["muted"],
    "axes.labelcolor": LIGHT["muted"],
    "axes.titlesize": 12,
    "axes.titlecolor": LIGHT["ink"],
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.8,
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "xtick.labelsize": 11,
    "ytick.labelsize": 12,
    "ytick.labelcolor": LIGHT["ink"],
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "hatch.linewidth": 1.0,
}

_FONT = re.compile(r"""(font: [^;"]*?px) [^;"]*""")
_NAMES = {value: name for name, value in LIGHT.items()}
_COLOUR = re.compile("|".join(LIGHT.values()))


EDGE = 10 / 72  # the margin around the picture of a file, in inches: 10 pixels


def drawn(draw: Callable[[], Drawn]) -> Drawn:
    with rc_context(SETTINGS):
        return draw()


def inline(figure: Figure, name: str, title: str) -> str:
    """The picture as an <svg> element for a page, on which no other has ids that begin with ``name``."""
    text = file(figure, "svg", "none").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = _FONT.sub(r"\1 system-ui, sans-serif", text)
    text = _COLOUR.sub(lambda match: f"var(--{_NAMES[match[0]]})", text)
    width, height = (round(72 * inches, 2) for inches in figure.get_size_inches())
    head = (
        f'<svg role="img" aria-label="{title}" viewBox="0 0 {width:g} {height:g}" style="width:{width:g}px">'
    )
    return head + text[text.index(">") + 1 :].strip()


def file(figure: Figure, kind: str, ground: str = LIGHT["surface"]) -> bytes:
    """The picture as svg, equal for equal figures, or as png with two pixels to a unit.

    It has a margin of EDGE on all sides unless it is for a page, which has one of its own (``ground`` none).
    """
    how: dict[str, Any] = {"metadata": {"Date": None, "Creator": None}} if kind == "svg" else {"dpi": 144}
    if ground != "none":
        width, height = figure.get_size_inches()
        how["bbox_inches"] = Bbox.from_extents(-EDGE, -EDGE, width + EDGE, height + EDGE)
    data = io.BytesIO()
    drawn(lambda: figure.savefig(data, format=kind, facecolor=ground, **how))
    return data.getvalue()
