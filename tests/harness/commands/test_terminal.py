"""Ctrl-Z, a hang-up and a closed terminal release everything, on one host and on several."""

import fcntl
import json
import os
import signal
import termios

import pytest
from faults import part, start
from runs import AMONG_OTHERS, eventually, running, state, usable

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mechanism", ["signals", "freezer"])
def test_ctrl_z_releases_all_before_it_stops_the_driver(mechanism):
    usable(mechanism)
    with running(policy="gang", mechanism=mechanism, phases=20000) as run:
        assert eventually(lambda: run.part("rank"))
        run.note()
        run.driver.send_signal(signal.SIGTSTP)
        # Where nobody could continue it, as in a session of its own, the kernel does not stop it.
        assert eventually(lambda: state(run.driver.pid) in ("T", "Z"), 30)
        assert run.remains() == []
        run.driver.send_signal(signal.SIGCONT)
        assert "suspended from the terminal (SIGTSTP)" in run.result()["failure"]


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGQUIT])
def test_a_hang_up_or_quit_releases_all(signum):
    with running(policy="gang", phases=20000) as run:
        assert eventually(lambda: run.part("rank"))
        run.note()
        run.driver.send_signal(signum)
        run.driver.communicate(timeout=30)
        assert run.driver.returncode == 128 + signum
        assert run.remains() == []


def test_a_terminal_that_is_closed_ends_the_command_and_leaves_nothing(tmp_path):
    ours, theirs = os.openpty()
    terminal = {
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
        "start_new_session": True,
        "preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY),
        "cwd": tmp_path,
    }
    argv = [*AMONG_OTHERS, "run", "three-jobs", "--no-simulate", "--no-wait"]
    with running(argv=argv, popen=terminal) as run:
        os.close(theirs)
        assert eventually(lambda: os.read(ours, 1 << 16) and run.part("rank"), 60)
        run.note()
        os.close(ours)
        assert run.driver.wait(30) == 130
        assert eventually(lambda: not run.remains()), run.remains()


def test_on_several_hosts_as_well(hosts):
    run = start(hosts, policy="gang", mechanism="signals", jobs=4, processes=1, phases=50_000)
    assert eventually(lambda: any(state(pid) == "T" for node in hosts.nodes for pid in node.processes()), 30)
    os.kill(part(hosts.head, '"hosts"'), signal.SIGTSTP)
    out, _ = run.communicate(timeout=60)  # in a session of its own it is not stopped, and tells
    assert "suspended from the terminal (SIGTSTP)" in json.loads(out)["failure"]
    assert not hosts.processes() and not hosts.files()
