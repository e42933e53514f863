"""The calibration probe on real ranks: plausible constants of this host."""

import json
import os
import statistics
import subprocess
import sys

import pytest

from coordinator.drive.driver import run_workload
from coordinator.host.launchers import find_launcher
from harness.measure import calibrate


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


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_switch_costs_more_than_a_message():
    done = probe(sorted(os.sched_getaffinity(0))[:2], "--working-set-bytes", "100000")
    found = {name: statistics.median(samples) for name, samples in json.loads(done.stdout).items()}
    assert 0 < found["latency_ns"] < found["remote_wakeup_ns"]
    assert found["local_switch_ns"] > 0
    each = json.loads(done.stdout)["local_switch_pair_ns"]
    assert len(each) == 20 * len(json.loads(done.stdout)["local_switch_ns"])
    assert 0 < min(each) < statistics.median(each) < max(each)
    assert found["idle_wakeup_ns"] > 0
    assert len(json.loads(done.stdout)["switch_after_idle_ns 500"]) == 28  # 30 samples, in four rounds
    assert abs(found["send_after_idle_ns 10000"]) < 5e6
    assert 0 < found["switch_after_idle_ns 10000"] < 5e6
    assert 0 < found["overrun_ns"] < 1e6
    assert len(json.loads(done.stdout)["overrun_ns"]) == len(each)
    assert found["walk_step_ns"] > 0
    assert abs(found["reload_ns"]) < 1e6  # 100 kB may well stay in the cache
    assert abs(found["move_ns"]) < 1e6
    assert 0 < found["receive_ns"] < found["remote_wakeup_ns"]
    assert 0 < found["send_ns"] < found["remote_wakeup_ns"]
    assert 0 < found["poll_ns"] < found["send_ns"]
    assert found["detour_gap_ns"] <= 1e9
    assert 0 <= found["tick_lateness_ns"] < 4e6


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_other_load_shows_as_detours():
    """A process that competes for both processors takes turns of milliseconds from them."""
    processors = sorted(os.sched_getaffinity(0))[:2]
    burn = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", burn, str(processor)]) for processor in processors]
    try:
        found = json.loads(probe(processors).stdout)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert statistics.median(found["detour_ns"]) > 500_000
    assert max(found["detour_gap_ns"]) < 50e6


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_changes_of_slot_cost_time():
    processors = sorted(os.sched_getaffinity(0))[:2]
    found = calibrate.of_slots(run_workload, processors, "signals")
    assert len(found["slot_cost_ns"]) == 2
    assert len(found["lateness_ns"]) > 30
    # Two system calls for each of two processes at the least; other load may add to it without bound.
    assert statistics.median(found["slot_cost_ns"]) > 1e3


@pytest.mark.slow
def test_one_processor_is_enough_for_a_switch():
    done = probe(sorted(os.sched_getaffinity(0))[:1])
    found = json.loads(done.stdout)
    assert statistics.median(found["remote_wakeup_ns"]) > 0
    assert found["latency_ns"] == [0.0]
    assert statistics.median(found["switch_after_idle_ns 500"]) > 0
    assert set(found["send_after_idle_ns 500"]) == {0.0}
    assert statistics.median(found["overrun_ns"]) > 0


@pytest.mark.slow
def test_another_number_of_ranks_is_refused():
    done = probe([0], ranks=2)
    assert done.returncode != 0
    assert "wants 3 ranks and has 2" in done.stderr + done.stdout
