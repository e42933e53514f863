"""Machine constants that are measured again during a series of runs."""

import dataclasses

import pytest
from fake_runs import TOOLS, Quiet, probe

from coordinator.host.launch import LaunchError, TooLongError
from harness.measure import calibrate, runner, session, trust
from harness.measure.calibrate import Constants
from harness.measure.measured import FRESH_S, Measured, Recalibrated
from harness.measure.plan import plan
from harness.measure.session import MeasurementSession
from harness.spec.experiment import load
from harness.store import conditions
from harness.store.database import Store, StoreError

SWEPT = ["repeats=2", 'sweep={"program.granularity_us" = [500, 1000]}']


class DriftingHost:
    """Its clock, and its probe: if it drifts, each time a switch and a step take more.

    Others may take a share of its processors; it may have no MPI, or no slots, or be too busy to answer.
    """

    def __init__(self):
        self.now_s, self.load, self.probed, self.fails, self.stops = 0.0, 0.0, 0, False, True
        self.drifts = True
        self.busy = False
        self.levels = []  # of switches after a rest in the quarters of each calibration; the last ones stay

    def probe(self, processors, working_set_bytes):
        self.probed += 1
        if self.fails:
            raise LaunchError("no MPI today")
        if self.busy:
            raise TooLongError("mpiexec took longer than 120 s")
        drift = self.probed if self.drifts else 1
        times = {"remote_wakeup_ns": [1e3 * drift], "memory_step_ns": [64.0 * drift]}
        if self.levels:
            quarters = self.levels.pop(0) if len(self.levels) > 1 else self.levels[0]
            times["switch_after_idle_ns 500"] = [level for level in quarters for _ in range(25)]
        return probe(processors, working_set_bytes) | times | {"os_noise_length_ns": [self.load * 25e6]}

    def run_workload(self, workload, progress=None, history=None):
        result = TOOLS.run_workload(workload, progress)
        slots = workload.policy.stops_processes and not self.stops
        return dataclasses.replace(result, failure="no slots today") if slots else result

    def clock(self):
        return self.now_s


@pytest.fixture
def fake():
    return DriftingHost()


@pytest.fixture
def watcher():
    return Quiet()


@pytest.fixture
def constants(fake, watcher, tmp_path, monkeypatch):
    """Nothing else runs on the host, whatever else runs on this one."""
    monkeypatch.setattr(conditions, "of_run", lambda during, before, after: during)
    with Store(tmp_path) as store:
        tools = dataclasses.replace(TOOLS, probe=fake.probe, run_workload=fake.run_workload)
        session = MeasurementSession.begin((0, 1), tools, store)
        yield Recalibrated(session, {4096}, ["signals"], watcher, fake.clock)


@pytest.fixture
def tasks():
    return plan(load("three-jobs", settings=SWEPT))


def test_constants_are_measured_again_when_they_are_old_but_never_among_runs_that_are_compared(
    constants, fake, watcher, tasks
):
    """Here each run takes a third of the time for which a calibration holds."""
    groups = {}
    store = constants.session.store
    for record in runner.run(tasks, Measured(constants.session, constants, watcher.note), store, watcher):
        groups.setdefault((record.cell, record.repeat), set()).add(record.constants.remote_wakeup_us)
        fake.now_s += FRESH_S / 3
    assert list(groups.values()) == [{1.0}, {2.0}, {3.0}, {4.0}]
    last = next(store.calibrations())
    (wakeup,) = [one for one in last if one.quantity == "remote_wakeup_ns"]
    assert wakeup.samples == [4e3]  # of the fourth calibration alone


def test_programs_do_the_same_work_after_a_new_calibration(constants, fake, tasks):
    before = constants(tasks[0])
    assert constants(tasks[-1]).remote_wakeup_us == 1.0 and fake.probed == 1, "constants that are fresh stand"
    fake.now_s = FRESH_S
    after = constants(tasks[0])
    assert (before.remote_wakeup_us, after.remote_wakeup_us) == (1.0, 2.0)
    assert before.memory_step_of({4096}) == after.memory_step_of({4096}) == 64.0
    values = calibrate.constants(next(constants.session.store.calibrations()))
    assert (values.remote_wakeup_us, values.memory_step_of({4096})) == (2.0, 64.0)


def test_a_first_calibration_that_fails_ends_the_series(constants, fake, tasks):
    fake.fails = True
    with pytest.raises(LaunchError, match="no MPI today"):
        constants(tasks[0])


@pytest.mark.parametrize(
    "fault, reason",
    [("probe", "no MPI today"), ("slots", "no slots could be measured with signals"), ("store", "locked")],
)
def test_constants_stand_if_a_later_calibration_fails(
    constants, fake, watcher, tasks, monkeypatch, fault, reason
):
    def locked(store, calibrations):
        raise StoreError("locked")

    before = constants(tasks[0])
    fake.fails = fault == "probe"
    fake.stops = fault != "slots"
    fake.now_s = FRESH_S
    if fault == "store":
        monkeypatch.setattr(Store, "add_calibrations", locked)
    assert constants(tasks[-1]) is before
    assert watcher.warnings == [f"the machine constants are not measured again: {reason}"]
    tries = fake.probed
    assert constants(tasks[0]) is before
    assert fake.probed == tries  # not at once again
    stored = calibrate.constants(next(constants.session.store.calibrations()))
    assert stored.remote_wakeup_us == before.remote_wakeup_us


def test_the_last_good_constants_stand_while_others_disturb_calibrations(constants, fake, watcher, tasks):
    """A calibration under load is repeated three times; each time it finds something else."""
    before = constants(tasks[0])
    fake.load = 0.31
    fake.now_s = FRESH_S
    assert constants(tasks[-1]).remote_wakeup_us == before.remote_wakeup_us == 1.0
    (warning,) = watcher.warnings
    assert "a later calibration was made under load (others took 31% of the processors)" in warning
    assert fake.probed == 5


def test_without_a_good_calibration_the_machine_is_the_one_of_1996(constants, fake, watcher, tasks):
    fake.load = 0.31
    assert constants(tasks[0]) == Constants()
    (warning,) = watcher.warnings
    assert "values missing in [machine] are from Dusseau et al. 1996" in warning
    assert "(others took 31% of the processors); lockstep calibrate needs an idle host" in warning
    fake.load = 0.0
    fake.now_s = FRESH_S
    assert constants(tasks[-1]).slots.keys() == {"signals"}, "as soon as the host is idle, it is calibrated"


@pytest.mark.parametrize("load, drifts, probed, good", [
    (0.0, True, 1, True),  # an idle host is calibrated once
    (0.1, False, 2, True),  # two in a row agree
    (0.1, True, 4, False),  # none agrees with the one before
    (0.3, False, 4, False),  # under such a load agreement says nothing
])  # fmt: skip
def test_a_calibration_under_load_is_repeated_until_two_agree(constants, fake, load, drifts, probed, good):
    fake.load = load
    fake.drifts = drifts
    calibration_values = constants.session.calibrate([4096], ["signals"], Quiet())
    assert (fake.probed, trust.good(calibration_values)) == (probed, good)
    assert len(list(constants.session.store.calibrations())) == probed


HIGH = 120e3
LOW = 3e3
STEADY = [LOW] * 4
CHANGED = [HIGH, HIGH, HIGH, LOW]
CHANGED_BACK = [LOW, LOW, LOW, HIGH]


@pytest.mark.parametrize("levels, probed, warned", [
    ([STEADY], 1, False),  # an idle host is calibrated once
    ([CHANGED, STEADY], 2, False),
    ([CHANGED, CHANGED_BACK, STEADY], 3, False),
    ([CHANGED, CHANGED], 2, False),  # it changes all the while, and two in a row found the same mixture
    ([CHANGED, CHANGED_BACK, CHANGED, CHANGED_BACK], 4, True),
])  # fmt: skip
def test_a_calibration_that_contradicts_itself_is_repeated_and_stands_with_a_warning(
    constants, fake, watcher, tasks, levels, probed, warned
):
    fake.levels = levels
    fake.drifts = False
    back_end = Measured(constants.session, constants, watcher.note)
    record = back_end.run(tasks[0])
    assert (fake.probed, len(watcher.warnings)) == (probed, warned)
    assert record.conditions.calibration == "".join(watcher.warnings)
    if warned:
        text = "its samples contradict each other: switch_after_idle_us (500 us) 3 to 1.2e+02 us"
        assert text in record.conditions.calibration


def test_runs_go_on_where_a_host_is_too_busy_for_a_calibration(constants, fake, watcher, tasks):
    fake.busy = True
    assert constants(tasks[0]) == Constants()
    assert watcher.warnings[0].startswith("calibration needs an idle host: mpiexec took longer than 120 s")
    assert fake.probed == 1, "what takes so long is not repeated at once"


def test_a_host_with_one_processor_says_once_that_it_is_not_calibrated(
    constants, fake, watcher, tasks, monkeypatch
):
    monkeypatch.setattr(session, "usable_processors", lambda: (0,))
    constants.session = dataclasses.replace(constants.session, processors=(0,))
    for task in tasks:
        constants(task)
        fake.now_s += FRESH_S
    assert len(watcher.warnings) == 1 and "needs two processors" in watcher.warnings[0]
