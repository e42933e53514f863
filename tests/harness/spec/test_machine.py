"""The [machine] table: what it says to the simulator, and what bad input is told."""

import re

import pytest

from harness.spec.experiment import load
from harness.spec.machine import read_table
from workloads.validation import InputError

EXPERIMENT = """
processors = 2

[[jobs]]
program = { pattern = "NEWS", phases = 10 }

[[schedulers]]
policy = "none"

[machine]
"""

SOLARIS = """
# Time Sharing Dispatcher Configuration
RES=1000

# ts_quantum  ts_tqexp  ts_slpret  ts_maxwait ts_lwait  PRIORITY LEVEL
       200         0         1           0        1        #     0
        40         0         1       32000        1        #     1
"""


def loaded(folder, text, experiment=EXPERIMENT, **options):
    (folder / "small.toml").write_text(experiment + text)
    return load(str(folder / "small.toml"), **options)


def machine(folder, text):
    return loaded(folder, text).cells[0].machine


def test_what_is_not_given_is_left_open(tmp_path):
    assert machine(tmp_path, "") == {}
    given = {"timers": "synchronised", "send_us": 2}
    assert machine(tmp_path, 'timers = "synchronised"\nsend_us = 2') == given


def test_a_dispatch_table_is_rows_or_a_file_beside_the_experiment(tmp_path):
    (tmp_path / "ts.txt").write_text(SOLARIS)
    rows = [[20, 0, 1, 0, 1], [4, 0, 1, 32000, 1]]
    digests = set()
    for given in ('"ts.txt"', rows):
        assert machine(tmp_path, f"dispatch_table = {given}")["dispatch_table"] == rows
        digests.add(load(str(tmp_path / "small.toml")).digest)
    assert len(digests) == 1, "the same table means the same experiment"
    assert machine(tmp_path, "") == {} and load(str(tmp_path / "small.toml")).digest not in digests


@pytest.mark.parametrize(
    "text, key",
    [
        ('timers = "late"', "machine.timers"),
        ('reads_served_by = "nobody"', "machine.reads_served_by"),
        ('local = "round-robin"\nquantum_ms = 15', "machine.quantum_ms"),
        ("quantum_ms = 20", "machine.quantum_ms"),
        ("dispatch_table = []", "machine.dispatch_table"),
        ("dispatch_table = [[1, 2]]", "machine.dispatch_table[0]"),
        ("dispatch_table = [[0, 0, 0, 0, 0]]", "machine.dispatch_table[0].quantum"),
        ("dispatch_table = [[1, 1, 0, 0, 0]]", "machine.dispatch_table[0].tqexp"),
        ("dispatch_table = 3", "machine.dispatch_table"),
        ('local = "fifo"\ndispatch_table = [[1, 0, 0, 0, 0]]', "machine.dispatch_table"),
        ('dispatch_table = "nowhere.txt"', "machine.dispatch_table"),
        ("hop_latency_us = 1", "machine.hop_latency_us"),
        ("lost = 1", "machine.lost"),
        ('lost = "1"', "machine.lost"),
        ("lost = [0.5]", "machine.lost[0]"),
        ("lost = [2]", "machine.lost[0]"),
        ("lost = [1, 1]", "machine.lost[1]"),
        ("lost = [1, 0]", "machine.lost"),
    ],
)
def test_bad_input_is_told_by_key(tmp_path, text, key):
    with pytest.raises(InputError) as error:
        machine(tmp_path, text)
    assert error.value.key == key
    assert error.value.remedy


@pytest.mark.parametrize("line", ["200 0 1 0", "200 0 1 0 x", "RES=fast", "RES=0", "name"])
def test_a_line_of_a_table_that_is_none_is_named(tmp_path, line):
    path = tmp_path / "ts.txt"
    path.write_text("20 0 0 0 0\n" + line)
    with pytest.raises(InputError, match="line 2"):
        read_table(path)


@pytest.mark.parametrize(
    "lines, reason",
    [
        ("20 0 0 0 0\n\n20 9 0 0 0", "'{}': line 3: tqexp must be a whole number from"),
        ("20 0 7 0 0  # a comment", "'{}': line 1: slpret must be"),
        ("# no row", "'{}': must have a row"),
    ],
)
def test_a_table_that_cannot_be_is_named_by_its_file(tmp_path, lines, reason):
    path = tmp_path / "ts.txt"
    path.write_text(lines)
    with pytest.raises(InputError, match=re.escape(reason.format(path))) as error:
        machine(tmp_path, 'dispatch_table = "ts.txt"')
    assert "small.toml, line" in str(error.value)
    assert error.value.key == "machine.dispatch_table"


def test_lost_processors_are_numbers_of_the_machine(tmp_path):
    assert machine(tmp_path, "lost = []") == {"lost": []}
    assert machine(tmp_path, "lost = [1]") == {"lost": [1]}
    assert loaded(tmp_path, "lost = [1]").cells[0].lost == {1}


def test_a_job_that_does_not_fit_on_what_is_left_is_told_so(tmp_path):
    with pytest.raises(
        InputError, match=r"machine.lost leaves 1 of 2; give the job fewer processes"
    ) as error:
        loaded(tmp_path, "lost = [0]", EXPERIMENT.replace('"none"', '"gang"'))
    assert error.value.key == "jobs[0].program.processes"
    assert loaded(tmp_path, "lost = [0]").cells[0].lost == {0}, "under none its processes share a processor"
    with pytest.raises(InputError, match="numbered from 0") as error:
        loaded(tmp_path, '[sweep]\n"machine.lost" = [[], [1], [2]]')
    assert error.value.key == 'sweep."machine.lost"'


@pytest.mark.parametrize("which", ["here", "real"])
def test_real_runs_refuse_lost_processors(tmp_path, which):
    for more, key in (("lost = [0]", "machine.lost"), ('[sweep]\n"machine.lost" = [[], [0]]', 'sweep."mach')):
        with pytest.raises(InputError, match="use lockstep simulate, or leave lost out") as error:
            loaded(tmp_path, more, **{which: True})
        assert error.value.key.startswith(key)
    loaded(tmp_path, "lost = []", **{which: True})
