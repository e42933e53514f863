"""Machine constants that are measured again during a series of runs."""

import dataclasses

import pytest
from fake_runs import TOOLS, Quiet, probe

from coordinator.host.launch import LaunchError
from harness.analyse.caveats import of_calibration
from harness.measure import runner, session
from harness.measure.measured import FRESH_S, Measured, Recalibrated
from harness.measure.plan import plan
from harness.measure.session import MeasurementSession
from harness.spec.experiment import load
from harness.store.database import Store, StoreError

SWEPT = ["repeats=2", 'sweep={"program.granularity_us" = [500, 1000]}']


class DriftingHost:
    """Its clock, and its probe: each time a switch and a step take more; may have no MPI, or no slots."""

    def __init__(self):
        self.now_s, self.load, self.probed, self.fails, self.stops = 0.0, 0.0, 0, False, True

    def probe(self, processors, working_set_bytes):
        self.probed += 1
        if self.fails:
            raise LaunchError("no MPI today")
        times = {"remote_wakeup_ns": [1e3 * self.probed], "walk_step_ns": [64.0 * self.probed]}
        return probe(processors, working_set_bytes) | times

    def run_workload(self, workload, progress=None):
        result = TOOLS.run_workload(workload, progress)
        slots = workload.policy.needs_mechanism and not self.stops
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
def constants(fake, watcher, tmp_path):
    with Store(tmp_path) as store:
        tools = dataclasses.replace(TOOLS, probe=fake.probe, run_workload=fake.run_workload)
        site = MeasurementSession.here((0, 1), tools, store)
        yield Recalibrated(site, {4096}, ["signals"], lambda found: fake.load, watcher, fake.clock)


@pytest.fixture
def tasks():
    return plan(load("three-jobs", settings=SWEPT))


def test_constants_are_measured_again_when_they_are_old_but_never_among_runs_that_are_compared(
    constants, fake, watcher, tasks
):
    """Here each run takes a third of the time for which a calibration holds."""
    groups = {}
    store = constants.site.store
    for record in runner.run(tasks, Measured(constants.site, constants, watcher.note), store, watcher):
        groups.setdefault((record.cell, record.repeat), set()).add(record.constants.remote_wakeup_us)
        fake.now_s += FRESH_S / 3
    assert list(groups.values()) == [{1.0}, {2.0}, {3.0}, {4.0}]
    last = store.last_calibration()
    (wakeup,) = [one for one in last if one.quantity == "remote_wakeup_ns"]
    assert wakeup.samples == [4e3]  # of the fourth calibration alone
    busy = [dataclasses.replace(one.conditions, load_before=6.0) for one in last]
    found = [dataclasses.replace(one, conditions=during) for one, during in zip(last, busy, strict=True)]
    assert not any("load" in doubt for doubt in of_calibration(found))  # it is that of our own runs


def test_programs_do_the_same_work_after_a_new_calibration(constants, fake, tasks):
    before = constants(tasks[0])
    assert constants(tasks[-1]).remote_wakeup_us == 1.0 and fake.probed == 1, "constants that are fresh stand"
    fake.now_s = FRESH_S
    after = constants(tasks[0])
    assert (before.remote_wakeup_us, after.remote_wakeup_us) == (1.0, 2.0)
    assert before.walk_step_of({4096}) == after.walk_step_of({4096}) == 64.0
    found = session.constants(constants.site.store.last_calibration())
    assert (found.remote_wakeup_us, found.walk_step_of({4096})) == (2.0, 64.0)


def test_a_first_calibration_that_fails_ends_the_series(constants, fake, tasks):
    fake.fails = True
    with pytest.raises(LaunchError, match="no MPI today"):
        constants(tasks[0])


@pytest.mark.parametrize(
    ("fault", "why"),
    [("probe", "no MPI today"), ("slots", "no slots could be measured with signals"), ("store", "locked")],
)
def test_constants_stand_if_a_later_calibration_fails(
    constants, fake, watcher, tasks, monkeypatch, fault, why
):
    def locked(store, calibrations):
        raise StoreError("locked")

    before = constants(tasks[0])
    fake.fails, fake.stops, fake.now_s = fault == "probe", fault != "slots", FRESH_S
    if fault == "store":
        monkeypatch.setattr(Store, "add_calibrations", locked)
    assert constants(tasks[-1]) is before
    assert watcher.warnings == [f"the machine constants are not measured again: {why}"]
    tries = fake.probed
    assert constants(tasks[0]) is before
    assert fake.probed == tries  # not at once again
    stored = session.constants(constants.site.store.last_calibration())
    assert stored.remote_wakeup_us == before.remote_wakeup_us


def test_a_calibration_under_load_has_a_warning(constants, fake, watcher, tasks):
    constants(tasks[0])
    assert watcher.warnings == []
    fake.load, fake.now_s = 0.31, FRESH_S
    constants(tasks[-1])
    (warning,) = watcher.warnings
    assert "others took 31% of the processors' time during a calibration" in warning


def test_a_host_with_one_processor_says_once_that_it_is_not_calibrated(
    constants, fake, watcher, tasks, monkeypatch
):
    monkeypatch.setattr(session, "usable_processors", lambda: (0,))
    constants.site = dataclasses.replace(constants.site, processors=(0,))
    for task in tasks:
        constants(task)
        fake.now_s += FRESH_S
    assert len(watcher.warnings) == 1 and "needs two processors" in watcher.warnings[0]
