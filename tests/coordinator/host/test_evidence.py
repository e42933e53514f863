"""Processes whose mark cannot be read are found by other evidence, and nobody else is."""

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import unprivileged_actions
from runs import HIDE, NOBODY, as_nobody, command, eventually, running, state

from coordinator.host import cleanup, identity
from coordinator.host.identity import Stat
from coordinator.host.mechanisms import Signals
from coordinator.host.processes import RUN, Evidence, Process, descendants, environment_of, find

WAIT = "import signal; print(flush=True); signal.pause()"

FORK = """
import os, signal, threading
def fork():
    child = os.fork()
    if not child:
        signal.pause()
    print(child, flush=True)
"""


Start = Callable[..., "subprocess.Popen[bytes]"]
Family = Callable[[str], tuple["subprocess.Popen[bytes]", int]]


@pytest.fixture
def start(directory):
    """Starts a program in a session of its own, marked, and returns once it has said something."""
    with ExitStack() as stack:

        def started(program, **variables):
            process = subprocess.Popen(
                [sys.executable, "-S", "-c", program],
                env={**os.environ, **directory.marks, **variables},
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            process.said = process.stdout.readline()
            return process

        yield started


@pytest.fixture
def child_of(start):
    """Starts a program that says the pid of a child; the child ends with the test."""
    children = []

    def started(program):
        parent = start(program)
        children.append(Process(int(parent.said)))
        return parent, children[-1].pid

    yield started
    for child in children:
        child.send(signal.SIGKILL)
        child.close()


def stopped(process):
    process.send_signal(signal.SIGSTOP)
    assert eventually(lambda: state(process.pid) == "T")


def test_who_hides_its_mark_is_released_by_the_journal(directory, start):
    process = start(HIDE + WAIT)
    assert RUN not in environment_of(process.pid)
    stopped(process)
    assert find(directory.run) == []
    directory.note_process(process.pid, 0)
    directory.unlock()
    assert f"run {directory.run}: ended 1 process" in cleanup.clean()
    assert process.wait(5) == -signal.SIGTERM
    assert not directory.path.exists()


@pytest.mark.slow
def test_who_may_only_be_executed_is_released_by_the_journal():
    with tempfile.TemporaryDirectory(prefix="ls-") as runtime:
        if os.getuid() == 0:
            os.chown(runtime, NOBODY, NOBODY)
        assert as_nobody(unprivileged_actions.execute_only, runtime)
        assert list(Path(runtime).iterdir()) == []


def test_the_session_of_one_that_has_ended_is_released(directory, child_of):
    leader, child = child_of(FORK + HIDE + "fork(); signal.pause()")
    directory.note_process(leader.pid, 0)
    os.kill(child, signal.SIGSTOP)
    leader.kill()
    leader.wait()
    assert eventually(lambda: state(child) == "T")
    assert "ended 1 process" in cleanup.release(directory)[0]
    assert eventually(lambda: state(child) in ("Z", ""))


def test_what_is_below_a_process_of_the_run_is_released(directory, child_of):
    _, child = child_of(
        FORK + HIDE + "os.setsid = None; threading.Thread(target=fork).start(); signal.pause()"
    )
    assert RUN not in environment_of(child)
    parent = identity.stat(child)
    directory.note_process(parent.parent, 0)
    assert {process.pid for process in find(directory.run, evidence=Evidence.of(directory.notes()))} == {
        child,
        parent.parent,
    }
    cleanup.release(directory)
    assert eventually(lambda: state(child) in ("Z", ""))


def test_a_child_of_any_thread_is_held_and_run(child_of, directory):
    parent, child = child_of(
        FORK
        + "thread = threading.Thread(target=lambda: (fork(), signal.pause())); thread.start(); thread.join()"
    )
    assert [process.pid for process in descendants(parent.pid)] == [child]
    process = Process(parent.pid)
    process.family = True
    signals = Signals(directory)
    signals.hold(process)
    assert eventually(lambda: state(child) == "T")
    signals.run(process)
    assert eventually(lambda: state(child) == "S")
    process.close()


def test_a_pid_that_another_process_has_by_now_is_left_alone(directory, start):
    process = start(HIDE + WAIT)
    place, pid, begun = identity.name(process.pid).rsplit("/", 2)
    directory.note(process=f"{place}/{pid}/{int(begun) - 1}")
    directory.note(process=f"elsewhere/{pid}/{begun}")
    assert not any("ended" in line for line in cleanup.release(directory))
    assert process.poll() is None


def test_a_name_means_a_process_and_none_that_has_its_pid_later():
    own = identity.name(os.getpid())
    place, pid, start = own.rsplit("/", 2)
    later = [f"{place}/{pid}/{int(start) + 1}", f"{place}x/{pid}/{start}", "", f"{place}/{1 << 22}/{start}"]
    handles = [Process.named(name) for name in (own, *later)]
    gone = [bool(select.select([one.fileno()], [], [], 0)[0]) for one in handles]
    assert gone == [False, *[True] * len(later)]
    assert handles[0].pid == os.getpid()
    for one in handles:
        one.close()


def test_a_run_below_another_one_is_left_alone(directory):
    """It has a guardian of its own, which must live on to release it."""
    table = {
        10: Stat("S", 1, 10, 100),
        11: Stat("S", 10, 10, 101),
        12: Stat("S", 11, 12, 102),
        13: Stat("S", 10, 10, 103),
    }
    assert Evidence().belonging(table, {10}, {11}, None) == {10, 13}
    assert Evidence().belonging(table, {10}, set(), None) == {10, 11, 12, 13}


def test_evidence_of_a_job_is_of_that_job_alone():
    notes = [
        {"process": f"{identity.name(os.getpid()).rpartition('/')[0]}/{job}", "job": job} for job in (1, 2)
    ]
    table = {os.getpid(): Stat("S", 1, 1, 2)}
    assert Evidence.of(notes).belonging(table, (), (), 2) == {os.getpid()}
    assert Evidence.of(notes).belonging(table, (), (), 1) == set()


@pytest.mark.slow
@pytest.mark.parametrize("killed", [["agent"], ["guardian", "agent", "driver"]])
def test_a_rank_that_hides_its_mark_does_not_stay_stopped(killed, monkeypatch):
    """Its child neither, which the journal names from the next sign of life on."""
    program = HIDE + "import signal; os.fork(); signal.pause()"
    with running(policy="gang", jobs=2, command=[sys.executable, "-c", program]) as run:
        run.note()

        def hidden():
            return [pid for pid in identity.pids() if command(pid)[1:] == ["-c", program]]

        try:
            assert eventually(lambda: len(hidden()) == 8)
            assert eventually(lambda: [state(pid) for pid in hidden()].count("T") == 4)
            monkeypatch.setenv("XDG_RUNTIME_DIR", run.runtime)
            parts = [eventually(lambda part=part: run.part(part)) for part in killed]
            for signum in (signal.SIGSTOP, signal.SIGKILL):
                for pid in parts:
                    os.kill(pid, signum)
            run.driver.communicate()
            if len(killed) > 1:
                assert hidden() and cleanup.clean()
            assert eventually(lambda: not hidden())
            assert eventually(lambda: not run.remains()), run.remains()
        finally:
            for pid in hidden():
                os.kill(pid, signal.SIGKILL)


def test_a_process_that_is_just_becoming_another_program_is_found(directory):
    """For a moment the kernel shows no environment; in the next one nobody may look any more."""
    for _ in range(50):
        with subprocess.Popen(["sleep", "60"], env={**os.environ, **directory.marks}) as process:
            try:
                assert environment_of(process.pid).get(RUN) == directory.run
            finally:
                process.kill()
