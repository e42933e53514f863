"""Golden files: whole outputs in tests/support/stored, tables of the docs; ``pytest --renew`` writes them."""

import io
import re

from places import ROOT, SUPPORT
from rich.console import Console

from harness.report import terminal

STORED = SUPPORT / "stored"


class Golden:
    """Compares an output with its file, or writes the file again."""

    def __init__(self, renew):
        self.renew = renew

    def __call__(self, name, text):
        self._compare(STORED / name, lambda kept: text)

    def table(self, page, heading, lines):
        """A table of a page of the docs, by its first line, has these lines below the two of its head."""

        def with_table(kept):
            before, head, rest = kept.partition(f"{heading}\n")
            assert head, f"{page} has no table {heading}"
            rule, _, _ = rest.partition("\n")
            _, end, after = rest.partition("\n\n")
            return "".join([before, head, "\n".join([rule, *lines]), end, after])

        self._compare(ROOT / "docs" / page, with_table)

    def _compare(self, path, renewed):
        """Compare a file with what ``renewed`` makes of its text, which it need not have, or write that."""
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        wanted = renewed(kept)
        if self.renew:
            path.write_text(wanted, encoding="utf-8")
        assert self.renew or wanted == kept, f"{path.name}: if it is right, pytest --renew"


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
