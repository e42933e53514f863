"""Rows as a report of tests, for servers that run tests continuously (JUnit's XML)."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from harness.analyse.rows import Row
from harness.analyse.verdicts import Threshold


def document(
    experiment: str,
    rows: Sequence[Row],
    side: str,
    broken: Sequence[tuple[Threshold, Row]],
    failures: Sequence[str],
) -> str:
    """A test for each row, which fails if it breaks a threshold; one that fails for each failed run."""
    count = len({id(row) for _, row in broken}) + len(failures)
    attributes = {"name": experiment, "tests": str(len(rows) + len(failures)), "failures": str(count)}
    suite = ElementTree.Element("testsuite", attributes)
    for row in rows:
        made = (row.sides[side].makespan_s if side in row.sides else None) or 0.0
        name = ", ".join([row.name, *(f"{key} = {value}" for key, value in row.settings.items())])
        case = ElementTree.SubElement(suite, "testcase", classname=experiment, name=name, time=f"{made:.3f}")
        for threshold, other in broken:
            if other is row:
                ElementTree.SubElement(case, "failure", message=sentence(threshold, row, side))
    for failure in failures:
        case = ElementTree.SubElement(suite, "testcase", classname=experiment, name=failure.partition(":")[0])
        ElementTree.SubElement(case, "failure", message=failure)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def sentence(threshold: Threshold, row: Row, side: str) -> str:
    """A broken threshold in words."""
    median = row.median(side)
    found = "is unknown" if median is None else f"is {median:.3f}"
    point = "".join(f", {key} = {value}" for key, value in row.settings.items())
    return f"the {side} slowdown of {row.name}{point} {found}: {threshold.text}"
