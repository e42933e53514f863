"""A hostile neighbour: what another user of the machine does has no effect on us, and is told clearly."""

import errno
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import unprivileged_actions
from hosts import Host
from runs import NOBODY, as_nobody, eventually, spawned, workload

from coordinator.drive.driver import run_workload
from coordinator.host import cleanup, processes
from coordinator.host.processes import DIRECTORY, JOB, RUN, Process, environment_of
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from harness.cli import main
from workloads.validation import InputError

RUN_OF_NOBODY = "0badcafe"

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")


@pytest.fixture
def shared(tmp_path_factory, monkeypatch):
    """A directory for temporary files that all users share, as /tmp."""
    tmp_path_factory.getbasetemp()  # not in the directory that goes with this test
    with tempfile.TemporaryDirectory(prefix="ls-shared-") as name:
        Path(name).chmod(0o1777)
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


Neighbour = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def neighbour():
    """Starts a command as another user, and returns once it is that command; all end with the test."""
    with ExitStack() as started:

        def start(*argv, **variables):
            nobody = {"user": NOBODY, "group": NOBODY, "cwd": "/"}
            process = started.enter_context(spawned(*argv, marks=variables, **nobody))
            assert eventually(lambda: variables.items() <= environment_of(process.pid).items())
            return process

        yield start


@pytest.fixture
def precious(tmp_path):
    place = tmp_path / RUN_OF_NOBODY
    place.mkdir(mode=0o700)
    (place / "thesis").touch()
    return place


@needs_root
def test_the_mark_of_a_foreign_process_ends_and_removes_nothing(shared, neighbour, precious):
    process = neighbour("sleep", "60", **{RUN: RUN_OF_NOBODY, DIRECTORY: str(precious)})
    assert not any(RUN_OF_NOBODY in line for line in cleanup.clean())
    assert cleanup.release(RunDirectory(shared / "lockstep-0" / RUN_OF_NOBODY)) == []
    assert process.poll() is None
    assert (precious / "thesis").exists()


@needs_root
def test_the_mark_of_our_own_run_on_a_foreign_process_ends_nothing(shared, neighbour):
    """Our marks can be guessed at least by who watches over our shoulder."""
    directory = RunDirectory.create()
    process = neighbour("sleep", "60", **directory.marks, **{JOB: "0"})
    processes.end(processes.ending(directory.run, job=0, grace_s=0))
    actions = cleanup.release(directory)
    directory.unlock()
    assert actions == [f"run {directory.run}: removed directory {directory.path}"]
    assert process.poll() is None


@needs_root
def test_segments_of_another_user_stay_and_do_not_keep_ours(neighbour, tmp_path):
    """He has an open file of the same name in a namespace of his own, as anybody can who may make one."""
    ours, its, link = (
        cleanup.SHARED_MEMORY / f"mpich_shm_neighbour_{name}" for name in ("ours", "its", "link")
    )
    script = (
        "mount -t tmpfs tmpfs /dev/shm && touch $0 && "
        f"exec setpriv --reuid={NOBODY} --clear-groups sleep 60 < $0"
    )
    with (
        spawned("unshare", "--mount", "sh", "-c", script, ours) as holder,
        ExitStack() as files,
    ):
        for path in (ours, its, link):
            files.callback(path.unlink, missing_ok=True)
        assert eventually(lambda: f"Uid:\t{NOBODY}" in Path(f"/proc/{holder.pid}/status").read_text())
        ours.touch()
        its.touch()
        os.chown(its, NOBODY, NOBODY)
        link.symlink_to(tmp_path)
        os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
        assert str(Path(f"/proc/{holder.pid}/fd/0").readlink()) == str(ours)
        assert cleanup.remove_files(ours.stat().st_ctime) == [ours]
        assert its.exists() and link.is_symlink()


@needs_root
@pytest.mark.slow
def test_no_socket_of_a_run_hears_another_user(shared):
    """Nor if the permissions of the run directory had failed."""
    directory = RunDirectory.create()
    host = Host(directory, "signals", lease_s=20.0)
    guardian = Process(host.hear(protocol.Join)[0].guardian)
    for path in (directory.socket, directory.hub):
        assert as_nobody(unprivileged_actions.be_forbidden, path)
    for path in (directory.path.parent, directory.path, directory.socket):
        path.chmod(0o777)
    assert as_nobody(unprivileged_actions.hang_up_on, directory.socket)
    (failure,) = host.hear(protocol.Failure)
    assert "it is not of this run" in failure.text and not failure.fatal
    host.say(protocol.End())
    host.agent.wait(10)
    host.hub.close()
    assert guardian.wait(10)
    guardian.close()
    directory.unlock()


@needs_root
def test_a_set_uid_program_is_not_taken_for_a_process_of_ours(shared, neighbour):
    """It has our effective user id, and the environment of the user who started it."""
    program = shared / "sleep"
    subprocess.run(["install", "-m", "4755", "/bin/sleep", str(program)], check=True)
    process = neighbour(str(program), "60", **{RUN: RUN_OF_NOBODY})
    assert not any(RUN_OF_NOBODY in line for line in cleanup.clean())
    assert process.poll() is None


@pytest.mark.parametrize("run", [RUN_OF_NOBODY, "..", "/", ""])
def test_a_mark_that_names_what_is_no_run_directory_removes_nothing(shared, precious, run):
    """Also in a process of our own: somebody may have talked us into that environment."""
    with spawned("sleep", "60", marks={RUN: run, DIRECTORY: str(precious)}) as process:
        assert eventually(lambda: RUN in environment_of(process.pid))
        actions = cleanup.clean()
        assert (precious / "thesis").exists() and shared.exists()
        assert process.poll() is None
        assert any("left alone" in line for line in actions) == (run == RUN_OF_NOBODY)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.chmod(0o755),
        lambda path: path.parent.chmod(0o755),
        lambda path: (path / "journal").write_text('{"made_s": 0}\n'),
        lambda path: (path / "journal").write_text("5\n"),
        lambda path: path.rename(path.with_name("precious")),
    ],
    ids=["open to others", "in an open directory", "of another run", "without a journal", "without a name"],
)
def test_a_directory_is_a_runs_only_if_everything_fits(shared, spoil):
    directory = RunDirectory.create()
    directory.unlock()
    assert directory.ours
    spoil(directory.path)
    assert not directory.ours
    assert not any(RunDirectory(path).ours for path in directory.path.parent.iterdir())


def give_away(place, mode):
    """Make a directory, and all in it, another user's."""
    for path in (place, *place.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    place.chmod(mode)


def plant_run(shared):
    """A home of ours with the leftovers of a run, which another user may have made first."""
    run = shared / f"lockstep-{os.getuid()}" / RUN_OF_NOBODY
    run.mkdir(parents=True)
    (run / "journal").write_text(json.dumps({"run": run.name, "made_s": 0}) + "\n")


def squat(shared, how):
    place = shared / f"lockstep-{os.getuid()}"
    elsewhere = shared / "elsewhere"
    match how:
        case "directory" | "open directory":
            place.mkdir()
            give_away(place, 0o777 if "open" in how else 0o700)
        case "file":
            place.touch()
            os.chown(place, NOBODY, NOBODY)
        case "link" | "dangling link":
            if how == "link":
                elsewhere.mkdir(mode=0o700)
            place.symlink_to(elsewhere)
            os.chown(place, NOBODY, NOBODY, follow_symlinks=False)


SQUATS = ["directory", "open directory", "file", "link", "dangling link"]


@needs_root
@pytest.mark.parametrize("how", SQUATS)
def test_a_squatted_home_is_bad_input_whatever_is_done_there(shared, how, capsys):
    squat(shared, how)
    before = sorted(shared.rglob("*"))
    for use in (RunDirectory.create, cleanup.clean):
        with pytest.raises(InputError, match=f"{shared}/lockstep-0 .*; set XDG_RUNTIME_DIR or TMPDIR"):
            use()
    assert main(["clean"]) == 2
    assert "lockstep: XDG_RUNTIME_DIR" in capsys.readouterr().err
    with pytest.raises(OSError, match="lockstep-0 "):
        RunDirectory.adopt(shared / "lockstep-0" / RUN_OF_NOBODY)
    assert sorted(shared.rglob("*")) == before


def lay_way(top, how):
    """A way to the directory of all runs on which another user could put something else; returns its end."""
    way = top / "way"
    way.mkdir(mode=0o755)
    inner = way / "inner"
    match how:
        case "open":
            inner.mkdir()
            way.chmod(0o777)
        case "open to a group":
            inner.mkdir()
            way.chmod(0o770)
        case "foreign":
            inner.mkdir()
            os.chown(way, NOBODY, NOBODY)
        case "foreign link":
            inner.symlink_to(top)
            os.chown(inner, NOBODY, NOBODY, follow_symlinks=False)
        case "link through an open directory":
            (way / "inner").symlink_to("open/there")
            (way / "open" / "there").mkdir(parents=True)
            (way / "open").chmod(0o777)
        case "circle":
            inner.symlink_to(inner)
    return inner


@pytest.mark.parametrize(
    "how, reason",
    [
        ("open", "way can be changed by others (mode 0777)"),
        ("open to a group", "way can be changed by others (mode 0770)"),
        pytest.param("foreign", "way belongs to user 65534", marks=needs_root),
        pytest.param("foreign link", "inner belongs to user 65534", marks=needs_root),
        ("link through an open directory", "open can be changed by others (mode 0777)"),
        ("circle", "too many symbolic links"),
    ],
)
def test_no_directory_on_the_way_may_be_anybodys(shared, how, reason):
    inner = lay_way(shared, how)
    with pytest.raises(OSError, match=re.escape(reason)):
        RunDirectory.adopt(inner / f"lockstep-{os.getuid()}" / RUN_OF_NOBODY)
    assert not (inner / f"lockstep-{os.getuid()}").exists()


def test_a_way_of_our_own_is_used_through_links(shared):
    real = shared / "real"
    real.mkdir(mode=0o700)
    (shared / "link").symlink_to("real/../real")
    path = shared / "link" / f"lockstep-{os.getuid()}" / RUN_OF_NOBODY
    directory = RunDirectory.adopt(path)
    assert directory.ours and directory.in_use()
    assert RunDirectory.adopt(path).ours  # there already: the driver's
    directory.unlock()
    assert directory.remove()


@needs_root
def test_an_agent_refuses_a_run_directory_that_another_user_has_made(shared):
    parent = shared / "lockstep-0"
    (parent / RUN_OF_NOBODY).mkdir(parents=True)
    parent.chmod(0o700)
    give_away(parent / RUN_OF_NOBODY, 0o777)
    with pytest.raises(PermissionError, match=f"{RUN_OF_NOBODY} belongs to user 65534"):
        RunDirectory.adopt(parent / RUN_OF_NOBODY)
    assert not any((parent / RUN_OF_NOBODY).iterdir())


def test_without_a_directory_for_temporary_files_that_is_told(monkeypatch):
    def none():
        raise FileNotFoundError(2, "No usable temporary directory found in ['/x']")

    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(InputError, match="No usable temporary directory found"):
        RunDirectory.create()


def test_without_room_for_a_run_directory_that_is_told_and_nothing_remains(shared, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(InputError, match=r"cannot hold run directories: .*No space left"):
            RunDirectory.create()
    assert not any(shared.iterdir())


@needs_root
@pytest.mark.slow
def test_a_run_goes_on_whatever_a_neighbour_has_planted(shared, neighbour, tmp_path_factory, monkeypatch):
    """Modules in the current directory, a home with a trap, a mark, a segment; with a place of our own."""
    plant_run(shared)
    witness = shared / "executed"
    for module in ("socket", "json", "signal", "zmq", "mpi4py"):
        (shared / f"{module}.py").write_text(f"import os; os.mkdir({str(witness)!r})")
    give_away(shared / "lockstep-0", 0o777)
    segment = cleanup.SHARED_MEMORY / "mpich_shm_neighbour"
    segment.touch()
    os.chown(segment, NOBODY, NOBODY)
    own = tmp_path_factory.mktemp("r")  # a short name, for sockets in it
    process = neighbour("sleep", "60", **{RUN: RUN_OF_NOBODY, DIRECTORY: str(own.parent)})
    before = sorted(shared.rglob("*"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    monkeypatch.setenv("TMPDIR", str(shared))
    monkeypatch.chdir(shared)
    try:
        result = run_workload(workload("gang", phases=500))
        assert result.failure == "" and not any(job.failure for job in result.jobs)
        assert not any(RUN_OF_NOBODY in line for line in cleanup.clean())
        assert sorted(shared.rglob("*")) == before and not any(own.iterdir())
        assert segment.exists() and process.poll() is None
    finally:
        segment.unlink()
