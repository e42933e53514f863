"""``lockstep exec`` as a command: output, status, signals, and what it refuses, from outside."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import unprivileged_actions
from native_programs import (
    LOCKSTEP,
    hasty_wrapper,
    launcher,
    proxy_and_ranks,
    run,
    summary,
    two_phase,
    wrapper,
)
from places import ROOT
from rank_results import rank_result
from runs import NOBODY, as_nobody, eventually, state

from harness.commands.exec import PASSED_ON
from harness.measure.registrar import RankListener

HEAVY = ("numpy", "numba", "pandas", "matplotlib", "rich", "zmq", "psutil", "jinja2", "mpi4py")
"""What takes long to import, and need not be installed for exec."""
NEVER = "sqlite3", "harness.store", "harness.spec", "coordinator.view"
"""What takes long to import, and exec alone does not load."""


def loaded(*commands):
    """What takes long to import, of all that these commands load."""
    code = (
        f"import sys; from harness import cli; [cli.main(words) for words in {commands}]; print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, check=True)
    return {*HEAVY, *NEVER} & set(result.stdout.decode().split())


@pytest.mark.slow
def test_exec_imports_nothing_that_is_slow_to_load():
    assert loaded(["exec", "--", "true"]) == set()


@pytest.mark.slow
def test_commands_for_programs_load_nothing_slow_before_they_need_it():
    commands = ("tune", "colocate", "turns", "doctor", "clean")
    modules = loaded(*([command, "--help"] for command in commands))
    assert modules & set(HEAVY) <= {"psutil", "zmq"}


@pytest.mark.slow
def test_output_and_status_are_the_command_s_own():
    launcher("here")
    result = two_phase(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.returncode, result.stdout) == (7, "out\n")
    assert result.stderr.startswith("err\n")
    assert "the command failed (status 7) before a rank finished" in result.stderr
    assert two_phase(["sh", "-c", "kill -USR1 $$"]).returncode == 128 + signal.SIGUSR1


@pytest.mark.slow
def test_what_a_command_leaves_running_ends_with_it():
    launcher("here")
    result = two_phase(["sh", "-c", "sleep 300 > /dev/null 2>&1 & echo $! ${TMPDIR-none}"])
    left, temporary = result.stdout.split()
    assert state(int(left)) in ("", "Z")
    assert temporary == os.environ.get("TMPDIR", "none")


def started(tmp_path, *argv, **options):
    """``lockstep exec`` on a command in ``tmp_path``."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen([*LOCKSTEP, "exec", "--", *argv], cwd=tmp_path, env=environment, **options)


LAUNCHER = """#!/bin/sh
[ "$1" = --version ] && echo "HYDRA build details: Version: 4" && exit
trap '{at_first}' TERM
touch there
sleep .2
trap 'echo caught; exit 5' TERM
while :; do sleep .01; done
"""
"""As MPICH's launcher, which may lose a signal that comes while it starts."""


@pytest.mark.slow
@pytest.mark.parametrize("at_first", ["echo caught; exit 5", "echo lost"])
def test_a_signal_is_passed_on_to_the_command_and_again_if_its_launcher_loses_it(tmp_path, at_first):
    launcher("here")
    script = tmp_path / "mpiexec"
    script.write_text(LAUNCHER.format(at_first=at_first))
    script.chmod(0o755)
    with started(tmp_path, str(script), stdout=subprocess.PIPE, text=True) as process:
        assert eventually((tmp_path / "there").exists)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=30)[0] == "lost\n" * (at_first == "echo lost") + "caught\n"
    assert process.returncode == 5


def test_the_thread_that_listens_to_ranks_handles_no_signals():
    """Whoever waits for signals with sigwaitinfo would miss those that it gets."""
    before = set(Path("/proc/self/task").iterdir())
    with RankListener():
        (thread,) = set(Path("/proc/self/task").iterdir()) - before
        (blocked,) = re.findall(r"SigBlk:\s*(\w+)", (thread / "status").read_text())
        assert {signum for signum in PASSED_ON if not int(blocked, 16) >> (signum - 1) & 1} == set()
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(PASSED_ON)


@pytest.mark.slow
def test_a_command_that_hides_its_environment_ends_with_a_killed_lockstep(tmp_path):
    launcher("here")
    script = "import os, time; os.execve('/bin/sh', ['sh', '-c', 'echo $$ > there; sleep 300 & wait'], {})"
    with started(tmp_path, sys.executable, "-c", script) as process:
        assert eventually(
            lambda: (tmp_path / "there").exists() and (tmp_path / "there").read_text().endswith("\n")
        )
        process.kill()
    assert eventually(lambda: state(int((tmp_path / "there").read_text())) in ("", "Z"))


@pytest.mark.slow
def test_a_command_that_is_missing_and_a_compiler_that_fails_are_told(tmp_path):
    launcher("here")
    missing = two_phase(["./no-such-command"])
    assert (missing.returncode, missing.stdout) == (127, "")
    assert "the program was not found, or is not executable; check its name" in missing.stderr
    quoted = two_phase(["mpiexec -n 4 ./app"])
    assert quoted.returncode == 127
    assert "leave out the quotes" in quoted.stderr
    broken = tmp_path / "mpicc"
    broken.write_text("#!/bin/sh\necho no header >&2\nexit 1\n")
    broken.chmod(0o755)
    failed = two_phase(["true"], "--mpicc", str(broken))
    assert failed.returncode == 2
    assert "no header" in failed.stderr
    assert "Traceback" not in failed.stderr
    idle = two_phase(["true"], "--mpicc", "/bin/true")
    assert idle.returncode == 2
    assert "/bin/true has made no library: name the mpicc" in idle.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "where, complaint",
    [
        *((name, "LD_PRELOAD cannot carry") for name in ("with space", "a:b")),
        ("file", "cannot keep"),
        ("open/mine", "can be changed by others"),
        ("theirs", f"belongs to user {NOBODY}"),
    ],
)
def test_a_cache_directory_that_cannot_be_used_is_refused(tmp_path, where, complaint):
    """No library is loaded from where others could have put it, or could put it while the command runs."""
    (tmp_path / "file").touch()
    (tmp_path / "open" / "mine").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    if where == "theirs" and os.getuid():
        pytest.skip("only root can act as a second user")
    if where == "theirs":
        (tmp_path / "theirs" / "lockstep").mkdir(parents=True)
        os.chown(tmp_path / "theirs" / "lockstep", NOBODY, NOBODY)
    result = run([*LOCKSTEP, "exec", "--", "true"], extra={"XDG_CACHE_HOME": str(tmp_path / where)})
    assert result.returncode == 2 and complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("existing", [True, False])
def test_a_cache_that_others_could_write_to_is_closed_from_the_start(tmp_path, existing):
    """One that exists is open to a group only."""
    launcher("here")
    place = tmp_path / "cache" / "lockstep"
    if existing:
        place.mkdir(parents=True)
        place.chmod(0o775)
    words = [*LOCKSTEP, "exec", "--mpicc", str(hasty_wrapper(tmp_path)), "--", "true"]
    shell = ["sh", "-c", 'umask 0; exec "$@"', "sh", *words]
    result = run(shell, extra={"XDG_CACHE_HOME": str(place.parent)})
    assert result.returncode == 0, result.stderr
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.slow
def test_a_directory_for_records_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    result = run([*LOCKSTEP, "exec", "--record", str(tmp_path / "file" / "x"), "--", "true"])
    assert result.returncode == 2 and "--record" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.slow
def test_descriptors_of_the_caller_reach_the_command(tmp_path):
    """A shell's <(...) and 3>, and the job server of make."""
    launcher("here")
    ours = " ".join([*LOCKSTEP, "exec", "--"])
    read = run(["bash", "-c", f"{ours} cat <(echo x)"])
    assert (read.returncode, read.stdout) == (0, "x\n"), read.stderr
    written = run(["bash", "-c", f"{ours} sh -c 'echo hi >&3' 3> {tmp_path}/f"])
    assert (written.returncode, (tmp_path / "f").read_text()) == (0, "hi\n"), written.stderr
    (tmp_path / "sub.mk").write_text("all: a b\na b: ; @echo $@\n")
    (tmp_path / "Makefile").write_text(f"all: ; +{ours} $(MAKE) -f sub.mk\n")
    result = run(["make", "-s", "-j3", "-C", str(tmp_path)])
    assert result.returncode == 0 and "jobserver" not in result.stderr


def test_records_count_that_show_the_key_whoever_sends_them():
    record = json.dumps(rank_result(cpu_ns=5).recorded())
    with RankListener() as listener:
        name, key = listener.variables["LOCKSTEP_LISTENER"].split(",")
        send = unprivileged_actions.send
        assert as_nobody(send, name, f"{key} {record}")
        assert as_nobody(send, name, f"other {record}")
        for text in ("", "other ", f"{key} 5", f"{key} {{}}", f"{key} x"):
            send(name, text)
    assert [one.cpu_ns for one in listener.records] == [5]


@pytest.mark.slow
def test_ranks_that_give_up_root_are_counted(compiled):
    if os.getuid():
        pytest.skip("takes root")
    argv = [*launcher("here"), "-n", "2", compiled("here", "demoted.c")]
    result = two_phase(argv, "--mpicc", str(wrapper("here")))
    assert result.returncode == 0, result.stderr
    assert summary(result)["ranks"] == 2


@pytest.mark.slow
def test_a_launcher_that_lost_its_proxy_ends(tmp_path):
    """MPICH's would wait for ever; what follows it in a script goes on."""
    if "hydra" not in run([*launcher("here"), "--version"]).stdout.lower():
        pytest.skip("the launcher has no proxies")
    script = "mpiexec -n 2 sleep 300; echo $?"
    with started(
        tmp_path, "sh", "-c", script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ours:
        proxy, ranks = eventually(lambda: proxy_and_ranks(ours.pid), 30)
        for pid in (proxy, ranks[0]):
            os.kill(pid, signal.SIGKILL)
        out, errors = ours.communicate(timeout=60)
    assert out == "137\n"
    assert "waits for processes that were killed" in errors
    assert all(state(pid) in ("", "Z") for pid in ranks)


@pytest.mark.slow
def test_a_program_whose_launcher_lost_its_proxy_is_not_recorded_for_ever(tmp_path):
    if "hydra" not in run([*launcher("here"), "--version"]).stdout.lower():
        pytest.skip("the launcher has no proxies")
    words = [*LOCKSTEP, "record", "--no-wait", "--", "mpiexec", "-n", "2", "sleep", "300"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as ours:
        proxy, ranks = eventually(lambda: proxy_and_ranks(ours.pid), 60)
        for pid in (proxy, ranks[0]):
            os.kill(pid, signal.SIGKILL)
        _, errors = ours.communicate(timeout=60)
    assert ours.returncode == 1
    assert "waits for processes that were killed" in errors
    assert all(state(pid) in ("", "Z") for pid in ranks)
