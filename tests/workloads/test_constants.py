"""The table of machine constants: what is declared once is everywhere."""

import dataclasses
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from fake_runs import TOOLS, Quiet, probe
from places import ROOT

from harness.measure.calibrate import Constants, constants
from harness.measure.session import MeasurementSession
from harness.predict.process_level import machine_like
from harness.report.listing import MEANING
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import MACHINE, PROCESSOR, State
from harness.simulator.processes.state import allocate, start_timers
from harness.spec.scheduler import scheduler_of
from harness.store.database import Store
from workloads.bounds import BOUNDS
from workloads.constants import CONSTANTS, MachineConstants, Rows, Samples
from workloads.machine import KEYS
from workloads.program import Program
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
    result = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
    numbers, refused = result.stdout.splitlines()
    assert numbers == "2.0 2.0 2000"
    assert refused.startswith("close_us = -1: must be a number from 0")


def test_each_constant_has_its_bounds_its_number_in_the_kernel_and_its_meaning():
    for one in CONSTANTS:
        assert (f"machine.{one.name}" in BOUNDS) == (one.name in KEYS) == one.given
        time = one.kind is float and one.name.endswith("_us")
        assert (one.in_ns in MACHINE.names) == time
        assert one.quantity.removesuffix("_ns") in MEANING
        assert isinstance(one.kind, type) == (one.kind is float), one.name


def test_the_simulator_has_each_constant_under_its_one_name():
    """All numbers differ, so that none can stand for another."""
    numbers = {one.name: 100.0 + index for index, one in enumerate(CONSTANTS) if one.kind is float}
    lists = {one.name: [1.0, 2.0 + index] for index, one in enumerate(CONSTANTS) if one.kind == Samples}
    rows = {one.name: [[1.0 + index], [3.0]] for index, one in enumerate(CONSTANTS) if one.kind == Rows}
    values = numbers | lists | rows
    state = simulated(SimulatedMachine(processors=2, **values))
    for one in CONSTANTS:
        value_ns = 1e3 * np.array(values[one.name])
        if one.kind is not float:
            places = state.processors if one.in_ns in PROCESSOR.names else state
            assert getattr(places, one.in_ns).tolist() == value_ns.tolist(), one.name
        elif one.name.endswith("_us"):
            assert state.machine[one.in_ns] == value_ns, one.name


def test_what_is_not_drawn_is_empty():
    rows = {"idle_times_us": [5.0], "switch_after_idle_us": [[0.0, 0.0]], "send_after_idle_us": [[0.0, 0.0]]}
    nothing = simulated(SimulatedMachine())
    idle = simulated(SimulatedMachine(**rows))
    lists = [one.in_ns for one in CONSTANTS if one.in_ns in State._fields]
    assert [name for name in lists if len(getattr(nothing, name))] == ["switch_delay_ns"]
    drawn = ["switch_deviation_ns", "idle_times_ns", "switch_after_idle_ns", "switch_delay_ns"]
    assert [name for name in lists if len(getattr(idle, name))] == drawn


def simulated(machine):
    """A simulated machine's state, before any job has come."""
    state = allocate(machine, [SimulatedJob(0, Program("BARRIER", 2, phases=1))], timeline=False)
    start_timers(state, machine, np.random.default_rng(0))
    return state


def test_the_documents_list_all_constants_with_their_quantities(golden):
    lines = [f"| `{one.name}` | {one.meaning} | `{one.quantity}` |" for one in CONSTANTS]
    golden.table("reference/store.md", "| constant | meaning | from |", lines)
    text = (ROOT / "docs" / "reference/store.md").read_text()
    table = text.partition("\n| quantities | measured from |\n")[2].partition("\n\n")[0]
    assert {one.quantity for one in CONSTANTS} - set(re.findall(r"`(\w+)", table)) == set()


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
    recorded = host.of_run("").recorded() | {"slot_cost_us": [1.0, 2.0], "switch_delay_us": [1.0, 2.0]}
    known = MachineConstants(**recorded)
    assert known == MachineConstants(**values | lists | rows)
    assert MachineConstants(**known.recorded()) == known
    machine = machine_like(known, 2, scheduler_of({"policy": "none"}))
    changed = {"latency_us", "poll_us", "tick_delay_us"}
    assert {name for name, value in vars(known).items() if getattr(machine, name) != value} == changed


def test_programs_of_a_session_go_by_its_first_time_of_a_step(tmp_path):
    steps_ns = iter((64.0, 99.0))

    def steps(processors, size):
        return probe(processors, size) | {"memory_step_ns": [next(steps_ns)]}

    with Store(tmp_path) as store:
        session = MeasurementSession.begin((0, 1), dataclasses.replace(TOOLS, probe=steps), store)
        for _ in range(2):
            session.calibrate([4096], ["signals"], Quiet())
        assert constants(next(store.calibrations())).memory_step_of({4096}) == 64.0


@pytest.mark.parametrize("key", [one.name for one in CONSTANTS if one.minimum == 0])
def test_no_constant_is_negative(key):
    kind = next(one.kind for one in CONSTANTS if one.name == key)
    value = -1.0 if kind is float else [[-1.0]] if kind == Rows else [-1.0]
    with pytest.raises(InputError, match=rf"^{key}.* = -1.0: must be a number"):
        SimulatedMachine(**{"idle_times_us": [5.0]} | {key: value})
