"""Tools that look into processes: they end in time, whatever they do, and stop nothing for ever."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from places import SUPPORT
from runs import eventually, state

from coordinator.host.inspection import AT_ONCE, MOST_BYTES, Inspection, Outcome, inspect

pytestmark = pytest.mark.slow

ATTACH = (sys.executable, "-S", str(SUPPORT / "attach.py"))


@pytest.fixture
def victim():
    """A process that runs."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "print(flush=True)\nwhile True: pass"], stdout=-1)
    process.stdout.readline()
    yield process.pid
    process.kill()
    process.communicate()


def outcome(pid, *argv, limit_s=10.0, environment=os.environ):
    (one,) = inspect([Inspection(pid, argv)], environment, limit_s)
    return one


def shell(pid, script, limit_s=10.0):
    return outcome(pid, "sh", "-c", script, limit_s=limit_s)


def children():
    return [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]


def test_what_a_tool_prints_is_its_outcome(victim):
    assert shell(victim, "echo out; echo err >&2") == Outcome("out\n", "err\n")
    assert shell(victim, "echo out; exit 3") == Outcome("out\n", "", "ended with status 3")
    assert shell(victim, "kill -SEGV $$").failure == "ended with status -11"
    assert shell(victim, r"printf 'a\377b'").output == "a\ufffdb"
    assert outcome(victim, "/nowhere").failure == "cannot be run: No such file or directory"
    assert outcome(victim, "/bin/sh", "-c", "echo $A", environment={"A": "b"}).output == "b\n"


def test_a_tool_that_prints_much_is_ended(victim):
    one = shell(victim, "yes")
    assert one.failure == f"printed more than {MOST_BYTES >> 20} MB"
    assert MOST_BYTES < len(one.output) < 2 * MOST_BYTES
    assert shell(victim, "yes | head -c 3000000 >&2").errors.count("y") == 1_500_000


def test_a_tool_that_hangs_is_ended_with_what_it_has_started(victim):
    begin = time.monotonic()
    one = shell(victim, "echo $$; sleep 1000 & echo $!; trap '' TERM; wait", limit_s=0.5)
    assert one.failure == "did not end within 0.5 s"
    assert time.monotonic() - begin < 5
    assert eventually(lambda: not any(psutil.pid_exists(int(pid)) for pid in one.output.split()))


def test_the_limit_holds_for_all_tools_together(victim):
    begin = time.monotonic()
    before = children()
    outcomes = inspect([Inspection(victim, ("sleep", "1000"))] * (3 * AT_ONCE), os.environ, 0.5)
    assert [one.failure for one in outcomes] == ["did not end within 0.5 s"] * (3 * AT_ONCE)
    assert time.monotonic() - begin < 5
    assert children() == before


def test_many_tools_run_a_few_at_a_time(victim, tmp_path):
    count = f"ls {tmp_path} | wc -l; touch {tmp_path}/$$; sleep 0.1; rm {tmp_path}/$$"
    words = ("sh", "-c", count)
    outcomes = inspect([Inspection(1 << 30 | one, words) for one in range(2 * AT_ONCE)], os.environ, 60)
    assert 0 < max(int(one.output) for one in outcomes) < AT_ONCE
    outcomes = inspect([Inspection(victim, words)] * 3, os.environ, 60)
    assert [one.output.strip() for one in outcomes] == ["0"] * 3


def test_signals_that_are_blocked_here_reach_a_tool(victim):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    try:
        assert "SigBlk:\t0000000000000000" in outcome(victim, "cat", "/proc/self/status").output
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_process_whose_tool_is_killed_runs_on(victim):
    """Without SIGCONT the stop comes that the tool has asked for and not awaited."""
    one = outcome(victim, *ATTACH, str(victim), limit_s=2.0)
    if one.output != "attached\n":
        pytest.skip(f"ptrace is forbidden: {one.errors}")
    assert one.failure == "did not end within 2 s"
    time.sleep(0.1)
    assert state(victim) == "R"


LISTENS = """
import signal
signal.signal(signal.SIGCONT, lambda *ignored: print("SIGCONT"))
print(flush=True)
input()
"""


@pytest.mark.parametrize(
    "script, stops, told",
    [("exit 3", True, ""), ("kill -KILL $$", False, ""), ("kill -KILL $$", True, "SIGCONT\n")],
)
def test_only_a_debugger_that_was_killed_is_followed_by_a_signal(script, stops, told):
    words = [sys.executable, "-S", "-c", LISTENS]
    with subprocess.Popen(words, stdin=-1, stdout=-1, text=True) as process:
        process.stdout.readline()
        inspect([Inspection(process.pid, ("sh", "-c", script), stops)], os.environ, 10.0)
        assert process.communicate("\n", timeout=60)[0] == told


def test_a_process_that_was_stopped_stays_stopped(victim):
    os.kill(victim, signal.SIGSTOP)
    assert eventually(lambda: state(victim) == "T")
    outcome(victim, *ATTACH, str(victim), limit_s=1.0)
    assert eventually(lambda: state(victim) == "T")
    os.kill(victim, signal.SIGCONT)
    assert eventually(lambda: state(victim) == "R")
