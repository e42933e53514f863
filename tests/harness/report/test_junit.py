"""Tests in JUnit's XML: what is counted, and texts of any kind."""

from xml.etree import ElementTree

from harness.report.junit import Case, Failure, as_xml


def test_tests_are_counted_by_how_they_ended():
    cases = [
        Case("good", 1.5),
        Case("bad", 2.0, [Failure("one"), Failure("two", "at length")]),
        Case("broken", None, [Failure("no", error=True)]),
    ]
    suite = ElementTree.fromstring(as_xml("mine", cases))
    assert dict(suite.attrib) == {"name": "mine", "tests": "3", "failures": "1", "errors": "1"}
    good, bad, broken = suite
    assert dict(good.attrib) == {"classname": "mine", "name": "good", "time": "1.500"}
    assert [(one.tag, one.get("message"), one.text) for one in bad] == [
        ("failure", "one", None),
        ("failure", "two", "at length"),
    ]
    assert (broken[0].tag, broken.get("time")) == ("error", None)


def test_a_text_of_any_characters_is_valid_xml():
    anything = 'a<&"\x00\x1b\ud800\uffff\n\u00e9'
    suite = ElementTree.fromstring(as_xml(anything, [Case(anything, 0, [Failure(anything, anything)])]))
    assert suite[0][0].text == 'a<&"????\n\u00e9'
    assert suite[0].get("name") == 'a<&"????\n\u00e9'
