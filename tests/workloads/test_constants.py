"""The table of machine constants: what is declared once is everywhere, and former names are read."""

import dataclasses
import json
import os
import sqlite3
import subprocess
import sys

import pytest
from fake_runs import TOOLS, Quiet, measure, probe
from places import ROOT

from harness.measure.calibrate import Constants, constants
from harness.measure.session import MeasurementSession
from harness.predict.process_level import machine_like
from harness.report.listing import MEANING
from harness.simulator.processes.machine import SimulatedMachine
from harness.simulator.processes.model import MACHINE
from harness.spec.experiment import load
from harness.spec.scheduler import scheduler_of
from harness.store import database
from harness.store.database import Store
from harness.store.migrations import FORMER, present_name
from workloads.bounds import BOUNDS
from workloads.constants import CONSTANTS, MachineConstants, Rows
from workloads.machine import KEYS
from workloads.validation import InputError

ONE_MORE = """
import importlib.util, pathlib, sys

path = pathlib.Path(sys.argv[1]) / "workloads" / "constants.py"
text = path.read_text()
entry = "    idle_wakeup_us: float"
assert text.count(entry) == 1
text = text.replace(entry, '    close_us: float = _constant("end of a message", given=True)\\n' + entry)
spec = importlib.util.spec_from_file_location("workloads.constants", path)
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
exec(compile(text, str(path), "exec"), module.__dict__)

from harness.measure.calibrate import constants
from harness.predict.process_level import machine_like
from harness.report.listing import MEANING
from harness.simulator.processes.machine import fill
from harness.simulator.processes.model import MACHINE
from harness.spec.machine import read_table
from harness.spec.scheduler import scheduler_of
from harness.store.conditions import Conditions
from harness.store.records import Calibration
import numpy as np

assert MEANING["close"] == "end of a message"
made = Calibration("s", "now", "close_ns", [3e3, 1e3, 2e3], [0, 1], 0, "mpich", Conditions())
recorded = constants([made]).of_run("signals")
machine = machine_like(recorded, 2, scheduler_of({"policy": "none"}))
record = np.zeros(1, MACHINE).view(np.recarray)[0]
fill(record, machine, timeline=False, caches=False)
print(recorded.close_us, machine.close_us, record.close_ns)
from workloads.machine import check_values
from workloads.validation import InputError
try:
    check_values({"close_us": -1})
except InputError as error:
    print(error)
"""


def test_a_declared_constant_is_calibrated_recorded_simulated_and_checked():
    """A cost that nobody knows but the table."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
    line = [sys.executable, "-P", "-c", ONE_MORE, str(ROOT)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
    numbers, refused = done.stdout.splitlines()
    assert numbers == "2.0 2.0 2000"
    assert refused.startswith("close_us = -1: must be a number of at least 0")


def test_each_constant_has_its_bounds_its_number_in_the_kernel_and_its_meaning():
    for one in CONSTANTS:
        assert (f"machine.{one.name}" in BOUNDS) == (one.name in KEYS) == one.given
        time = one.kind is float and one.name.endswith("_us")
        assert (one.in_ns in MACHINE.names) == time
        assert one.quantity.removesuffix("_ns") in MEANING
        assert isinstance(one.kind, type) == (one.kind is float), one.name


def test_the_probe_measures_what_the_table_knows():
    assert {name.split()[0] for name in probe([0, 1], 0)} <= {one.quantity for one in CONSTANTS}


def test_wake_ups_cost_what_they_exceed_the_switch():
    assert SimulatedMachine(remote_wakeup_us=12, context_switch_us=5).wakeups_ns == [7000, 7000]
    calibrated = SimulatedMachine(remote_wakeup_us=12, local_switch_us=5, idle_wakeup_us=30)
    assert (calibrated.context_switch_us, calibrated.wakeups_ns) == (200, [7000, 25_000])


def test_the_machine_of_a_host_has_its_constants():
    values = {one.name: 1.5 for one in CONSTANTS if one.kind is float}
    lists = {one.name: [1.0, 2.0] for one in CONSTANTS if one.kind is not float}
    rows = {one.name: [[1.0], [3.0]] for one in CONSTANTS if one.kind == Rows}
    host = Constants(**values | lists | rows)
    recorded = host.of_run("").recorded() | {"slot_cost_us": [1.0, 2.0], "lateness_us": [1.0, 2.0]}
    known = MachineConstants.of_record(recorded)
    assert known == MachineConstants(**values | lists | rows)
    assert MachineConstants.of_record(known.recorded()) == known
    made = machine_like(known, 2, scheduler_of({"policy": "none"}))
    changed = {"latency_us", "poll_us", "tick_lateness_us"}
    assert {name for name, value in vars(known).items() if getattr(made, name) != value} == changed


FORMERLY = {
    **{"switch_us": 20.0, "handoff_us": 5.0, "latency_us": 3.0, "wakeup_us": 30.0, "unit_ns": 2.0},
    **{"handoff_scatter_us": [-1.0, 1.0], "rest_us": [500.0], "rested_switch_us": [[9.0]]},
    "rested_send_us": [[4.0]],
}
TODAY = {
    **{"remote_wakeup_us": 20.0, "local_switch_us": 5.0, "latency_us": 3.0, "idle_wakeup_us": 30.0},
    **{"walk_step_ns": 2.0, "switch_scatter_us": [-1.0, 1.0], "idle_times_us": [500.0]},
    **{"switch_after_idle_us": [[9.0]], "send_after_idle_us": [[4.0]]},
}


class Formerly:
    def recorded(self):
        return FORMERLY


def test_a_run_with_former_names_is_read_with_todays(tmp_path):
    experiment = load("three-jobs", settings=["repeats=1"])
    with Store(tmp_path) as store:
        record = measure(experiment, MeasurementSession.here((0, 1), TOOLS, store), Constants())[0]
        number = store.add_run(dataclasses.replace(record, constants=Formerly()))
        (raw,) = (
            sqlite3.connect(store.path)
            .execute("SELECT constants FROM runs WHERE id = ?", (number,))
            .fetchone()
        )
        assert json.loads(raw) == FORMERLY
        assert store.run(number).constants == MachineConstants(**TODAY)
    assert database.load(tmp_path).runs.set_index("id")["constants"][number] == TODAY


def test_a_calibration_with_former_names_gives_todays_constants(tmp_path):
    """Two calibrations of one session, whose programs go by the first time of a step."""
    former = {new: old for old, new in FORMER.items()}
    steps_ns = iter((64.0, 99.0, 64.0, 99.0))

    def today(processors, size):
        return probe(processors, size) | {"walk_step_ns": [next(steps_ns)]}

    def earlier(processors, size):
        parts = [(name.rpartition("_"), samples) for name, samples in today(processors, size).items()]
        return {f"{former.get(name, name)}_{unit}": samples for (name, _, unit), samples in parts}

    found = []
    for one in (today, earlier):
        with Store(tmp_path / one.__name__) as store:
            site = MeasurementSession.here((0, 1), dataclasses.replace(TOOLS, probe=one), store)
            for _ in range(2):
                site.calibrate([4096], ["signals"], Quiet())
            found.append(constants(next(store.calibrations())))
            names = {
                row[0] for row in sqlite3.connect(store.path).execute("SELECT quantity FROM calibrations")
            }
            assert ("unit_ns" in names) == (one is earlier)
    assert found[0] == found[1]
    assert found[0].walk_step_of({4096}) == 64.0


def test_present_names_stay_and_former_ones_change():
    for one in CONSTANTS:
        assert present_name(one.name) == one.name
        assert present_name(one.quantity) == one.quantity
    assert present_name("rested_switch_ns 500") == "switch_after_idle_ns 500"
    assert present_name("switch") == "switch"
    assert present_name("x") == "x"


@pytest.mark.parametrize("key", [one.name for one in CONSTANTS if one.least == 0])
def test_no_constant_is_negative(key):
    kind = next(one.kind for one in CONSTANTS if one.name == key)
    value = -1.0 if kind is float else [[-1.0]] if kind == Rows else [-1.0]
    with pytest.raises(InputError, match=rf"^{key}.* = -1.0: must be a number"):
        SimulatedMachine(**{"idle_times_us": [5.0]} | {key: value})
