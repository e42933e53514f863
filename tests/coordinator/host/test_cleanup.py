"""`lockstep clean`: finds what is left when every part was killed at once, and only that."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
import unprivileged_actions
from runs import NOBODY, as_nobody, eventually, running, state, usable

from coordinator.host import cleanup, directories, mechanisms
from coordinator.host.directories import locked_home
from coordinator.host.mechanisms import Freezer
from coordinator.host.processes import Process
from coordinator.host.rundir import RunDirectory
from workloads.validation import InputError


def sleeper(directory):
    return subprocess.Popen(["sleep", "60"], env={**os.environ, **directory.marks})


def test_nothing_to_do_is_nothing_to_tell(runtime):
    assert [line for line in cleanup.clean() if str(runtime) in line] == []
    assert list(runtime.iterdir()) == []


def test_a_run_whose_driver_is_alive_is_left_alone_unless_everything_is_to_go(directory):
    process = sleeper(directory)
    actions = cleanup.clean()
    assert not any(directory.run in line for line in actions)
    assert process.poll() is None
    # Everything of this run: other runs on this machine may be somebody's.
    actions = cleanup.release(directory)
    assert process.wait(5) == -signal.SIGTERM
    assert not directory.path.exists()
    assert f"run {directory.run}: ended 1 process" in actions


def test_the_control_group_of_a_run_that_has_no_process_in_it_yet_stays(runtime, monkeypatch, directory):
    mine, left = runtime / f"lockstep-{directory.run}", runtime / "lockstep-0123abcd"
    removed = []

    def remove(group, patience_s):
        removed.append(group)
        return True

    monkeypatch.setattr(mechanisms, "cgroups_of_runs", lambda: [mine, left])
    monkeypatch.setattr(mechanisms, "remove_cgroups", remove)
    assert cleanup.clean()[-1] == f"removed empty cgroup {left}"
    assert removed == [left]
    cleanup.release(directory)


def test_a_control_group_that_no_journal_names_is_thawed_as_well(runtime, monkeypatch, directory):
    """The run may have been killed before it noted the group; frozen processes do not end."""
    group, did = runtime / f"lockstep-{directory.run}", []
    monkeypatch.setattr(mechanisms, "cgroups_of_runs", lambda: [group])
    monkeypatch.setattr(mechanisms, "thaw", lambda group: did.append(("thaw", group)))
    monkeypatch.setattr(mechanisms, "remove_cgroups", lambda group: did.append(("remove", group)))
    cleanup.release(directory)
    assert did == [("thaw", group), ("remove", group)]


def test_the_control_group_of_a_run_under_another_directory_stays(directory, tmp_path, monkeypatch):
    usable("freezer")
    Freezer(directory)
    (group,) = [one for one in mechanisms.cgroups_of_runs() if one.name == f"lockstep-{directory.run}"]
    monkeypatch.setattr(mechanisms, "cgroups_of_runs", lambda: [group])
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        assert not cleanup.clean()
        assert group.is_dir()
        os.close(descriptor_of(group))
        assert cleanup.clean() == [f"removed empty cgroup {group}"]
    cleanup.release(directory)


def descriptor_of(place):
    return next(int(fd.name) for fd in Path("/proc/self/fd").iterdir() if fd.resolve() == place)


def test_a_stopped_process_without_a_driver_is_ended_and_told(runtime, directory):
    process = sleeper(directory)
    process.send_signal(signal.SIGSTOP)
    eventually(lambda: state(process.pid) == "T")
    directory.unlock()
    actions = cleanup.clean()
    assert process.wait(5) == -signal.SIGTERM
    assert f"run {directory.run}: ended 1 process" in actions
    assert f"run {directory.run}: removed directory {directory.path}" in actions
    assert list(runtime.iterdir()) == []


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A directory in the place of that for temporary files, on a host that is called here.example."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(socket, "gethostname", lambda: "here.example")
    return tmp_path


def test_what_a_killed_launcher_of_open_mpi_has_left_is_removed(directory, temporary):
    process, foreign = sleeper(directory), subprocess.Popen(["sleep", "60"])
    sessions, elsewhere = (temporary / f"ompi.{host}.{os.getuid()}" for host in ("here", "there"))
    for pid in (process.pid, foreign.pid, "x"):
        for folder in (sessions, elsewhere):
            (folder / f"pid.{pid}" / "0").mkdir(parents=True)
    link = temporary / f"ompi.here.example.{os.getuid()}" / f"pid.{process.pid}"
    link.parent.mkdir()
    link.symlink_to(sessions / f"pid.{foreign.pid}")
    directory.note_process(process.pid)
    process.kill()
    process.wait()
    foreign.kill()
    foreign.wait()
    actions = cleanup.release(directory)
    assert f"run {directory.run}: removed {sessions / f'pid.{process.pid}'}" in actions
    assert {one.name for one in sessions.iterdir()} == {f"pid.{foreign.pid}", "pid.x"}
    assert len([*elsewhere.iterdir()]) == 3  # of a host that has the same directory
    assert link.is_symlink() and (link / "0").exists()


def test_a_launcher_of_open_mpi_keeps_its_directory_as_long_as_it_lives(directory, temporary):
    process = sleeper(directory)
    session = temporary / f"ompi.here.{os.getuid()}" / f"pid.{process.pid}"
    session.mkdir(parents=True)
    assert cleanup.remove_sessions([process.pid]) == [] and session.exists()
    assert f"run {directory.run}: removed {session}" in cleanup.release(directory)
    assert process.wait() == -signal.SIGTERM and not session.parent.exists()


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """A directory in the place of that for shared memory, where other runs remove nothing."""
    monkeypatch.setattr(cleanup, "SHARED_MEMORY", tmp_path)
    return tmp_path


def test_without_a_journal_segments_are_known_by_the_age_of_the_processes(directory, memory):
    segments = [memory / f"mpich_shm_{age}" for age in ("old", "new")]
    segments[0].touch()
    time.sleep(0.05)  # the kernel tells the start of a process in hundredths of a second
    process = sleeper(directory)
    segments[1].touch()
    directory.unlock()
    assert directory.remove()
    assert f"run {directory.run}: ended 1 process" in cleanup.release(RunDirectory(directory.path))
    assert process.wait(5) == -signal.SIGTERM
    assert [segment.exists() for segment in segments] == [True, False]


def test_the_directories_of_jobs_for_shared_memory_go_with_the_run(directory):
    (directory.memory / "0").mkdir(parents=True)
    (directory.memory / "0" / "sm_segment.x").touch()
    directory.unlock()
    assert f"run {directory.run}: removed {directory.memory}" in cleanup.clean()
    assert not directory.memory.exists() and not directory.path.exists()


def test_segments_in_use_and_those_of_others_stay(memory):
    ours, other = memory / "mpich_shm_0", memory / "other"
    ours.touch()
    other.touch()
    since_s = ours.stat().st_ctime
    with ours.open():
        assert ours not in cleanup.remove_files(since_s)
    assert ours not in cleanup.remove_files(since_s + 10)
    assert ours in cleanup.remove_files(since_s)
    assert other.exists()


NOT_UTF8 = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(15, b"caf\\xc3")  # PR_SET_NAME
child = subprocess.Popen(["sleep", "60"], env=dict(word.split("=", 1) for word in sys.argv[1:]))
print(child.pid, flush=True)
sys.exit(child.wait() != -15)
"""


@pytest.mark.slow
def test_what_proxies_have_made_is_removed_and_that_for_others_stays(runtime, tmp_path, monkeypatch):
    """Each has its file open as long as it lives."""
    monkeypatch.setattr(cleanup, "TEMPORARY", tmp_path)
    files = [tmp_path / f"hydra_hwloc_xmlfile_{name}" for name in ("before", "killed", "ours", "other")]
    files[0].touch()
    directory = RunDirectory.create()
    before_s = files[0].stat().st_ctime + 1e-6
    eventually(lambda: files[1].touch() or files[1].stat().st_ctime > before_s)
    directory.note(made_s=before_s)
    proxies = []
    for file in files[2:]:
        with file.open("w") as stream:
            proxies.append(subprocess.Popen(["sleep", "60"], stdin=stream))
    directory.note_launcher(proxies[0].pid)
    try:
        did = cleanup.release(directory)
    finally:
        for proxy in proxies:
            proxy.kill()
            proxy.wait()
    assert [f"run {directory.run}: removed {file}" in did for file in files] == [False, True, True, False]
    assert [file.exists() for file in files] == [True, False, False, True]


def test_a_child_of_a_process_whose_name_is_not_utf8_is_ended(directory):
    """A name that is cut off at 15 bytes may end in the middle of a character."""
    marks = [f"{name}={value}" for name, value in directory.marks.items()]
    with subprocess.Popen([sys.executable, "-S", "-c", NOT_UTF8, *marks], stdout=subprocess.PIPE) as parent:
        child = Process(int(parent.stdout.readline()))
        child.send(signal.SIGSTOP)
        try:
            assert cleanup.release(directory)
            assert parent.wait(5) == 0
        finally:
            child.send(signal.SIGKILL)
            child.close()
    assert not directory.path.exists()


JOURNAL = [
    b'5\nnull\n[]\n"made_s"\n{\n',
    b'{"made_s": "x", "cgroup": 5, "process": 7, "job": []}\n{"made_s": NaN}\n{"made_s": 1e999}\n',
    b'{"made_s": '
    + b"9" * 5000
    + b'}\n{"made_s": [1]}\n{"process": ["x"]}\n{"process": "x/1/'
    + b"9" * 30
    + b'"}\n',
    b'{"cgroup": "/"}\n{"cgroup": "/etc\\u0000"}\n{"cgroup": "/\\udcff"}\n{"process": "\\ud800/1/1"}\n',
    b"[" * 1_000_000,
    b'{"a":' * 100_000,
    b"\xff\xfe\x00\n" * 100,
]
"""Lines that are none of a journal, or only nearly."""


def test_a_journal_may_say_anything(directory):
    directory.unlock()
    with (directory.path / "journal").open("ab") as journal:
        journal.writelines(lines + b"\n" for lines in JOURNAL)
        for place in (r"/\ud800", r"/\udcff", r"/\u0000", "/etc"):
            journal.write(f'{{"cgroup": "{place}/lockstep-{directory.run}"}}\n'.encode())
    process = sleeper(directory)
    assert cleanup.clean() == [
        f"run {directory.run}: ended 1 process",
        f"run {directory.run}: removed directory {directory}",
    ]
    assert process.wait(5) == -signal.SIGTERM


@pytest.mark.parametrize(
    "spoil",
    [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: sparse(path, 1 << 40)],
    ids=["pipe", "directory", "link", "endless"],
)
def test_a_journal_may_be_anything(spoil, directory):
    directory.unlock()
    journal = directory.path / "journal"
    journal.unlink()
    spoil(journal)
    process = sleeper(directory)
    actions = cleanup.release(directory)
    assert actions[0] == f"run {directory.run}: ended 1 process" and "removed directory" in actions[-1]
    assert process.wait(5) == -signal.SIGTERM


def sparse(path, length):
    path.touch()
    os.truncate(path, length)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_what_cannot_be_removed_is_told(directory):
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory.temporary], check=True)
    try:
        (line,) = cleanup.release(directory)
        assert "OSError" in line and "cannot delete" in line and "removed" not in line
        assert directory.path.exists()
    finally:
        subprocess.run(["umount", directory.temporary], check=True)
    assert cleanup.release(directory) == [f"run {directory.run}: removed directory {directory}"]
    assert cleanup.release(directory) == []


def test_a_folder_that_may_not_be_listed_is_no_obstacle(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o311)
    assert as_nobody(unprivileged_actions.remove_old_files, closed)


@pytest.fixture
def anybodys(monkeypatch):
    """A runtime directory that every user can reach."""
    with tempfile.TemporaryDirectory(prefix="ls-reached-") as name:
        Path(name).chmod(0o711)
        place = Path(name) / "runtime"
        place.mkdir(mode=0o700)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
        yield place


def test_what_a_program_has_closed_to_itself_is_removed(anybodys):
    if os.getuid() == 0:
        os.chown(anybodys, NOBODY, NOBODY)
    assert as_nobody(unprivileged_actions.remove_what_is_closed)
    assert list(anybodys.iterdir()) == [] and anybodys.stat().st_mode & 0o777 == 0o700


def test_the_directory_of_all_runs_stays_while_somebody_makes_a_run_in_it(directory):
    with locked_home() as parent:
        assert directory.remove() and parent.exists()
    assert not directory.remove() and not parent.exists()


def test_a_process_that_keeps_the_directory_of_all_runs_locked_is_named(runtime, monkeypatch):
    """It may be stopped, and then nobody could wait for it."""
    monkeypatch.setattr(directories, "LOCK_S", 0.05)
    with (
        locked_home(),
        pytest.raises(InputError, match=rf"process {os.getpid()} has locked .* may be stopped"),
    ):
        RunDirectory.create()


MAPPING = """
import mmap, os, sys
maps = [mmap.mmap(os.open(name, os.O_RDWR), 1) for name in sys.argv[1:]]
print(flush=True)
input()
"""


def test_files_whose_names_are_not_utf8_are_no_obstacle(memory):
    odd = Path(os.fsdecode(os.fsencode(memory) + b"/caf\xc3"))
    segments = [memory / "mpich_shm_1", memory / "mpich_shm_caf\udcc3"]
    for file in (odd, *segments):
        file.write_bytes(b"x")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-S", "-c", MAPPING, odd, segments[1]], **pipes) as process:
        process.stdout.readline()
        removed = cleanup.remove_files(segments[0].stat().st_ctime)
        process.kill()
    assert segments[0] in removed and segments[1] not in removed


def test_mount_points_and_cgroups_whose_names_are_not_utf8_are_found(tmp_path):
    base = os.fsencode(tmp_path) + b"/a caf\xc3 \xc3\xa9/sub"
    os.makedirs(base)  # noqa: PTH103 - a path of bytes
    point = base.removesuffix(b"/sub").replace(b" ", rb"\040")
    mounts = b"29 28 0:26 / " + point + b" rw - cgroup2 cgroup2 rw\n30 28 0:27 / /caf\xc3 rw - tmpfs x rw\n"
    assert mechanisms.base_among(mounts, b"1:cpu:/\xc3\n0::/sub\n") == Path(os.fsdecode(base))


def fail(*arguments, **options):
    raise RuntimeError("a step that fails")


@pytest.mark.parametrize("step", ["cgroups_of_runs", "thaw", "remove_cgroups", "remove_files"])
def test_when_a_step_fails_all_others_are_done(step, runtime, monkeypatch, directory):
    directory.note(cgroup=str(runtime / f"lockstep-{directory.run}"))
    process = sleeper(directory)
    process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(cleanup if hasattr(cleanup, step) else mechanisms, step, fail)
    try:
        actions = cleanup.release(directory)
        assert process.wait(5) == -signal.SIGTERM
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    assert not directory.path.exists()
    assert any("a step that fails" in line for line in actions)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["signals", "freezer"])
def test_clean_ends_a_run_whose_every_guard_was_killed(mechanism, monkeypatch):
    usable(mechanism)
    with running(policy="gang", mechanism=mechanism, phases=20000) as run:
        guards = [eventually(lambda name=name: run.part(name)) for name in ("guardian", "agent", "driver")]
        assert eventually(run.holds)
        monkeypatch.setenv("XDG_RUNTIME_DIR", run.runtime)
        run.note()
        # Stopped first, so that none of them sees another one die.
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid in guards:
                os.kill(pid, signum)
        run.driver.communicate()
        assert cleanup.clean()
        assert run.remains() == []
