"""Every heading of a table, in a terminal or on the page, has an entry in the glossary."""

import re
from collections import defaultdict
from types import SimpleNamespace

import pytest
from places import ROOT

from harness.analyse import rows
from harness.analyse.columns import Column
from harness.report import cells, documents, listing, pairs, text

UNITS = "%", "us", "ms", "s", "UTC"
EMPTY = defaultdict(list, experiments=[defaultdict(str)])
ROWS = [SimpleNamespace(jobs=[], sides={}, name="", measured=None)]
TABLES = [
    pairs.text(pairs.Pairs([], {})),
    text._each_job(ROWS),
    text._programs(ROWS),
    *(
        part
        for made in (listing.constants, listing.policies, listing.experiments, listing.findings)
        for part in made(EMPTY)
        if isinstance(part, cells.Table)
    ),
]


def declared(module):
    """The columns of a module: its own ones, and those of its lists."""
    for value in vars(module).values():
        if isinstance(value, Column):
            yield value
        elif isinstance(value, list):
            yield from (one for one in value if isinstance(one, Column))


def plain(heading):
    """A heading in one line, without its unit and what stands in parentheses."""
    words = re.sub(r"\(.*\)|\|", "", heading.replace("-\n", "")).split()
    while words and words[-1] in UNITS:
        words.pop()
    return " ".join(words).rstrip(",").lower()


def headings():
    columns = [one for module in (rows, text, documents) for one in declared(module)]
    columns += [
        one for jobs in (1, 3) for one in documents._of_settings([SimpleNamespace(jobs=[None] * jobs)])
    ]
    shown = [name for one in columns for name in (one.heading, one.page)]
    shown += [heading.text for made in TABLES for heading in made.headings]
    return sorted({plain(one) for one in shown if one.strip()})


@pytest.fixture(scope="module")
def entries():
    """The words in bold at the beginning of a line of the list."""
    lines = re.findall(r"^- (\*\*.*?\*\*):", (ROOT / "docs" / "glossary.md").read_text(), flags=re.MULTILINE)
    return {word.lower() for line in lines for word in re.findall(r"\*\*(.*?)\*\*", line)}


@pytest.mark.parametrize("heading", headings())
def test_a_heading_has_an_entry(heading, entries):
    assert heading in entries, f"docs/glossary.md has no entry **{heading}**"
