"""`lockstep clean` and runs that it cannot see: in another mount namespace, or without a directory."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from runs import eventually, spawned

from coordinator.host import cleanup, identity, processes
from coordinator.host.processes import DIRECTORY, KEEPER, RUN
from coordinator.host.rundir import RunDirectory

KEEP = """
import json, os, subprocess, sys
from coordinator.host.rundir import RunDirectory
if sys.argv[2:] == ["apart"]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", sys.argv[1]], check=True)
os.environ["XDG_RUNTIME_DIR"] = sys.argv[1]
directory = RunDirectory.create()
directory.entrust()  # to us: nobody else is to remove it
process = subprocess.Popen(["sleep", "60"], env={**os.environ, **directory.marks}, stdout=subprocess.DEVNULL)
print(json.dumps([str(directory.path), process.pid]), flush=True)
sys.stdin.read()
"""


class Keeper:
    """A driver in a process of its own, with a directory and a process that carries the mark."""

    def __init__(self, runtime, apart):
        argv = [*(["unshare", "--mount"] if apart else []), sys.executable, "-c", KEEP, str(runtime)]
        self.driver = subprocess.Popen(
            argv + ["apart"] * apart, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        path, self.pid = json.loads(self.driver.stdout.readline())
        self.path = Path(path)
        assert eventually(lambda: RUN in processes.environment_of(self.pid))

    @property
    def lives(self):
        return Path(f"/proc/{self.pid}/environ").exists() and bool(processes.environment_of(self.pid))

    def kill(self):
        self.driver.kill()
        self.driver.wait()

    def clean(self):
        return [line for line in cleanup.clean() if self.path.name in line]


@contextmanager
def kept(runtime, apart=False):
    run = Keeper(runtime, apart)
    try:
        yield run
    finally:
        run.kill()
        if run.lives:
            os.kill(run.pid, signal.SIGKILL)


needs_namespaces = pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0,
    reason="only root can make mount namespaces",
)


@needs_namespaces
def test_a_run_in_another_mount_namespace_is_left_alone_until_its_driver_has_ended(runtime):
    with kept(runtime, apart=True) as run:
        assert not run.path.exists()
        assert run.clean() == [] and run.lives
        run.kill()
        assert f"run {run.path.name}: ended 1 process" in run.clean()
        assert eventually(lambda: not run.lives)


@needs_namespaces
def test_the_directory_in_another_mount_namespace_is_removed_with_its_run(runtime):
    with kept(runtime, apart=True) as run:
        place = os.open(f"/proc/{run.pid}/root{run.path.parent.parent}", os.O_PATH)
        run.kill()
        assert f"run {run.path.name}: removed directory {run.path}" in run.clean()
        assert not list(Path(f"/proc/self/fd/{place}").iterdir())
        os.close(place)


def test_a_run_whose_directory_was_removed_is_left_alone_until_its_driver_has_ended(runtime):
    with kept(runtime) as run:
        shutil.rmtree(run.path.parent)
        assert run.clean() == [] and run.lives
        run.kill()
        assert run.clean() == [f"run {run.path.name}: ended 1 process"]
        assert eventually(lambda: not run.lives)


def test_a_run_in_another_runtime_directory_is_known_by_its_lock(runtime, tmp_path):
    with kept(tmp_path) as run:
        assert run.clean() == [] and run.lives
        run.kill()
        assert f"run {run.path.name}: removed directory {run.path}" in run.clean()


@pytest.mark.parametrize(
    "elsewhere",
    ["", "another boot,1,2/1/1", identity.name(os.getpid()).replace(",", ",9", 1)],
    ids=["unknown", "another boot", "another namespace"],
)
def test_a_run_of_which_too_little_is_known_is_left_alone_and_told(runtime, elsewhere, monkeypatch):
    variables = {RUN: "0badcafe", DIRECTORY: "/nowhere/lockstep-0/0badcafe", KEEPER: elsewhere}
    monkeypatch.setattr(cleanup, "release", lambda directory, spare: [f"released {directory.run}"])
    with spawned("sleep", "60") as process:
        monkeypatch.setattr(processes, "marked", lambda: {process.pid: variables})
        (said,) = (line for line in cleanup.clean() if "0badcafe" in line)
        assert said.startswith("run 0badcafe: left alone 1 of its processes") and "with --all" in said
        assert "released 0badcafe" in cleanup.clean(everything=True)


def test_a_keeper_is_known_by_its_start_and_its_place():
    ours = identity.name(os.getpid())
    place, pid, start = ours.split("/")
    assert identity.lives(ours) is True
    assert identity.lives(f"{place}/{pid}/{int(start) + 1}") is False
    assert identity.lives(f"{place}/{1 << 30}/{start}") is False
    for unknown in ("", "/", ours[1:], f"{place}/x/{start}", f"{place}/²/{start}"):
        assert identity.lives(unknown) is None


def test_a_keeper_that_only_waits_to_be_reaped_has_ended():
    words = "print(identity.name(os.getpid()), flush=True); input()"
    script = f"import os; from coordinator.host import identity; {words}"
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    name = child.stdout.readline().strip()
    assert identity.lives(name) is True
    child.kill()
    assert eventually(lambda: identity.lives(name) is False)
    child.communicate()


def test_who_is_not_the_driver_passes_its_name_on(directory, monkeypatch):
    assert directory.marks[KEEPER] == identity.name(os.getpid())
    other = RunDirectory(directory.path).marks
    assert KEEPER not in other
    monkeypatch.setenv(KEEPER, "the driver")
    assert RunDirectory(directory.path).marks[KEEPER] == "the driver"
    directory.remove()
    directory.unlock()
