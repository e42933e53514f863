"""What a terminal shows next to the bar."""

import io

import pytest
from rich.console import Console

from harness.report.progress import BarWatcher


@pytest.mark.parametrize("width", [20, 200])
def test_a_warning_is_one_line_that_can_be_copied(width):
    written = io.StringIO()
    text = "jobs[0].command: [red] is no option, and /a/path/that/is/longer/than/the/terminal is no file"
    BarWatcher(Console(file=written, width=width, force_terminal=False)).warn(text)
    assert written.getvalue() == f"warning: {text}\n"
