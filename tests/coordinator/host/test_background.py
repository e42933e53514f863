"""What is kept back has little weight and gets it all back, even if the kernel refuses at first."""

import os
import subprocess
from pathlib import Path

import pytest

from coordinator.host import background, processes
from coordinator.host.background import AGAIN_NS, Background

GROUPS = Path("/proc/self/autogroup")


def weights(pid):
    """Policy and weight of the group of a process and of its descendants."""
    pids = [pid, *(process.pid for process in processes.descendants(pid))]
    groups = [Path(f"/proc/{one}/autogroup") for one in pids]
    last = [group.read_text().split()[-1] if group.exists() else "0" for group in groups]
    return [os.sched_getscheduler(one) for one in pids], last


@pytest.fixture
def launched():
    """A launcher with a child in a session of its own, as Hydra's ranks are, which begins after a line."""
    script = 'read line; setsid "$@" & echo begun; wait'
    rank = [*background.words(), "/bin/sh", "-c", "echo here >&2; exec sleep 60"]
    with subprocess.Popen(
        ["/bin/sh", "-c", script, "launcher", *rank],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as launcher:
        yield launcher
        for process in processes.descendants(launcher.pid):
            process.send(9)
        launcher.kill()


def begin(launcher):
    launcher.stdin.write(b"go\n")
    launcher.stdin.flush()
    assert launcher.stderr.readline() == b"here\n"


def test_a_launcher_and_what_it_starts_stand_back_until_they_are_fetched(launched):
    kept_back = Background()
    kept_back.put(3, launched.pid)
    begin(launched)
    policies, groups = weights(launched.pid)
    assert len(policies) == 2
    if not background.words():  # a user who could not give back what is taken
        assert (set(policies), set(groups)) == ({os.SCHED_OTHER}, {"0"})
    else:
        assert set(policies) == {os.SCHED_IDLE}
        assert groups[1] == ("19" if GROUPS.exists() else "0")
    kept_back.fetch(3, 0, complete=True)
    assert list(kept_back) == [] and list(kept_back.dues_ns()) == []
    policies, groups = weights(launched.pid)
    assert set(policies) == {os.SCHED_OTHER}
    assert set(groups) == {"0"}


def test_a_job_whose_processes_are_still_to_come_is_fetched_again(launched):
    """The decision has come before the ranks: those that start later take the low weight once more."""
    kept_back = Background()
    kept_back.put(3, launched.pid)
    kept_back.fetch(3, 0, complete=False)
    begin(launched)
    assert list(kept_back.dues_ns()) == [AGAIN_NS]
    kept_back.fetch(3, AGAIN_NS - 1, complete=True)
    assert list(kept_back) == [3]
    kept_back.fetch(3, AGAIN_NS, complete=True)
    assert list(kept_back) == []
    assert set(weights(launched.pid)[1]) == {"0"}


def test_a_weight_that_the_kernel_does_not_change_yet_is_tried_again(launched, monkeypatch):
    """So it does where it lets a user leave SCHED_IDLE, but not change groups as often as that user wants."""
    kept_back = Background()
    kept_back.put(3, launched.pid)
    begin(launched)
    refusals = [BlockingIOError()]
    write = Path.write_bytes

    def refused_once(path, data):
        if refusals:
            raise refusals.pop()
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", refused_once)
    kept_back.fetch(3, 0, complete=True)
    if not (GROUPS.exists() and background.words()):
        return
    assert list(kept_back) == [3] and list(kept_back.dues_ns()) == [AGAIN_NS]
    kept_back.fetch(3, AGAIN_NS, complete=True)
    assert list(kept_back) == []
    assert set(weights(launched.pid)[1]) == {"0"}
