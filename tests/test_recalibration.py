"""Machine constants that are measured again during a series of runs."""

import dataclasses

import pytest
from fake_runs import TOOLS, Quiet, probe

from coordinator.host.launch import LaunchError
from harness.measure import runner
from harness.measure.measured import Measured
from harness.measure.plan import plan
from harness.measure.recalibration import FRESH_S, Recalibrated
from harness.measure.session import Site
from harness.predict.process_level import Host
from harness.spec.experiment import load
from harness.store.database import Store
from harness.store.records import POLICY

SWEPT = ["repeats=2", 'sweep={"program.granularity_us" = [500, 1000]}']


class DriftingHost:
    """Its clock, and a probe: each time a switch costs one microsecond more; may fail."""

    def __init__(self):
        self.now_s, self.probed, self.fails = 0.0, 0, False

    def probe(self, processors, working_set_bytes):
        self.probed += 1
        if self.fails:
            raise LaunchError("no MPI today")
        return probe(processors, working_set_bytes) | {"switch_ns": [1e3 * self.probed]}

    def clock(self):
        return self.now_s


@pytest.fixture
def host():
    return DriftingHost()


@pytest.fixture
def watcher():
    return Quiet()


@pytest.fixture
def constants(host, watcher, tmp_path):
    with Store(tmp_path) as store:
        site = Site.here((0, 1), dataclasses.replace(TOOLS, probe=host.probe), store)
        yield Recalibrated(site, {0}, ["signals"], watcher, host.clock)


def test_constants_are_measured_again_when_they_are_old_but_never_among_runs_that_are_compared(
    constants, host, watcher
):
    """Here each run takes a third of the time for which a calibration holds."""
    groups = {}
    with constants.site.store as store:
        back_end = Measured(constants.site, constants, watcher.note)
        for record in runner.run(plan(load("three-jobs", settings=SWEPT)), back_end, store, watcher):
            groups.setdefault((record.cell, record.repeat), set()).add(record.constants["switch_us"])
            host.now_s += FRESH_S / 3
            if record.kind == POLICY:
                assert Host.of_run(record).constants["switch_us"] == record.constants["switch_us"]
        assert list(groups.values()) == [{1.0}, {2.0}, {3.0}, {4.0}]
        last = {one.quantity: one.samples for one in store.last_calibration()}
        assert last["switch_ns"] == [4e3]  # and not those of all four


def test_constants_that_are_fresh_stand(constants, host):
    for task in plan(load("three-jobs", settings=SWEPT)):
        assert constants(task).switch_us == 1.0
    assert host.probed == 1


def test_a_first_calibration_that_fails_ends_the_series_and_a_later_one_does_not(constants, host, watcher):
    tasks = plan(load("three-jobs", settings=SWEPT))
    host.fails = True
    with pytest.raises(LaunchError, match="no MPI today"):
        constants(tasks[0])
    host.fails = False
    before = constants(tasks[0])
    host.fails, host.now_s = True, FRESH_S
    assert constants(tasks[-1]) is before
    assert watcher.warnings == ["the machine constants are not measured again: no MPI today"]
    tries = host.probed
    assert constants(tasks[0]) is before
    assert host.probed == tries  # not at once again
