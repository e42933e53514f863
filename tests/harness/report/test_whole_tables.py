"""Tables for a terminal: numbers are whole in every width, and what does not fit is named."""

import csv

import fake_records
import pytest
from golden import printed
from runs import needs_two

from harness import cli
from harness.analyse.rows import columns
from harness.report import listing
from harness.report.cells import table
from harness.spec import experiment
from harness.store.database import Store

POLICIES = [{"policy": "none"}]
ROW = ["modified-two-queue 20 ms, long 60 ms", "2.91", "2.59-3.24", "8.57", "1234567.89"]


@pytest.mark.parametrize("width", [20, 30, 41, 55, 62, 80])
def test_a_number_is_whole_or_its_column_is_named_and_words_give_way_first(width):
    whole_table = table(["scheduler"], [one.heading for one in columns("heading", "") if not one.needs])
    whole_table.add_row(*ROW)
    text = printed([whole_table], width)
    left_out = " ".join(text.split("Too narrow for:")[1].split()) if "Too narrow" in text else ""
    names = ("workload slowdown", "95 % interval", "job mean", "job max")
    for name, number in zip(names, ROW[1:], strict=True):
        assert (number in text) != (name in left_out), text
    assert "\u2026" not in text and bool(left_out) == (width < 62)
    assert width < 80 or ROW[0] in text
    whole = printed([whole_table], width, wide=True)
    assert all(number in whole for number in ROW[1:]) and "Too narrow" not in whole
    assert whole.count("scheduler") == 1 or width < 62  # each further table has the columns of words


def test_the_constants_of_a_calibration_have_their_warnings_above_and_whole_numbers():
    row = {"quantity": "os_noise_interval", "median_us": 20123.25, "ci95_us": [20000.11, 21000.22], "n": 1200}
    document = {"constants": [row | {"p10_us": 19999.99, "p90_us": 22222.22}], "warnings": ["it is noisy"]}
    text = printed(listing.constants(document), 80)
    assert text.startswith("Warning: it is noisy.") and "Too narrow for: samples. COLUMNS=" in text
    enough = int(text.partition("COLUMNS=")[2].split()[0])
    assert "1200" in printed(listing.constants(document), enough)
    assert "Too narrow" in printed(listing.constants(document), enough - 1)
    assert all(number in text for number in ("20123.25", "20000.11-21000.22", "19999.99", "22222.22"))


@needs_two
def test_rows_of_two_experiments_are_not_one_table(tmp_path, capsys):
    with Store(tmp_path / "results") as store:
        for name, pattern in (("first", "NEWS"), ("second", "BARRIER")):
            jobs = [{"program": {"pattern": pattern, "processes": 2, "dedicated_s": 0.5}}]
            known = {"name": name, "processors": 2, "repeats": 1, "jobs": jobs, "schedulers": POLICIES}
            for record in fake_records.records(experiment.load(known)):
                store.add_run(record)
    words = ["compare", str(tmp_path / "results"), "--csv", str(tmp_path / "rows.csv")]
    assert cli.main(words) == 2
    told = capsys.readouterr().err
    assert "holds the rows of one experiment" in told and "first (" in told and "second (" in told
    assert not (tmp_path / "rows.csv").exists()
    assert cli.main([*words, "--experiment", "second"]) in (0, 1)
    with (tmp_path / "rows.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert "BARRIER" in str(row)
