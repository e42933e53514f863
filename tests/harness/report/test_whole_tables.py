"""Tables for a terminal: numbers are whole in every width, and what does not fit is named."""

import io

import pytest
from rich.console import Console

from harness.report import listing
from harness.report.cells import table
from harness.report.text import shown as slowdowns

ROWS = [["modified-two-queue 20 ms, long 60 ms", "2.91", "2.59-3.24", "8.57", "1234567.89"]]


def shown(part, width):
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(part)
    return out.getvalue()


def made():
    found = table(["scheduler"], [one.heading for one in slowdowns("") if not one.needs])
    for row in ROWS:
        found.add_row(*row)
    return found


def test_a_table_that_fits_shows_everything():
    text = shown(made(), 80)
    assert all(cell in text for cell in ROWS[0]) and "Too narrow" not in text


@pytest.mark.parametrize("width", range(20, 81))
def test_a_number_is_whole_or_its_column_is_named(width):
    text = shown(made(), width)
    left_out = " ".join(text.split("Too narrow for:")[1].split()) if "Too narrow" in text else ""
    names = ("workload slowdown", "95 % interval", "job mean", "job max")
    for name, number in zip(names, ROWS[0][1:], strict=True):
        assert (number in text) != (name in left_out), text
    assert "\u2026" not in text


def test_words_give_way_before_numbers():
    assert "Too narrow" not in shown(made(), 62) and "1234567.89" in shown(made(), 62)


def test_the_constants_of_a_calibration_have_their_doubts_above_and_whole_numbers():
    row = {"quantity": "detour_gap", "median_us": 20123.25, "ci95_us": [20000.11, 21000.22], "n": 1200}
    document = {"constants": [row | {"p10_us": 19999.99, "p90_us": 22222.22}], "doubts": ["it is noisy"]}
    text = "".join(shown(part, 80) for part in listing.constants(document))
    assert text.startswith("Doubt: it is noisy.") and "Too narrow for: samples." in text
    assert all(number in text for number in ("20123.25", "20000.11-21000.22", "19999.99", "22222.22"))
