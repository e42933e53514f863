"""lockstep-exec, from its wheel: in an environment with nothing else, and in a root without a compiler."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from places import ROOT

pytestmark = [pytest.mark.wheel, pytest.mark.slow]

MIB = 1 << 20
LONG_S = 1500
"""Within it a command compiles the library and tries its calls, also on a busy host."""

NO_COMPILER = """
set -e
mkdir {root}
mount -t tmpfs none {root}
mkdir -p {root}/proc {root}/dev {root}/tmp {root}/bin
cp /bin/sh {root}/bin
for place in /lib /lib64 /usr/lib /usr/local/lib /etc/alternatives {kept}; do
    [ -e $place ] || continue
    mkdir -p {root}$place
    mount --rbind $place {root}$place
done
mkdir -p {root}{mpi}/bin {root}{mpi}/lib {root}{home}/.cache
cp {mpi}/bin/mpiexec {mpi}/bin/hydra_pmi_proxy {root}{mpi}/bin
cp -rP {mpi}/lib/*mpi* {root}{mpi}/lib
cp -r {home}/.cache/lockstep {root}{home}/.cache
mount -t proc none {root}/proc
mount --rbind /dev {root}/dev
export HOME={home} PATH={mpi}/bin:/bin
exec /usr/sbin/chroot {root} {lockstep} exec -- mpiexec -n 2 {program}
"""


@pytest.fixture(scope="module")
def lockstep(tmp_path_factory):
    """The command of an environment into which only the wheel and what it asks for were installed."""
    folder = tmp_path_factory.mktemp("light")
    subprocess.run([sys.executable, ROOT / ".ci/light_wheel.py", folder], check=True)
    (wheel,) = folder.glob("*.whl")
    assert wheel.stat().st_size <= MIB
    venv.create(folder / "venv", with_pip=True)
    subprocess.run([folder / "venv/bin/pip", "install", "--quiet", wheel], check=True)
    listed = subprocess.run([folder / "venv/bin/pip", "list"], check=True, capture_output=True, text=True)
    installed = {line.split()[0] for line in listed.stdout.splitlines()[2:]}
    assert installed - {"pip", "setuptools"} == {"lockstep-exec", "psutil", "pyzmq"}
    return folder / "venv/bin/lockstep"


def done(lockstep, folder, *words):
    """The command in a home without a cache; MPI is the one beside our Python."""
    environment = {"HOME": str(folder), "PATH": f"{sys.prefix}/bin:/usr/bin:/bin"}
    argv = [lockstep, *words]
    return subprocess.run(
        argv, env=environment, cwd=folder, capture_output=True, text=True, timeout=LONG_S, check=False
    )


@pytest.fixture(scope="module")
def program(compiled):
    return compiled("here", "bsp.c", "-lm")


def test_commands_for_programs_work_with_nothing_else_installed(lockstep, tmp_path, program):
    started = ["mpiexec", "-n", "2", program, "100", "0.25", "500"]
    assert done(lockstep, tmp_path, "exec", "--", *started).returncode == 0
    tune = done(lockstep, tmp_path, "tune", "--no-wait", "--jobs", "1", "--rounds", "1", "--", *started)
    assert tune.returncode == 0 and "two-phase" in tune.stdout, tune.stderr
    colocated = done(
        lockstep, tmp_path, "colocate", "--no-wait", "--rounds", "1", "--", *started, ":::", *started
    )
    assert colocated.returncode == 0 and (
        "one after the other" in colocated.stdout or "No advice" in colocated.stdout
    ), colocated.stderr
    turns = done(lockstep, tmp_path, "turns", "--", *started, ":::", "echo", "hello")
    assert turns.returncode == 0 and "hello" in turns.stdout, turns.stderr
    doctor = done(lockstep, tmp_path, "doctor")
    assert doctor.returncode in (0, 1) and "on this host" in doctor.stdout, doctor.stderr
    cleaned = done(lockstep, tmp_path, "clean")  # of whatever runs on this host have left
    assert (cleaned.returncode, cleaned.stderr) == (0, "") and cleaned.stdout
    assert done(lockstep, tmp_path, "--version").stdout.split()[1][0].isdigit()


def test_a_command_is_checked_and_its_ranks_are_looked_after(lockstep, tmp_path, program):
    started = ["mpiexec", "-n", "2", program, "100", "0.25", "500"]
    checked = done(lockstep, tmp_path, "doctor", "--", "mpiexec", "-n", "99", program)
    assert checked.returncode == 1 and "99 ranks will spin" in checked.stdout, checked.stderr
    spread = done(lockstep, tmp_path, "exec", "--spread", "--", *started)
    assert spread.returncode == 0 and "looked after" not in spread.stderr, spread.stderr


def test_a_hang_is_reported_and_is_a_failed_test(lockstep, tmp_path, compiled):
    hangs = ["mpiexec", "-n", "2", compiled("here", "hangs.c", "-pthread", "-g"), "tag"]
    result = done(lockstep, tmp_path, "exec", "--stuck", "3", "--junit", "stuck.xml", "--", *hangs)
    assert (result.returncode, "ranks 0-1 wait for each other" in result.stderr) == (124, True)
    assert '<failure message="ranks 0-1 wait for each other' in (tmp_path / "stuck.xml").read_text()
    if shutil.which("eu-stack"):
        assert "hangs.c:" in result.stderr or "ptrace" in result.stderr


@pytest.mark.parametrize("words", [["simulate", "three-jobs"], ["reproduce", "dusseau96"]])
def test_others_say_what_they_miss(lockstep, tmp_path, words):
    refused = done(lockstep, tmp_path, *words)
    assert refused.returncode == 2 and refused.stdout == ""
    assert refused.stderr.count("\n") == 1 and "pip install lockstep-scheduling" in refused.stderr


UNSHARED = ("unshare", "--mount", "--pid", "--fork")


@pytest.mark.skipif(
    subprocess.run([*UNSHARED, "true"], check=False, capture_output=True).returncode != 0,
    reason="no namespaces of one's own",
)
def test_exec_in_a_root_with_python_and_an_mpi_only(lockstep, tmp_path, program):
    (tmp_path / "programs").mkdir()
    started = [shutil.copy(program, tmp_path / "programs"), "100", "0.25", "500"]
    assert done(lockstep, tmp_path, "exec", "--", "mpiexec", "-n", "2", *started).returncode == 0
    python = Path(os.path.realpath(sys.executable)).parents[1]
    script = NO_COMPILER.format(
        root=tmp_path / "root",
        kept=f"{python} {lockstep.parents[1]} {tmp_path}/programs",
        mpi=sys.prefix,
        home=tmp_path,
        lockstep=lockstep,
        program=" ".join(map(str, started)),
    )
    words = [*UNSHARED, "sh", "-c", script]
    inside = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert inside.returncode == 0, inside.stderr
    assert "two-phase" in inside.stderr and "compil" not in inside.stderr
