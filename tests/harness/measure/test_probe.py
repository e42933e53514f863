"""The calibration probe on real ranks: plausible constants of this host."""

import json
import statistics
import subprocess
import sys

import pytest
from runs import needs_two, spawned, two_processors

from coordinator.drive.driver import run_workload
from coordinator.host.launcher_choice import find_launcher
from harness.measure import calibrate

pytestmark = pytest.mark.slow
FEW = "--samples", "8"


def probe(processors, *options, ranks=3):
    launcher = find_launcher()
    command = [sys.executable, "-m", "mpi4py", "-m", "workloads.probe", "--samples", "30"]
    places = ",".join(map(str, processors))
    return subprocess.run(
        launcher.argv(ranks, [*command, "--processors", places, *options]),
        env=launcher.environment({}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@needs_two
def test_a_switch_costs_more_than_a_message():
    samples = json.loads(probe(two_processors(), "--working-set-bytes", "100000").stdout)
    found = {name: statistics.median(values) for name, values in samples.items()}
    each = samples["local_switch_pair_ns"]
    assert len(samples["overrun_ns"]) == len(each) == 20 * len(samples["local_switch_ns"])
    assert 0 < min(each) < statistics.median(each) < max(each)
    assert len(samples["switch_after_idle_ns 500"]) == len(samples["migration_ns"]) == 30
    for name in ("local_switch_ns", "idle_wakeup_ns", "memory_step_ns", "wake_ns"):
        assert found[name] > 0, name
    for name in ("latency_ns", "receive_ns", "send_ns"):
        assert 0 < found[name] < found["remote_wakeup_ns"], name
    assert 0 < found["poll_ns"] < found["send_ns"]
    # Differences: other load can make them negative, and as long as its turns.
    for name in ("switch_after_idle_ns 10000", "send_after_idle_ns 10000"):
        assert abs(found[name]) < 5e7, name
    assert 0 < found["overrun_ns"] < 1e7
    assert abs(found["reload_ns"]) < 1e7 and abs(found["migration_ns"]) < 1e7  # 100 kB may stay in the cache
    assert found["os_noise_interval_ns"] <= 1e9 and 0 <= found["tick_delay_ns"] < 4e6


@needs_two
def test_other_load_shows_as_detours():
    """A process that competes for both processors takes turns of milliseconds from them."""
    processors = two_processors()
    burn = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    one, other = ([sys.executable, "-c", burn, str(processor)] for processor in processors)
    with spawned(*one), spawned(*other):
        found = json.loads(probe(processors, *FEW).stdout)
    assert statistics.median(found["os_noise_length_ns"]) > 500_000
    assert max(found["os_noise_interval_ns"]) < 50e6


@needs_two
def test_changes_of_slot_cost_time():
    processors = two_processors()
    found = calibrate.of_slots(run_workload, processors, "signals")
    assert len(found["slot_cost_ns"]) == 2
    assert len(found["switch_delay_ns"]) > 30
    # Two system calls for each of two processes at the least; other load may add to it without bound.
    assert statistics.median(found["slot_cost_ns"]) > 1e3


def test_one_processor_is_enough_for_a_switch_but_two_ranks_are_not():
    found = json.loads(probe(two_processors()[:1], *FEW).stdout)
    assert {*found["latency_ns"], *found["wake_ns"], *found["send_after_idle_ns 500"]} == {0.0}
    for name in ("remote_wakeup_ns", "switch_after_idle_ns 500", "overrun_ns"):
        assert statistics.median(found[name]) > 0, name
    done = probe([0], ranks=2)
    assert done.returncode != 0 and "wants 3 ranks and has 2" in done.stderr + done.stdout
