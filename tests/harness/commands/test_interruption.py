"""The command is interrupted or killed: what it says, what is stored, and how it goes on."""

import dataclasses
import itertools
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
from fake_runs import TOOLS, imitate
from places import ROOT, SUPPORT
from runs import catches, eventually, needs_two, spawned

from harness import application, cli
from harness.simulator import cache
from harness.store import database

PATHS = {"PYTHONPATH": f"{ROOT}{os.pathsep}{SUPPORT}"}


def start(pause_s, *arguments, cwd):
    command = [sys.executable, str(SUPPORT / "fake_runs.py"), str(pause_s), *arguments]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=os.environ | PATHS,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_hear_signals,  # noqa: PLW1509 - nothing but a signal call happens in the child
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "signum, delay_s",
    [
        (signal.SIGINT, 0),
        (signal.SIGINT, 0.03),
        (signal.SIGTERM, 0.1),
        (signal.SIGHUP, 0.3),
        (signal.SIGQUIT, 0.3),
    ],
)
def test_an_interrupt_during_the_imports_is_one_line(tmp_path, signum, delay_s):
    command = [sys.executable, "-m", "harness", "run", "three-jobs"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": _hear_signals}
    with subprocess.Popen(command, cwd=tmp_path, env=os.environ | PATHS, **pipes) as process:
        assert eventually(lambda: catches(process.pid, signal.SIGTERM))
        time.sleep(delay_s)
        process.send_signal(signum)
        out, err = process.communicate(timeout=30)
    # If it met a dataclass in the making, Python ends by SIGINT itself; a shell shows 130 for that as well.
    assert process.returncode in (130, -signal.SIGINT) and out == b""
    assert err.endswith(b"\n") and b"interrupted" in err.splitlines()[-1] and b"Traceback" not in err


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_an_interrupt_that_a_finalizer_swallows_comes_again(monkeypatch, capsys, signum):
    class Unlucky:
        def __del__(self):
            signal.raise_signal(signum)

    def execute(options, watcher):
        del options, watcher
        Unlucky()
        time.sleep(20)

    monkeypatch.setattr("harness.commands.policies.execute", execute)
    assert cli.main(["policies"]) == 130
    assert capsys.readouterr() == ("", "lockstep: interrupted\n")


def _hear_signals():
    """Undo what a shell does to jobs in the background, so that the child can be interrupted."""
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_DFL)


@needs_two
@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_says_what_is_stored_and_resume_goes_on(lockstep, tmp_path, signum):
    with start(0.3, "run", "three-jobs", "--set", "repeats=1", cwd=tmp_path) as process:
        assert any(b"0/9" in line for line in process.stderr)
        process.send_signal(signum)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == b""
    assert b"interrupted: everything is released; 0 of 9 runs are recorded" in err
    assert b"Traceback" not in err
    assert lockstep("run", "three-jobs", "--set", "repeats=1", "--resume")[0] == 0


@needs_two
@pytest.mark.slow
def test_a_killed_run_is_resumed_where_it_was(lockstep, tmp_path):
    with start(0.15, "run", "three-jobs", "--set", "repeats=1", cwd=tmp_path) as process:
        assert any(b"0/9" in line for line in process.stderr)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.7)
        process.kill()
    kept = len(database.load(tmp_path / "lockstep-results").runs)
    assert 0 < kept < 9
    status, _, err = lockstep("run", "three-jobs", "--set", "repeats=1", "--resume")
    assert status == 0
    assert f"{9 - kept} runs recorded" in err and f"{kept} found there" in err


def test_an_interrupted_run_prints_the_table_so_far(lockstep, monkeypatch):
    def until_the_fifth(workload, progress=None, history=None):
        if next(numbers) == 5:
            raise KeyboardInterrupt
        return imitate(workload)

    numbers = itertools.count(1)
    tools = dataclasses.replace(TOOLS, run_workload=until_the_fifth)
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: tools)
    schedulers = "schedulers=[{policy='none'},{policy='implicit'},{policy='batch'},{policy='partitioned'}]"
    status, out, err = lockstep("run", "three-jobs", "--set", "repeats=1", "--set", schedulers)
    assert status == 130 and re.search(r"none +spin +(2.80|-)", out) and re.search(r" [12]\.[0-9]{2} ", out)
    assert "interrupted: everything is released; " in err.splitlines()[-1]


@pytest.mark.slow
def test_a_simulation_ends_when_it_is_told_to(tmp_path):
    settings = "repeats=1", "schedulers=[{policy='gang',quantum_ms=0.01}]", "program.granularity_us=1000"
    command = [sys.executable, "-m", "harness", "simulate", "three-jobs"]
    command += [*(word for setting in settings for word in ("--set", setting)), "--set"]
    how = {"cwd": tmp_path, "stderr": subprocess.PIPE}
    if not cache.holds("kernel.advance"):  # compiling takes longer than this test waits
        subprocess.run([*command, "program.dedicated_s=0.01"], env=os.environ | PATHS, check=False, **how)
    with spawned(*command, "program.dedicated_s=1e6", marks=PATHS, **how) as simulation:
        simulating = psutil.Process(simulation.pid)
        assert eventually(lambda: simulating.num_threads() > 1 and simulating.cpu_times().user > 2)
        simulation.terminate()
        begin_s = time.monotonic()
        _, err = simulation.communicate(timeout=60)
    assert simulation.returncode == 130 and time.monotonic() - begin_s < 5
    assert err.splitlines()[-1].startswith(b"lockstep: interrupted")
