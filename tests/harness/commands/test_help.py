"""The help of every argument shows its default, its unit, and whether it may be repeated, in one form."""

import argparse
import re

import pytest

from harness.cli import parser

PARSERS = parser().get_default("whole")()[1]
UNIT = re.compile(r"-(us|ms|s|bytes)$")


def entry(text, action):
    """The paragraph of an argument in a help text."""
    name = action.option_strings[0] if action.option_strings else action.metavar
    match = re.search(rf"^  {re.escape(name)}[ ,\n].*(\n {{5,}}.*)*", text, re.MULTILINE)
    return " ".join(match[0].split())


@pytest.mark.parametrize("command", PARSERS, ids=lambda command: command.name)
def test_every_argument_shows_its_default_its_unit_and_whether_it_may_be_repeated(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    text = command.format_help()
    for action in command._actions:
        assert action.help, f"{command.name} {action.option_strings or action.metavar}"
        line = entry(text, action)
        repeatable = isinstance(action, argparse._AppendAction)
        facts = [fact for end in re.findall(r"\(([^()]*)\)$", line) for fact in end.split("; ")]
        default = [fact for fact in facts if fact.startswith("default")]
        assert ("repeatable" in facts) == repeatable and line.count("(default") == len(default), line
        number = action.type in (int, float)
        optional = action.nargs != 0 and not repeatable
        if optional and (number or action.default is not None):
            assert default, line
        if optional and number and action.default:  # a text says what 0 stands for
            assert float(default[0].split()[1]) == action.default, line
        for unit in (match[1] for name in action.option_strings if (match := UNIT.search(name))):
            assert facts[-1].endswith(f" {unit}"), line
