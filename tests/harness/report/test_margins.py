"""Names at the left of pictures: whole, inside of the picture, and without an empty margin."""

import struct

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from harness.report import style
from harness.report.grid import panels

SHORT = ["none", "gang 100 ms"]
LONG = ["none", "multilevel-two-queue 20 ms, 60 ms, 100 ms, rr, freezer, quota 1.25, unbound, fixed 7"]


@pytest.mark.parametrize("names", [SHORT, LONG, ["none"], [*SHORT, "dynamic-coscheduling, rr"]])
@pytest.mark.parametrize("width", [400, 1000])
def test_names_are_whole_and_begin_at_the_left_edge(names, width):
    def draw():
        made = panels(width, ["a title"], lines=names, line=25)
        FigureCanvasAgg(made.figure).draw()
        return made

    (axes,) = style.drawn(draw).axes
    labels = axes.get_yticklabels()
    shown = [" ".join(label.get_text().split()) for label in labels]
    assert shown == names or (names is LONG and width == 400)  # what no telephone has room for
    left = min(label.get_window_extent().x0 for label in labels)
    assert 0 <= left < (80 if names is LONG else 40)


def test_files_have_a_margin_and_pictures_of_pages_have_none():
    figure = Figure(figsize=(2, 1))
    header = struct.unpack(">II", style.file(figure, "png")[16:24])
    assert header == (2 * 144 + 40, 144 + 40)
    assert 'viewBox="0 0 144 72"' in style.inline(figure, "x", "x")
