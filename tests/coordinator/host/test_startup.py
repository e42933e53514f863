"""A driver that is killed while it starts leaves nothing, whenever that is."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from places import SUPPORT
from runs import command, eventually, everything_in, running

from coordinator.host.environment import forwarded
from coordinator.host.rundir import RunDirectory

pytestmark = pytest.mark.slow

PATIENCE_S = 10.0

MAKING = """
import os, signal
from coordinator.host.rundir import RunDirectory
directory = RunDirectory.create()
assert directory.path.is_dir()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_directory_whose_maker_is_killed_before_it_has_begun_anything_is_removed(tmp_path):
    environment = forwarded({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert subprocess.run([sys.executable, "-c", MAKING], env=environment, check=False).returncode < 0
    assert eventually(lambda: not everything_in(tmp_path))


MAKING_HOME = """
import os, signal
from coordinator.host import directories
from coordinator.host.rundir import RunDirectory
directories.check_own = lambda parent: os.kill(os.getpid(), signal.SIGKILL)
RunDirectory.{call}
"""


def test_an_interrupt_while_a_directory_is_made_leaves_none(tmp_path, monkeypatch):
    def interrupt(directory, **entry):
        raise KeyboardInterrupt

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(RunDirectory, "note", interrupt)
    with pytest.raises(KeyboardInterrupt):
        RunDirectory.create()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", ["create()", "adopt(directories.home() / '0123abcd')"])
def test_the_directory_of_all_runs_is_removed_if_its_maker_is_killed_at_once(call, tmp_path):
    environment = forwarded({"XDG_RUNTIME_DIR": str(tmp_path)})
    code = [sys.executable, "-c", MAKING_HOME.replace("{call}", call)]
    assert subprocess.run(code, env=environment, check=False).returncode == -signal.SIGKILL
    assert eventually(lambda: not everything_in(tmp_path))


def kill_after(delay_s):
    """Kill a driver so long after its start, and look for remains."""
    mechanism = "freezer" if os.getuid() == 0 else "signals"
    with running(policy="gang", mechanism=mechanism, phases=9000) as run:
        time.sleep(delay_s)
        segments = run.segments()
        run.note()
        run.driver.kill()
        run.driver.communicate()
        eventually(lambda: not run.remains(), PATIENCE_S)
        assert run.remains() == [], f"killed after {delay_s} s"
        assert [path for path in segments if path.exists()] == []


def test_nothing_remains_of_a_start():
    kill_after(0.4)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(100))
def test_nothing_remains_of_a_start_at_any_instant(number):
    kill_after(0.02 * number)


def kill_across_hosts(hosts, delay_s):
    """Kill a driver of two hosts so long after its start, and look for remains on all."""
    options = {"hosts": hosts.hosts, "policy": "gang", "mechanism": "signals", "phases": 9000}
    run = hosts.start([sys.executable, str(SUPPORT / "runs.py"), json.dumps(options)])
    time.sleep(delay_s)
    for pid in hosts.head.processes():
        if "runs.py" in " ".join(command(pid)):  # others come and go
            os.kill(pid, signal.SIGKILL)
    run.communicate()
    eventually(lambda: not hosts.processes() and not hosts.files(), PATIENCE_S)
    left = [command(pid) for pid in hosts.processes()]
    assert (left, hosts.files()) == ([], []), f"killed after {delay_s} s"


def test_nothing_remains_of_a_start_across_hosts(hosts):
    kill_across_hosts(hosts, 0.8)


@pytest.mark.soak
def test_nothing_remains_of_a_start_across_hosts_at_any_instant(hosts):
    for number in range(100):
        kill_across_hosts(hosts, 0.02 * number)
