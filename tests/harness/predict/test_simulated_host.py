"""What the simulated machine of a host has: calibrated constants, local schedulers, queues and caches."""

from dataclasses import replace

import pytest

from coordinator import policies
from harness.measure.calibrate import constants, own_cache_kb
from harness.predict.process_level import Host, machine_like
from harness.simulator.processes.machine import SimulatedJob
from harness.simulator.processes.simulate import simulate
from harness.spec.scheduler import scheduler_of
from harness.store.conditions import Conditions
from harness.store.records import Calibration
from workloads.constants import MachineConstants
from workloads.program import Program
from workloads.validation import InputError

NONE = scheduler_of({"policy": "none"})
CONSTANTS = MachineConstants(
    remote_wakeup_us=20.0,
    local_switch_us=5.0,
    latency_us=3.0,
    idle_wakeup_us=30.0,
    send_us=1.0,
    receive_us=0.5,
    serve_us=0.2,
    poll_us=0.2,
    tick_us=1000.0,
    rr_interval_us=30_000.0,
    slot_cost_us=[300.0, 100.0],
)


def test_a_message_takes_as_long_as_the_calibrated_one():
    program = Program(pattern="NEWS", granularity_us=50, imbalance=0, phases=1)
    machine = machine_like(CONSTANTS, 2, NONE)
    outcome = simulate([SimulatedJob(0, program)], machine, policies.create("none", {}))
    reads = outcome.jobs[0].reads
    # Two messages of 3 us, but that the wait begins when the first has been sent, which takes 1 us.
    assert reads.spun_ns / reads.spun == pytest.approx(5_000, rel=0.1)


def test_the_classes_of_the_kernel_have_their_schedulers():
    rr = machine_like(CONSTANTS, 2, scheduler_of({"policy": "none", "local": "rr"}))
    assert (rr.local, rr.table()[0][0]) == ("rr", 30)
    assert machine_like(CONSTANTS, 2, NONE).local == "eevdf"


def test_a_given_context_switch_has_no_calibrated_scatter_and_no_rests():
    measured = {
        "idle_times_us": (100.0, 1000.0),
        "switch_after_idle_us": ((40.0,), (200.0,)),
        "send_after_idle_us": ((3.0,), (7.0,)),
        "switch_deviation_us": (-2.0, 2.0),
        "overrun_us": (2.0,),
    }
    calibrated = replace(CONSTANTS, **measured)
    machine = Host(range(2), calibrated).machine(NONE)
    assert {name: getattr(machine, name) for name in measured} == measured
    given = Host(range(2), calibrated, {"context_switch_us": 7.0}).machine(NONE)
    assert (given.context_switch_us, given.switch_deviation_us, given.switch_after_idle_us) == (7.0, (), ())
    assert given.send_after_idle_us == measured["send_after_idle_us"]


def test_a_tick_that_the_hypervisor_delays_for_long_counts_half_a_tick():
    machine = machine_like(replace(CONSTANTS, tick_delay_us=[20.0, 5000.0]), 2, NONE)
    assert machine.tick_delay_us == (20.0, 500.0)


def test_what_a_record_lacks_costs_nothing():
    some = MachineConstants(remote_wakeup_us=20.0, local_switch_us=20.0, latency_us=3.0)
    machine = machine_like(some, 2, NONE)
    assert (machine.context_switch_us, machine.wakeups_ns, machine.latency_us) == (20.0, [0, 0], 3.0)
    assert (machine.os_noise_interval_us, machine.slot_cost_us, machine.tick_us) == (0.0, (), 0.0)
    assert not machine.tick_delay_us
    assert not machine.overrun_us


@pytest.mark.parametrize(
    "bind, given, queue",
    [
        (True, {"queue": "central"}, "bound"),
        (False, {"queue": "central"}, "central"),
        (False, {}, "stealing"),
        ("job", {}, "stealing"),
    ],
)
def test_bind_decides_whether_the_queue_of_the_machine_counts(bind, given, queue):
    scheduler = scheduler_of({"policy": "none", "bind": bind})
    simulated = Host([0, 1], MachineConstants(), {"local": "rr", **given}).machine(scheduler)
    assert (simulated.queue, simulated.within_job) == (queue, bind == "job")


@pytest.mark.parametrize(
    "table, rule",
    [
        ({"policy": "none", "bind": "jobs"}, 'must be true, false or "job"'),
        ({"policy": "none", "bind": 1}, 'must be true, false or "job"'),
        ({"policy": "idle-partition", "bind": "job"}, "gives running jobs other processors"),
        ({"policy": "gang", "migrate": True, "bind": "job"}, "gives running jobs other processors"),
        ({"policy": "dynamic-coscheduling", "bind": "job"}, "sends messages to a rank's own processor"),
    ],
)
def test_bindings_that_cannot_be_are_refused(table, rule):
    with pytest.raises(InputError) as caught:
        scheduler_of(table)
    assert caught.value.key == "bind"
    assert rule in str(caught.value)


@pytest.mark.parametrize("remedy", ["conscious", "inheritance"])
def test_remedies_that_look_at_one_queue_are_measured_unbound_but_not_simulated(remedy):
    for bind, simulated in ((True, True), (False, False), ("job", False)):
        scheduler = scheduler_of({"policy": "none", "remedy": {"kind": remedy}, "bind": bind})
        assert (scheduler.not_simulated == "") == simulated


def test_the_cache_is_the_largest_that_no_other_processor_shares(tmp_path):
    for index, (kind, shared, size) in enumerate(
        [("Data", "1", "32K"), ("Instruction", "1", "64M"), ("Unified", "1", "2M"), ("Unified", "0-1", "32M")]
    ):
        folder = tmp_path / "cpu1" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, text in (("type", kind), ("shared_cpu_list", shared), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert own_cache_kb(1, tmp_path) == 2048
    assert own_cache_kb(0, tmp_path) == 0


def test_the_time_to_load_a_cache_goes_by_walks_after_a_move():
    def calibration(quantity, samples, size=0):
        return Calibration("s", "", quantity, samples, [0, 1], size, "", Conditions())

    moves = calibration("migration_ns", [4e3, 5e3, 6e3], 512 * 1024)
    found = constants([calibration("cache_kb", [1024.0]), moves])
    assert (found.cache_kb, found.cache_reload_us) == (1024.0, 10.0)
    assert constants([]).cache_reload_us == 0.0
