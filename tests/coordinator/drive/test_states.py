"""What the kernel knows of the time of commands: running, ready, asleep."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from rank_results import rank_result
from runs import needs_two, workload

from coordinator.drive.driver import run_workload
from coordinator.host.cpu_time import CpuTime
from harness.analyse.breakdown import STATES
from harness.analyse.breakdown import states as of_ranks
from workloads.record import WaitCounts, Waits
from workloads.work import Command

BURNERS = """
import os, sys, threading, time
def burn():
    end = time.thread_time() + 0.04
    while time.thread_time() < end: pass
done, told = os.pipe()
alive, held = os.pipe()
print(flush=True)
sys.stdin.readline()
child = os.fork()
burn()
if not child:
    os.close(held)
    os.write(told, b".")
    os.read(alive, 1)  # until its parent ends
    os._exit(0)
os.read(done, 1)
thread = threading.Thread(target=burn)
thread.start()
thread.join()
print(child, flush=True)
sys.stdin.readline()
os.kill(child, 9)
os.wait()
print(flush=True)
sys.stdin.readline()
"""
"""The process, a thread that ends and a child each compute for 40 ms; later the child ends."""

SECOND = """
import time
end = time.process_time() + 0.05
while time.process_time() < end: pass
time.sleep(1.2)
"""


@pytest.fixture
def burners():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", BURNERS], text=True, bufsize=1, **pipes) as process:
        process.stdout.readline()
        yield process
        process.stdin.close()


def goes_on(process):
    """Let the process go on to its next pause; what it says there."""
    process.stdin.write("\n")
    return process.stdout.readline().strip()


def test_threads_and_children_count_and_what_ended_is_not_forgotten(burners):
    counted = CpuTime(burners.pid)
    assert counted.record() == {}, "nobody has looked"
    child = int(goes_on(burners))
    counted.look([child])
    first = counted.record()
    assert first["running_ns"] >= 80_000_000, "of the process and its child; the thread has ended"
    assert first["ready_ns"] >= 0
    goes_on(burners)
    counted.look()
    second = counted.record()
    assert second["running_ns"] >= first["running_ns"] and second["looked_ns"] > first["looked_ns"]


def test_a_process_with_the_same_number_is_another_one(burners, monkeypatch):
    counted = CpuTime(burners.pid)
    counted.look()
    before = counted.record()
    kernel = SimpleNamespace(read_bytes=lambda: b"1 1 1")
    monkeypatch.setattr("coordinator.host.cpu_time.Path", lambda name: kernel)
    counted.look_at_end()
    assert counted.record() == before


@needs_two
@pytest.mark.slow
def test_ranks_of_commands_have_their_processor_time():
    result = run_workload(workload(programs=[Command((sys.executable, "-c", SECOND), 1)] * 2))
    assert result.failure == "" and len(result.ranks) == 2
    for rank in result.ranks:
        assert 0 < rank.running_ns < rank.looked_ns <= rank.finish_ns - rank.start_ns + 1_000_000
        assert rank.ready_ns >= 0 and rank.cpu_ns is None


def rank(looked_ns, running_ns, ready_ns, **more):
    return rank_result(looked_ns=looked_ns, running_ns=running_ns, ready_ns=ready_ns, **more)


def waits(ns):
    return {"waits": Waits(WaitCounts(spun_ns=ns, blocked_ns=ns))}


def test_states_are_shares_of_the_ranks_time():
    found = of_ranks([rank(1000, 600, 100), rank(3000, 600, 300)])
    assert [getattr(found, state) for state in STATES] == pytest.approx([0.3, 0.1, 0.6])
    assert found.in_waits is None
    assert of_ranks([rank(1000, 1, 1, **waits(100)), rank(1000, 1, 1, **waits(300))]).in_waits == 0.4


def test_several_threads_are_one_rank():
    found = of_ranks([rank(1000, 900, 500), rank(1000, 1500, 500)])
    assert (found.running, found.ready, found.asleep) == pytest.approx((0.95, 0.05, 0.0))


def test_our_programs_beside_commands_count_and_alone_they_have_a_breakdown():
    ours = rank_result(computing_ns=1, cpu_ns=800, run_queue_ns=200)
    assert of_ranks([ours]) is None
    assert of_ranks([ours, rank(1000, 200, 200)]).running == 0.5
    unknown = rank_result()
    assert of_ranks([unknown]) is None and of_ranks([unknown, rank(1000, 1, 1)]) is None
