"""One series of runs at a time on a processor: who waits, for whom, until when; and what a kill leaves."""

import contextlib
import dataclasses
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from fake_runs import TOOLS, Quiet
from places import ROOT
from runs import eventually, needs_two

from coordinator.host import processor_claims
from coordinator.host.processor_claims import ProcessorClaim, Reservation, rivals
from harness import application, cli
from harness.measure import host_check, session
from harness.spec.experiment import usable_processors

FIRST = 1000 + 100 * secrets.randbelow(500)
HERE, THERE = (FIRST, FIRST + 1), (FIRST + 1, FIRST + 2)
"""Processors that share one; no host has them, so that nobody else is on them."""

ME = processor_claims.user_name(os.getuid())
US = f"Lockstep of user {ME} (process {os.getpid()})"

HOLDER = f"""
import subprocess, sys
from coordinator.host.processor_claims import Reservation
ours = Reservation({list(HERE)})
assert not ours.take()
subprocess.Popen(["sleep", "600"], close_fds=False, stdout=subprocess.DEVNULL)
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_gate(monkeypatch):
    """Nobody else waits for these tests."""
    monkeypatch.setattr(processor_claims, "GATE", f"\0lockstep-gate-{FIRST}")


@pytest.fixture
def theirs():
    other = Reservation(HERE)
    assert other.take() == []
    yield other
    other.close()


class Impatient(Quiet):
    """A watcher who does something as soon as it hears of whom to wait for."""

    def __init__(self, act):
        super().__init__()
        self._act = act

    def warn(self, text):
        super().warn(text)
        self._act()


def test_a_reservation_excludes_others_of_its_processors_until_it_is_closed(theirs):
    ours = Reservation(THERE)
    elsewhere = Reservation([FIRST + 2])
    (rival,) = ours.take()
    assert (rival.name, rival.processors) == (US, str(FIRST + 1))
    assert elsewhere.take() == []
    assert rivals(THERE) and not rivals([FIRST + 3])
    elsewhere.close()
    theirs.close()
    assert ours.take() == []
    ours.close()
    assert rivals(THERE) == []


def test_runs_of_any_user_count_also_those_without_a_series():
    run = ProcessorClaim("abcd1234", HERE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.bind(f"\0lockstep-series/4294967294/77.ab12cd/{FIRST + 2}")
        assert [rival.name for rival in rivals(HERE)] == [f"run abcd1234 of user {ME}"]
        assert [rival.name for rival in rivals(THERE)] == ["Lockstep of user 4294967294 (process 77)"]
    run.close()


def test_whoever_waits_begins_when_the_other_has_ended_and_says_once_for_whom_it_waits(theirs):
    watcher = Impatient(theirs.close)
    with session.reserved(THERE, watcher, environment={}):
        assert [rival.processors for rival in rivals(HERE)] == [str(FIRST + 1)]
    (warning,) = watcher.warnings
    assert warning == f"waiting: {US} measures on processors {FIRST + 1} (--no-wait does not wait)"
    assert rivals(THERE) == []


@contextlib.contextmanager
def a_rival():
    """Another process that has reserved processors; it and what it has started end with the context."""
    options = {"cwd": ROOT, "start_new_session": True, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDER], **options) as holder:
        holder.stdout.readline()
        try:
            yield holder
        finally:
            os.killpg(holder.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_kill_ends_a_reservation_whatever_the_killed_process_has_started():
    with a_rival() as holder:
        holder.send_signal(signal.SIGSTOP)
        stopped = f"(process {holder.pid}, which is stopped)"
        assert eventually(lambda: [one for one in rivals(HERE) if one.name.endswith(stopped)])
        holder.send_signal(signal.SIGCONT)
        watcher = Impatient(holder.kill)
        with session.reserved(THERE, watcher, environment={}):
            assert f"(process {holder.pid}" in watcher.warnings[0]


def test_of_many_at_once_only_one_at_a_time_has_a_processor():
    """Each needs two of three processors in a ring, so that any two of them share one."""
    inside = set()
    most = []
    turns = []

    def measure(number):
        for _ in range(5):
            with session.reserved([FIRST + number % 3, FIRST + (number + 1) % 3], Quiet(), environment={}):
                inside.add(number)
                most.append(len(inside))
                time.sleep(0)
                inside.remove(number)
                turns.append(number)

    threads = [threading.Thread(target=measure, args=(number,)) for number in range(6)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "LOOK_S", 0.001)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(turns) == sorted([*range(6)] * 5) and max(most) == 1


def test_a_process_that_is_stopped_in_the_gate_holds_nobody_up_for_long(monkeypatch):
    monkeypatch.setattr(processor_claims, "GATE_S", 0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stopped:
        stopped.bind(processor_claims.GATE)
        ours = Reservation(HERE)
        assert ours.take() == [] and rivals(HERE)
        ours.close()


@pytest.mark.parametrize("no_wait, environment", [(True, {}), (False, {"SLURM_JOB_ID": "7"})])
def test_who_does_not_wait_says_who_disturbs_and_is_waited_for(theirs, no_wait, environment):
    watcher = Quiet()
    with session.reserved(THERE, watcher, no_wait, environment):
        assert [rival.processors for rival in rivals([FIRST + 2])] == [str(FIRST + 2)]
    (warning,) = watcher.warnings
    assert "so the runs disturb each other" in warning and f"process {os.getpid()}" in warning
    assert ("a job of Slurm does not wait" in warning) is not no_wait


@pytest.fixture
def lockstep(lockstep, monkeypatch):
    """The command on made-up runs, which reserves HERE."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    tools = dataclasses.replace(TOOLS, reserve=lambda where, *more: session.reserved(HERE, *more))
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: tools)
    return lockstep


SMALL = ("run", "three-jobs", "--no-simulate", "--set", "repeats=1")


@pytest.mark.parametrize("command", [SMALL, ("calibrate",), ("doctor", "--self-test", "--pairs", "3")])
def test_a_command_that_measures_waits_for_its_turn(lockstep, monkeypatch, theirs, command):
    monkeypatch.setattr(host_check, "aa_records", lambda *given: [])
    monkeypatch.setattr("harness.measure.host_check.check", lambda processors: [])
    monkeypatch.setattr(
        session, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda s: theirs.close())
    )
    status, _, err = lockstep(*command)
    assert status == 0 and err.count("waiting: ") == 1 and "disturb each other" not in err


def test_no_wait_measures_beside_the_other(lockstep, theirs):
    status, _, err = lockstep(*SMALL, "--no-wait")
    assert status == 0 and "disturb each other" in err and "waiting" not in err
    assert theirs.take() == []


def test_what_the_other_recorded_meanwhile_is_not_measured_again(lockstep, monkeypatch):
    @contextlib.contextmanager
    def after_another(*given):
        monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: TOOLS)
        assert cli.main(SMALL) == 0
        yield

    tools = dataclasses.replace(TOOLS, reserve=after_another)
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: tools)
    status, _, err = lockstep(*SMALL, "--resume")
    assert status == 0 and "0 runs recorded" in err and "9 found there" in err


def test_nobody_waits_when_nothing_is_to_be_measured(lockstep):
    assert lockstep(*SMALL)[0] == 0
    other = Reservation(HERE)
    assert other.take() == []
    status, _, err = lockstep(*SMALL, "--resume")
    other.close()
    assert status == 0 and "waiting" not in err


@needs_two
@pytest.mark.slow
def test_a_real_run_waits_and_ends_on_a_signal(tmp_path):
    known = {key: value for key, value in os.environ.items() if key != "SLURM_JOB_ID"}
    options = {"cwd": tmp_path, "env": known | {"PYTHONPATH": str(ROOT)}, "text": True}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    other = Reservation(usable_processors()[:2])
    other.take(no_wait=True)
    try:
        with subprocess.Popen([sys.executable, "-m", "harness", *SMALL], **options) as run:
            assert any(f"(process {os.getpid()})" in line for line in run.stderr)
            run.terminate()
            out, err = run.communicate(timeout=30)
    finally:
        other.close()
    assert run.returncode == 130 and out == "" and err == "lockstep: interrupted\n"
