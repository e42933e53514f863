"""Launchers: found, told apart, given a clean environment, ended whatever they started."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_commands import fake_commands
from places import ROOT, SUPPORT
from runs import eventually, spawned, workload

from coordinator.host import launch, launcher_choice, launchers
from coordinator.host.environment import forwarded
from coordinator.host.launch import LaunchError, run_session
from coordinator.host.launcher_choice import find_launcher, unchanged
from coordinator.host.launchers import Hydra, OpenMpi, Prrte, Srun, recognize
from coordinator.host.processes import RUN, marked
from harness.application import real_tools
from harness.spec.colocate import table
from workloads.validation import InputError

MPICH = Hydra("/x/mpiexec", "5.0")
OPENMPI = OpenMpi("/x/mpiexec", "5.0.11")


def test_recognizes_both_kinds_by_their_answers():
    hydra = "HYDRA build details:\n    Version:                                 4.2.1\n    CC: cc\n"
    assert recognize("/x/mpiexec", hydra) == Hydra("/x/mpiexec", "4.2.1")
    assert recognize("/y", "mpiexec (Open MPI) 5.0.8\n\nReport bugs to") == OpenMpi("/y", "5.0.8")
    assert recognize("/y", "mpiexec (OpenRTE) 4.1.4\n\nReport bugs to") == OpenMpi("/y", "4.1.4")
    assert recognize("/y", "prterun (PRRTE) 3.0.6\n\nReport") == Prrte("/y", "3.0.6")
    assert recognize("/s", "slurm-wlm 22.05.8\n") == Srun("/s", "22.05.8")
    assert recognize("/z", "aprun 23.1\n") is None


def test_slurms_launcher_is_used_where_a_command_names_it_in_an_allocation_and_nowhere_else(
    tmp_path, monkeypatch
):
    (program := tmp_path / "srun").write_text("#!/bin/sh\necho slurm 23.11.1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(InputError, match="allocation"):
        launcher_choice.launcher_at("srun")
    with pytest.raises(InputError, match="there is none beside Python"):
        find_launcher()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    launcher = launcher_choice.launcher_at("srun")
    assert launcher == Srun(str(program), "23.11.1") and str(launcher) == f"srun 23.11.1 ({program})"
    assert launcher.argv(2, ["./a"])[:2] == [str(program), "--overlap"]


@pytest.mark.parametrize(
    "word, expected",
    [
        *[("/x/mpiexec.hydra", True), ("mpirun.openmpi", True), ("srun", True), ("orterun", True)],
        *[("mpiexec-mpich-mp", True), ("./mpirun_tests.sh", False), ("srunner", False), ("./a", False)],
    ],
)
def test_launchers_are_told_by_name(word, expected):
    assert launchers.is_launcher(word) == expected
    (job, _) = table([[word, "-n", "2", "./b"]] * 2, rounds=1, precision=0.1)["jobs"]
    assert (job["command"][0] == word) == expected


def test_command_lines_bind_nothing():
    assert MPICH.argv(3, ["a", "b"]) == ["/x/mpiexec", "-bind-to", "none", "-n", "3", "a", "b"]
    assert OPENMPI.argv(2, ["a"]) == ["/x/mpiexec", "--bind-to", "none", "--oversubscribe", "-n", "2", "a"]
    assert Prrte("/x/prterun", "3").argv(2, ["a"])[1:5] == ["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]


def test_open_mpi_spins_and_runs_as_root_only_when_root(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    as_user = OPENMPI.environment({}, {})
    assert as_user["OMPI_MCA_mpi_yield_when_idle"] == "0"
    assert "OMPI_ALLOW_RUN_AS_ROOT" not in as_user
    monkeypatch.setattr(os, "getuid", lambda: 0)
    as_root = OPENMPI.environment({}, {})
    assert as_root["OMPI_ALLOW_RUN_AS_ROOT"] == as_root["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert not any(name.startswith("OMPI_") for name in MPICH.environment({}, {}))


def test_open_mpi_shares_memory_in_a_directory_of_our_own(tmp_path):
    place = tmp_path / "run" / "3"
    assert MPICH.memory_apart(place) == {} and not place.exists()
    assert OPENMPI.memory_apart(place)["OMPI_MCA_btl_sm_backing_directory"] == str(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert OPENMPI.memory_apart(place), "again, for a job that is started again"
    (tmp_path / "run").chmod(0o777)
    assert OPENMPI.memory_apart(place) == {}, "somebody else could change it"
    assert OPENMPI.memory_apart(Path("/proc/none/3")) == {}


def test_the_environment_is_an_allow_list():
    source = {"PATH": "/bin", "SECRET": "x", "LC_ALL": "C", "UCX_TLS": "sm", "OMPI_COMM_WORLD_RANK": "1"}
    source["SSH_AUTH_SOCK"] = "/agent"
    passed = forwarded({"LOCKSTEP_RUN": "r"}, source)
    assert {"PATH", "LC_ALL", "UCX_TLS", "LOCKSTEP_RUN", "SSH_AUTH_SOCK"} <= passed.keys()
    assert passed.keys().isdisjoint({"SECRET", "OMPI_COMM_WORLD_RANK"})
    assert passed["OMP_NUM_THREADS"] == "1"
    first, *rest = forwarded({}, {"PYTHONPATH": "/a:/b"})["PYTHONPATH"].split(":")
    assert (Path(first) / "workloads" / "rank.py").exists()
    assert rest == ["/a", "/b"]


def fake(directory, answer):
    fake_commands(directory, mpiexec=f"echo '{answer}'")


def test_the_launcher_beside_python_comes_before_path(tmp_path, monkeypatch):
    beside = tmp_path / "a b"
    path = tmp_path / "path"
    beside.mkdir()
    path.mkdir()
    fake(beside, "HYDRA build details:\nVersion: 9.9")
    fake(path, "mpiexec (Open MPI) 8.8")
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    monkeypatch.setenv("PATH", str(path), prepend=":")
    assert find_launcher() == Hydra(str(beside / "mpiexec"), "9.9")
    (beside / "mpiexec").unlink()
    assert find_launcher() == OpenMpi(str(path / "mpiexec"), "8.8")


@pytest.mark.slow
def test_a_session_returns_its_output_and_leaves_no_directory(tmp_path):
    assert run_session([sys.executable, "-c", "print(6 * 7)"], forwarded({}), 10) == "42\n"


@pytest.mark.slow
def test_a_failing_session_shows_what_it_said():
    with pytest.raises(LaunchError, match="status 3\nno luck"):
        run_session([sys.executable, "-c", "import sys; sys.stderr.write('no luck'); sys.exit(3)"], {}, 10)
    with pytest.raises(LaunchError, match="cannot run /nonexistent"):
        run_session(["/nonexistent"], {}, 10)


@pytest.mark.slow
def test_a_session_that_takes_too_long_is_ended_with_all_its_descendants(tmp_path):
    pid_file = tmp_path / "pid"
    script = f"setsid sleep 60 & echo $! > '{pid_file}'; trap '' TERM; wait; sleep 60"
    begin = time.monotonic()
    with pytest.raises(LaunchError, match=r"longer than 0\.5 s"):
        run_session(["/bin/sh", "-c", script], forwarded({}), 0.5)
    assert time.monotonic() - begin < 10
    sleeper = int(pid_file.read_text())
    assert eventually(lambda: RUN not in marked().get(sleeper, {}))


@pytest.mark.slow
@pytest.mark.parametrize("child", ["sleep 60 & kill -9 $!; sleep 0.1; ", "sleep 0.3 & "])
def test_a_session_ends_soon_if_its_launcher_waits_for_a_child_that_somebody_has_killed(child, monkeypatch):
    """As MPICH's launcher sometimes does after the end of its proxy."""
    monkeypatch.setattr(launch, "LOOK_S", 0.1)
    monkeypatch.setattr(launch, "LOST_NS", 200_000_000)
    monkeypatch.setattr(launch, "ORPHANED_NS", 600_000_000)
    with pytest.raises(LaunchError, match="waits for processes that have ended"):
        run_session(["/bin/sh", "-c", f"{child}exec sleep 60"], forwarded({}), 30)


@pytest.mark.slow
def test_a_session_may_have_no_children(monkeypatch):
    monkeypatch.setattr(launch, "LOOK_S", 0.02)
    monkeypatch.setattr(launch, "ORPHANED_NS", 0)
    assert run_session(["/bin/sleep", "0.1"], forwarded({}), 30, parent=False) == ""


def test_programs_that_do_not_end_are_waited_for_no_longer_than_allowed():
    with spawned("true") as ending, spawned("sleep", "60") as lasting:
        begin = time.monotonic()
        assert launch.reap([None, ending], 10)
        assert not launch.reap([lasting, ending, lasting], 0.05)
        assert time.monotonic() - begin < 5
        lasting.kill()
        assert launch.reap([lasting], 10) and lasting.returncode == -signal.SIGKILL


def test_the_end_of_a_file_is_told_and_no_more_is_read(tmp_path):
    (tmp_path / "log").write_text("\n".join(map(str, range(30))))
    assert launch.tail(tmp_path / "log", 2) == "28\n29"
    assert launch.tail(tmp_path / "none") == ""
    assert launch.describe(-9) == "was killed by signal 9"
    with (tmp_path / "log").open("wb") as file:
        file.seek(1 << 40)  # sparse
        file.write(b"\nthe last\nwords\n")
    assert launch.tail(tmp_path / "log", 2) == "the last\nwords"


def test_a_series_is_measured_with_one_launcher_and_its_loss_is_told(tmp_path, monkeypatch):
    ours = tmp_path / "ours"
    other = tmp_path / "other"
    for place, version in ((ours, "1.1"), (other, "2.2")):
        place.mkdir()
        fake(place, f"HYDRA build details:\nVersion: {version}")
    monkeypatch.setattr(sys, "executable", str(ours / "python"))
    monkeypatch.setenv("PATH", str(other), prepend=":")
    tools = real_tools()
    assert "1.1" in tools.launcher and unchanged(find_launcher()) == find_launcher()
    fake(ours, "HYDRA build details:\nVersion: 3.3")
    with pytest.raises(LaunchError, match=r"began with the launcher mpich 1\.1 .* but it is mpich 3\.3"):
        tools.run_workload(workload(), lambda text: None)
    (ours / "mpiexec").unlink()
    with pytest.raises(LaunchError, match=r"has gone, or does not answer: restore the launcher"):
        tools.run_workload(workload(), lambda text: None)
    assert find_launcher().version == "2.2"  # which would have taken it


@pytest.mark.parametrize(
    "status, said", [(-7, ""), (135, ""), (7, "EXIT STRING: Bus error (signal 7)"), (1, "on signal 7")]
)
def test_a_bus_error_is_explained(status, said, tmp_path):
    (tmp_path / "err").write_text(said)
    explanation = launch.failed(status, tmp_path / "err", tmp_path / "out")
    assert explanation.startswith(launch.describe(status)) and said in explanation
    assert "MiB are free now" in explanation and "--shm-size" in explanation
    assert "shm" not in launch.failed(1, tmp_path / "out")


@pytest.mark.slow
def test_a_full_shared_memory_is_named_in_the_failure(runtime):
    script = SUPPORT / "runs.py"
    run = f"{sys.executable} {script} '{{\"jobs\": 1}}'"
    mount = "mount -t tmpfs -o size=64k tmpfs /dev/shm || exit 77"
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{mount}; {run}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode in (1, 77) and ("unshare:" in result.stderr or "mount:" in result.stderr):
        pytest.skip("mounting takes privileges")
    (failure,) = json.loads(result.stdout)["jobs"]
    assert "Signal 7 is a bus error" in failure and "of 0.1 MiB are free" in failure, failure


def test_another_launcher_is_one_class(tmp_path, monkeypatch):
    monkeypatch.setattr(launchers, "LAUNCHERS", dict(launchers.LAUNCHERS))

    @launchers.register
    class Toy(launchers.Launcher):
        kind = "toy"
        programs = ("toyrun",)
        signs = ("Toy",)

        def argv(self, processes, command, hosts=()):
            return [self.path, f"--ranks={processes}", *command]

        @classmethod
        def words(cls, command, variables, source):
            given = [f"--set={name}={value}" for name, value in variables.items()]
            return [command[0], *given, *command[1:]] if command[0] == "toyrun" else command

    program = tmp_path / "toyrun"
    monkeypatch.setenv("PATH", fake_commands(tmp_path, toyrun="echo Toy 1.2"))
    launcher = launcher_choice.launcher_at("toyrun")
    assert launcher == Toy(str(program), "1.2") == unchanged(launcher)
    assert launcher.argv(2, ["a"]) == [str(program), "--ranks=2", "a"]
    assert launchers.launched(["toyrun", "a"], {"X": "1"}, [], {})[0] == ["toyrun", "--set=X=1", "a"]
    assert launcher.environment({"X": "1"}, {})["X"] == "1" and launcher.memory_apart(tmp_path) == {}
