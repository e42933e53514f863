"""Real processes, really held and really run again, by every mechanism."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from runs import eventually, spawned, state, usable

from coordinator.host import mechanisms, priority
from coordinator.host.environment import forwarded
from coordinator.host.mechanisms import Freezer, Realtime, Signals, choose, known
from coordinator.host.priority import prompt
from coordinator.host.processes import Process, end, ending, find, kept_limits
from workloads.validation import InputError


@contextmanager
def of_run(directory, *argv, **variables):
    """A process of the run, which ends with the test, and the control groups of the run with it."""
    with spawned(*argv, marks=directory.marks | variables) as child:
        yield Process(child.pid)
    for group in mechanisms.cgroups_of_runs():
        if group.name == f"lockstep-{directory.run}":
            mechanisms.remove_cgroups(group)


@pytest.fixture
def spinner(directory):
    with of_run(directory, sys.executable, "-S", "-c", "while True: pass") as process:
        yield process


def cpu_ns(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def progresses(process):
    before = cpu_ns(process.pid)
    time.sleep(0.03)
    return cpu_ns(process.pid) - before > 1_000_000


@pytest.fixture
def threads(directory, compiled, tmp_path):
    """A process with two threads that compute, and a function that reads how far each has come."""
    program = compiled("gcc", "hybrid.c", "-fopenmp", "-DALONE")
    file = tmp_path / "counts-0"
    words = [program, "1000000", "10", "100", str(tmp_path / "counts")]
    counts = lambda: list(memoryview(file.read_bytes()[:16]).cast("l"))  # noqa: E731
    with of_run(directory, *words, OMP_NUM_THREADS="2") as process:
        assert eventually(lambda: file.exists() and file.stat().st_size and all(counts()))
        yield process, counts


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [Signals, Freezer])
def test_all_threads_of_a_held_process_stop_and_go_on(mechanism, threads, directory):
    if mechanism.unavailable():
        pytest.skip(mechanism.unavailable())
    process, counts = threads
    holder = mechanism(directory)
    holder.adopt(process, 0, 0)
    holder.hold(process)
    time.sleep(0.02)
    held = counts()
    time.sleep(0.05)
    assert counts() == held
    holder.run(process)
    assert eventually(lambda: all(now > then for now, then in zip(counts(), held, strict=True)))


@pytest.mark.slow
def test_all_threads_change_their_class_and_their_processors(threads, directory):
    process, _ = threads
    tasks = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
    assert len(tasks) == 2
    core = min(os.sched_getaffinity(0))
    mechanisms.set_cores(process, core)
    assert [os.sched_getaffinity(task) for task in tasks] == [{core}] * 2
    if Realtime.unavailable():
        pytest.skip(Realtime.unavailable())
    holder = Realtime(directory)
    process.send(signal.SIGSTOP)
    for deed, expected in ((holder.run, os.SCHED_RR), (holder.hold, os.SCHED_OTHER)):
        deed(process)
        assert [os.sched_getscheduler(task) for task in tasks] == [expected] * 2


@pytest.mark.slow
def test_a_rank_that_starts_again_takes_the_frozen_group_of_its_predecessor(spinner, directory):
    """A job that vacated when its workstation's owner came was frozen then."""
    usable("freezer")
    freezer = Freezer(directory)
    (group,) = [one for one in mechanisms.cgroups_of_runs() if one.name == f"lockstep-{directory.run}"]
    assert mechanisms.in_use(group)
    assert not mechanisms.populated(group)
    with subprocess.Popen(["sleep", "60"]) as child:
        freezer.adopt(former := Process(child.pid), 0, 0)
        freezer.hold(former)
        child.kill()
    before = len(list(Path("/proc/self/fd").iterdir()))
    freezer.adopt(spinner, 0, 0)
    assert progresses(spinner)
    freezer.hold(spinner)
    assert eventually(lambda: not progresses(spinner))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    freezer.run(spinner)


@pytest.mark.slow
def test_a_freezer_closes_and_removes_the_groups_of_processes_that_it_drops(directory):
    """However many processes come and go, none of their groups and descriptors stays."""
    usable("freezer")
    freezer = Freezer(directory)
    (group,) = [one for one in mechanisms.cgroups_of_runs() if one.name == f"lockstep-{directory.run}"]
    before = len(list(Path("/proc/self/fd").iterdir()))
    for rank in range(3):
        with subprocess.Popen(["sleep", "60"]) as child:
            freezer.adopt(process := Process(child.pid), 0, rank)
            child.kill()
        freezer.drop(process)
        process.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert not list(group.glob("job-*"))


def test_all_mechanisms_bear_with_a_process_that_has_ended(spinner, directory):
    os.kill(spinner.pid, signal.SIGKILL)
    os.waitpid(spinner.pid, 0)
    for mechanism in known().values():
        if not mechanism.unavailable():
            holder = mechanism(directory)
            holder.adopt(spinner, 0, 0)
            holder.hold(spinner)
            holder.run(spinner)
            holder.free(spinner)
    assert not spinner.send(signal.SIGCONT)


def test_frozen_and_stopped_processes_are_found_and_ended(spinner, directory):
    spinner.send(signal.SIGSTOP)
    eventually(lambda: state(spinner.pid) == "T")
    assert [process.pid for process in find(directory.run)] == [spinner.pid]
    assert find(directory.run, job=0) == []
    assert end(ending(directory.run, spare={spinner.pid})) == (0, 0)
    assert end(ending(directory.run)) == (1, 0)
    assert state(spinner.pid) in ("Z", "")


@pytest.mark.slow
def test_who_ignores_sigterm_is_killed_after_the_grace(directory):
    ignoring = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", ignoring],
        env={**os.environ, **directory.marks},
        stdout=subprocess.PIPE,
    )
    child.stdout.readline()
    assert end(ending(directory.run, grace_s=0.2)) == (1, 0)
    assert child.wait(5) == -signal.SIGKILL
    child.stdout.close()


def test_auto_takes_signals_and_every_mechanism_says_what_harm_it_can_do():
    assert list(known()) == ["signals", "freezer", "realtime"]
    assert all("lockstep clean" in mechanism.harm for mechanism in known().values())
    name, reason = choose("auto")
    assert name == "signals" and "no privilege" in reason
    with pytest.raises(InputError, match="signals, freezer, realtime; did you mean 'freezer'"):
        choose("frezer")


def test_an_unavailable_mechanism_is_refused_with_its_reason(monkeypatch):
    monkeypatch.setattr(mechanisms, "cgroup_base", lambda: None)
    with pytest.raises(InputError, match="no cgroup v2"):
        choose("freezer")
    monkeypatch.setattr(mechanisms, "levels", lambda: None)
    with pytest.raises(InputError, match="CAP_SYS_NICE"):
        choose("realtime")
    with pytest.raises(InputError, match="CAP_SYS_NICE"):
        mechanisms.check_local("rr")


LIMITS = [(1, None), (2, (2, 2, 1)), (10, (10, 10, 9)), (50, (50, 50, 10)), (99, (51, 50, 10))]


@pytest.mark.parametrize("limit, granted", LIMITS)
def test_the_ranks_are_always_below_what_controls_them(limit, granted, monkeypatch):
    monkeypatch.setattr(priority, "granted", lambda wanted: wanted[1] <= limit)
    monkeypatch.setattr(priority.resource, "getrlimit", lambda which: (0, limit))
    monkeypatch.setattr(priority.resource, "setrlimit", lambda which, limits: None)
    assert priority.levels.__wrapped__() == granted


def test_the_limit_is_raised_for_each_run_and_the_users_again_after_it(monkeypatch):
    """Where users may have some priorities, their limit is lower until they raise it."""
    limits = {resource.RLIMIT_RTPRIO: (0, 10)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits.get(which, (64, 64)))
    monkeypatch.setattr(resource, "setrlimit", lambda which, pair: limits.update({which: pair}))
    monkeypatch.setattr(priority, "levels", lambda: priority.Levels(10, 10, 9))
    monkeypatch.setattr(os, "sched_setscheduler", lambda *ignored: None)
    for _ in range(2):
        with kept_limits(), prompt():
            assert limits[resource.RLIMIT_RTPRIO] == (10, 10)
        assert limits[resource.RLIMIT_RTPRIO] == (0, 10)


LIMITED = """
import os, resource, sys
from coordinator.host import mechanisms, priority
from coordinator.wire import zmq_transport as link
try:
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 10))
except ValueError:
    sys.exit(77)
os.setresuid(65534, 65534, 65534)
child = os.fork()
if not child:
    while True:
        pass
with priority.prompt():
    link.Hub("tcp://127.0.0.1:0", link.Keys.make(), {}).close(0)  # its thread has a priority of its own
    mechanisms.set_class(mechanisms.Process(child), "rr")
    print(os.sched_getparam(0).sched_priority, os.sched_getparam(child).sched_priority)
os.kill(child, 9)
"""


@pytest.mark.slow
def test_a_user_with_a_limit_has_realtime_ranks_below_it():
    words = [sys.executable, "-c", LIMITED]
    result = subprocess.run(words, env=forwarded({}), capture_output=True, text=True, check=False)
    if result.returncode == 77:
        pytest.skip("this user cannot give itself a limit")
    assert (result.stdout, result.stderr) == ("10 9\n", "")


def test_priority_is_restored_and_not_inherited():
    # The flag may stay: without privilege it can be set but not taken back.
    before = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    with prompt() as how:
        assert how
        child = subprocess.run(
            [sys.executable, "-S", "-c", "import os; print(os.sched_getscheduler(0))"],
            capture_output=True,
            check=True,
        )
        assert int(child.stdout) == before
    assert os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == before
