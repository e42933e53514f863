"""Tests and how they ended, in JUnit's XML."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Failure:
    """Why a test has failed: in a sentence, and at length.

    ``error``: the test itself could not end, or is broken.
    """

    message: str
    text: str = ""
    error: bool = False


@dataclass(frozen=True)
class Case:
    """A test; ``time_s`` is None if it is not known. ``notes`` are no failure: what it has printed, say."""

    name: str
    time_s: float | None = None
    failures: Sequence[Failure] = ()
    notes: str = ""


def as_xml(suite: str, cases: Sequence[Case]) -> str:
    """A test suite as XML, whose cases have its name as their class; other characters are replaced."""
    failed = [case.failures[0] for case in cases if case.failures]
    errors = sum(one.error for one in failed)
    counts = {"tests": len(cases), "failures": len(failed) - errors, "errors": errors}
    attributes = {"name": suite, **{key: str(count) for key, count in counts.items()}}
    root = ElementTree.Element("testsuite", _valid(attributes))
    for case in cases:
        time = {} if case.time_s is None else {"time": f"{case.time_s:.3f}"}
        element = ElementTree.SubElement(
            root, "testcase", _valid({"classname": suite, "name": case.name, **time})
        )
        for one in case.failures:
            kind = "error" if one.error else "failure"
            child = ElementTree.SubElement(element, kind, _valid({"message": one.message}))
            child.text = NOT_IN_XML.sub("?", one.text) or None
        if case.notes:
            ElementTree.SubElement(element, "system-err").text = NOT_IN_XML.sub("?", case.notes)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _valid(attributes: dict[str, str]) -> dict[str, str]:
    return {key: NOT_IN_XML.sub("?", text) for key, text in attributes.items()}
