"""Golden files: whole outputs, stored in tests/support/stored; ``pytest --renew`` writes them again."""

import io
import re

from places import SUPPORT
from rich.console import Console

from harness.report import terminal

STORED = SUPPORT / "stored"


class Golden:
    """Compares an output with its file, or writes the file again."""

    def __init__(self, renew):
        self.renew = renew

    def __call__(self, name, text):
        if self.renew:
            (STORED / name).write_text(text, encoding="utf-8")
        assert text == (STORED / name).read_text(encoding="utf-8"), f"{name}: if it is right, pytest --renew"


def printed(parts, width=100, **how):
    """What a terminal of this width shows, without colours; ``how`` as for ``terminal.drawn``."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    for part in parts:
        console.print(terminal.drawn(part, **how))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def without_pictures(page):
    """A page without its drawings, which are Matplotlib's, and without styles."""
    return re.sub(r"(?s)<(svg|style)\b.*?</\1>", r"<\1/>", page)
