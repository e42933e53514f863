"""docs/references.bib: entries that BibTeX can use, of papers that the pages cite."""

import re

from places import ROOT

ENTRY = re.compile(r"^@(\w+)\{(\w+),\n((?:  \w+ = \{.*\},\n)+)\}$", re.MULTILINE)
NEEDED = {"article": "journal", "inproceedings": "booktitle", "incollection": "booktitle", "misc": "title"}


def test_entries_are_whole_and_of_papers_that_the_pages_cite():
    text = (ROOT / "docs" / "references.bib").read_text()
    entries = ENTRY.findall(text)
    assert len(entries) == text.count("\n@") > 30
    assert len({key for _, key, _ in entries}) == len(entries)
    pages = re.sub(r"\s+", " ", " ".join(page.read_text() for page in (ROOT / "docs").rglob("*.md")))
    for kind, key, body in entries:
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", body, flags=re.MULTILINE))
        assert fields.keys() >= {"author", "title", "year", NEEDED.get(kind, "year")}, key
        assert all(value.count("{") == value.count("}") for value in fields.values()), key
        surname = fields["author"].split(" and ")[0].split()[-1]
        assert key == f"{surname.lower()}{fields['year']}"
        assert re.search(rf"{surname}\b[^;|]{{0,90}}\b{fields['year']}\b", pages), key
