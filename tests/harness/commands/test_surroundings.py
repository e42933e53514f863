"""Every command in poor surroundings works, or says why not: no room, nothing to write to, no memory."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from lives import EXPERIMENT
from native_programs import wrapper
from places import ROOT

from coordinator.host.mechanisms import cgroup_base
from workloads import native

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="mounting takes root"),
]

PATIENCE_S = 150.0

READ_ONLY = "mkdir -p {0} && mount -t tmpfs tmpfs {0} && mount -o remount,ro {0}"
SMALL = "mkdir -p {0} && mount -t tmpfs -o size={1} tmpfs {0}"
DEVICES = (
    "mkdir dev && mount -t tmpfs tmpfs dev && "
    "cp -a /dev/null /dev/zero /dev/urandom /dev/random /dev/tty dev && "
    "mkdir dev/pts && ln -s /proc/self/fd dev/fd && mount --bind dev /dev"
)

PLACES = {
    "a home that is read-only": f"{READ_ONLY.format('home')}; export HOME=$PWD/home; unset XDG_CACHE_HOME",
    "a directory that is read-only": f"{READ_ONLY.format('here')}; cd here",
    "shared memory that is read-only": "mount -t tmpfs -o ro tmpfs /dev/shm",
    "no shared memory": DEVICES,
    **{
        f"{size} for {what}": f"{SMALL.format('small', size)}; {command}"
        for what, command, sizes in (
            ("results", "cd small", ("4k", "60k", "200k")),
            ("temporary files", "export TMPDIR=$PWD/small; unset XDG_RUNTIME_DIR", ("4k", "60k", "200k")),
            ("the cache", "export XDG_CACHE_HOME=$PWD/small; unset NUMBA_CACHE_DIR", ("4k", "400k")),
        )
        for size in sizes
    },
}

JOBS = """
level = "jobs"
processors = 16
[model]
count = 20
rigid = true
[[schedulers]]
policy = "dqt"
"""

COMMANDS = {
    "run": "run {experiment} --no-simulate --no-wait",
    "simulate": "simulate {experiment}",
    "simulate jobs": "simulate {jobs}",
    "calibrate": "calibrate --no-wait",
    "exec": "exec -- mpiexec -n 2 true",
    "record": "record --no-wait -- mpiexec -n 2 true",
    "tune": "tune --no-wait --rounds 1 -- mpiexec -n 2 true",
    "colocate": "colocate --no-wait --rounds 1 -- true ::: true",
    "turns": "turns -- true ::: true",
    "explore": "explore {experiment}",
    "reproduce": "reproduce hori96 --quick",
    "submit": "submit {experiment}",
    "show": "show gang -o page.html",
    "doctor": "doctor --no-wait",
    "clean": "clean",
}

FEW = [("no shared memory", "doctor"), ("4k for the cache", "simulate jobs"), ("4k for results", "run")]


def ends(tmp_path, setting, command):
    """Run a command behind a line of a shell in a mount namespace; returns its status and what it says."""
    (tmp_path / "x.toml").write_text(EXPERIMENT)
    (tmp_path / "jobs.toml").write_text(JOBS)
    words = [sys.executable, "-P", "-m", "harness", *shlex.split(command)]
    script = f'{setting} || exit 77; exec "$@"'
    result = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script, "bash", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if result.returncode in (1, 77) and ("unshare:" in result.stderr or "mount:" in result.stderr):
        pytest.skip("nothing can be mounted here")
    assert "Traceback" not in result.stderr, result.stderr[-3000:]
    return result.returncode, result.stderr


def works_or_says_why(tmp_path, place, name):
    command = COMMANDS[name].format(experiment=tmp_path / "x.toml", jobs=tmp_path / "jobs.toml")
    status, message = ends(tmp_path, PLACES[place], command)
    assert status in (0, 1, 2), message
    assert status == 0 or name == "doctor" or "lockstep: " in message, message


@pytest.mark.parametrize("place, name", FEW)
def test_a_command_in_poor_surroundings_works_or_says_why(tmp_path, place, name):
    works_or_says_why(tmp_path, place, name)


@pytest.mark.soak
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("place", PLACES)
def test_every_command_in_poor_surroundings_works_or_says_why(tmp_path, place, name):
    works_or_says_why(tmp_path, place, name)


@pytest.fixture
def group(request):
    """The directory of a new control group, of version 1 or 2, with a limit: a controller, names, a value."""
    controller, names, value = request.param
    base = cgroup_base(controller) or cgroup_base()
    made = (base or Path("/none")) / f"lockstep-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError:
        pytest.skip("no control group can be made here")
    limits = [made / name for name in names]
    try:
        if not any(limit.exists() for limit in limits):
            pytest.skip(f"no control group here limits {controller}")
        next(limit for limit in limits if limit.exists()).write_text(str(value))
        yield made
    finally:
        made.rmdir()


MEMORY = "memory", ("memory.max", "memory.limit_in_bytes"), 150 << 20


@pytest.mark.parametrize("group", [MEMORY], indirect=True, ids=["150 MiB"])
def test_a_program_without_memory_is_explained(tmp_path, group):
    native.library(wrapper("here"))  # which takes more memory to compile
    greedy = f"exec -- mpiexec -n 2 {sys.executable} -c 'b = bytearray(900 << 20)'"
    status, said = ends(tmp_path, f"echo $$ > {group}/cgroup.procs", greedy)
    assert status != 0
    assert f"of the control group {group} (limit: 150 MiB)" in said


@pytest.mark.parametrize("group", [("pids", ("pids.max",), 8)], indirect=True, ids=["8 processes"])
@pytest.mark.parametrize("command", ["exec -- true", "turns -- true ::: true"])
def test_a_command_that_may_start_too_few_processes_says_so(tmp_path, group, command):
    status, said = ends(tmp_path, f"echo $$ > {group}/cgroup.procs", command)
    assert status == 2
    assert said.startswith("lockstep: processes and threads that may start = "), said
