"""``lockstep turns``: commands and running jobs share the processors, and nothing stays stopped."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from native_programs import launcher, proxy_and_ranks, run
from runs import NOBODY, command, eventually, everything_in, needs_two, state, text, two_processors

from coordinator.drive.driver import run_workload
from coordinator.host import cleanup, identity
from coordinator.host.launchers import NoLauncher
from coordinator.host.processes import children
from harness import cli
from harness.spec import turns
from workloads.validation import InputError

SPIN = "import time; end = time.time() + {}\nwhile time.time() < end: pass"
LOCKSTEP = [sys.executable, "-P", "-m", "harness", "turns"]


@pytest.mark.parametrize(
    "words",
    [
        ["--", "true"],
        ["--policy", "implicit", "--", "true", ":::", "true"],
        ["--policy", "gang migrate=true", "--", "true", ":::", "true"],
        ["--policy", "gang mechanism=freezer", "--", "true", ":::", "true"],
        ["--policy", "gang local=rr", "--", "true", ":::", "true"],
        ["--policy", "batch", "--quantum-ms", "10", "--", "true", ":::", "true"],
        ["--quantum-ms", "0", "--", "true", ":::", "true"],
        ["--quantum-ms", "nan", "--", "true", ":::", "true"],
        ["--processes", "0", "--", "true", ":::", "true"],
        ["--processes", "5000", "--", "true", ":::", "true"],
        ["--output", os.devnull, "--", "true", ":::", "true"],
        ["--pid", "-1", "--", "true"],
        ["--pid", str(os.getpid()), "--", "true"],
        ["--pid", "x"],
    ],
)
def test_what_cannot_be_carried_out_is_refused_before_anything_starts(words, capsys, monkeypatch):
    monkeypatch.setattr("coordinator.host.launch.start", lambda *ignored: pytest.fail("it has started"))
    assert cli.main(["turns", *words]) == 2
    assert "lockstep" in capsys.readouterr().err


def test_a_program_that_is_not_there_ends_turns_as_a_shell(capsys, monkeypatch):
    monkeypatch.setattr("coordinator.host.launch.start", lambda *ignored: pytest.fail("it has started"))
    assert cli.main(["turns", "--", "true", ":::", "./not there"]) == 127
    assert "the program was not found, or is not executable" in capsys.readouterr().err


@contextmanager
def started(*words, **options):
    """A program that does not outlive the test, whatever the test did."""
    program = subprocess.Popen(words, process_group=0, **options)
    try:
        yield program
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def refused(pids):
    with pytest.raises(InputError) as error:
        turns.check_roots(pids)
    return error.value.rule


THREADS = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); print(flush=True)"


@pytest.mark.slow
def test_only_the_roots_of_running_jobs_can_take_turns():
    shell = "sleep 60 & wait"
    out = {"stdout": subprocess.PIPE}
    with started("sh", "-c", shell) as one, started(sys.executable, "-c", THREADS, **out) as threaded:
        child = eventually(lambda: next(children(one.pid), 0))
        turns.check_roots([one.pid, threaded.pid])
        assert "cannot be named with" in refused([one.pid, child]) and "named twice" in refused(
            [one.pid, one.pid]
        )
        threaded.stdout.readline()
        threads = {int(path.name) for path in Path(f"/proc/{threaded.pid}/task").iterdir()} - {threaded.pid}
        assert "is not a running program" in refused(
            [threads.pop()]
        ) and "is not a running program" in refused([2])
        assert "has started this" in refused([os.getppid()])
        os.kill(child, signal.SIGSTOP)
        assert eventually(lambda: state(child) == "T")
        assert f"its process {child} is stopped" in refused([one.pid])
        threaded.kill()
        assert eventually(lambda: state(threaded.pid) == "Z")
        assert "is not a running program" in refused([threaded.pid])


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="takes a second user")
def test_the_job_of_another_user_is_refused(monkeypatch):
    with started("sleep", "60", user=NOBODY) as one:
        turns.check_roots([one.pid])
        monkeypatch.setattr(os, "getuid", lambda: NOBODY + 1)
        assert refused([one.pid]) == "is not yours, but another user's"


@pytest.mark.slow
@needs_two
def test_commands_say_what_they_write_and_the_worst_status_is_ours(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONLY_THEIRS", "x y")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    late = "sh -c 'sleep .2; printf late' & exit 3"
    (tmp_path / "all").write_text(
        f'sh -c "{late}"\n# none\necho "$ONLY"\nsh -c "echo $ONLY_THEIRS; kill -9 $$"\n'
    )
    assert cli.main(["turns", "--file", "all"]) == 137
    output = capfd.readouterr()
    assert sorted(output.out.splitlines()) == ["echo: $ONLY", "sh-1: late", "sh-3: x y"]
    assert "sh-1 exited with status 3" in output.err and "sh-3 exited with status 137" in output.err
    assert cli.main(["turns", "--json", "-o", "out", "--", "printf", "a b", ":::", "sh -c 'echo c >&2'"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [one["status"] for one in document["programs"]] == [0, 0]
    assert all(one["seconds"] > 0 and one["cpu_s"] > 0 for one in document["programs"])
    assert (tmp_path / "out/printf.out").read_text() == "a b" and (
        tmp_path / "out/sh.err"
    ).read_text() == "c\n"
    assert everything_in(tmp_path / "lockstep-0") == []


def shares(pids, seconds):
    """How often none, one, or several of some processes may run, at many instants."""
    end = time.monotonic() + seconds
    samples = []
    while time.monotonic() < end:
        samples.append(sum(state(pid) != "T" for pid in pids))
        time.sleep(0.003)
    return [samples.count(number) / len(samples) for number in range(len(pids) + 1)]


@contextmanager
def attached(tmp_path, count=2, seconds=60, *more, **options):
    """Spinning programs, and a Lockstep that has them take turns; yields it and their pids."""
    spin = (sys.executable, "-c", SPIN.format(seconds))
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    with started(*spin) as one, started("sh", "-c", '"$@"; true', "sh", *spin) as other:
        child = eventually(lambda: next(children(other.pid), 0))
        words = [*LOCKSTEP, *more, "--quantum-ms", "50", "--pid", str(one.pid), "--pid", str(other.pid)]
        with started(*words, env=environment, stderr=subprocess.PIPE, text=True, **options) as lockstep:
            assert eventually(lambda: "T" in (state(one.pid), state(child)), 20)
            yield lockstep, (one.pid, child)


def go_on(pids):
    """Whether processes use their processors, and none of them is stopped."""

    def used():
        return [sum(map(int, text(f"/proc/{pid}/stat").rpartition(")")[2].split()[11:13])) for pid in pids]

    assert eventually(lambda: all(state(pid) in ("R", "S") for pid in pids), 20), [state(pid) for pid in pids]
    before = used()
    return eventually(lambda: all(a > b for a, b in zip(used(), before, strict=True)), 20)


def parts(lockstep):
    return [pid for one in children(lockstep.pid) for pid in (one, *children(one))]


@pytest.mark.slow
def test_running_jobs_take_turns_and_go_on_while_it_is_suspended_and_after_an_interrupt(tmp_path):
    with attached(tmp_path) as (lockstep, pids):
        none, one, both = shares(pids, 1.0)
        assert one > 0.5, (none, one, both)  # on a busy host, it takes time to stop
        lockstep.send_signal(signal.SIGTSTP)
        assert eventually(lambda: state(lockstep.pid) == "T", 20) and go_on(pids)
        assert shares(pids, 0.2)[2] == 1
        lockstep.send_signal(signal.SIGCONT)
        assert eventually(lambda: shares(pids, 0.3)[1] > 0.5, 20)
        lockstep.send_signal(signal.SIGINT)
        assert lockstep.wait(20) == 130 and "continue" in lockstep.stderr.read()
        assert go_on(pids) and shares(pids, 0.2)[2] == 1
        assert everything_in(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", ["harness", "coordinator.node.agent"])
def test_running_jobs_survive_a_kill(tmp_path, part):
    with attached(tmp_path) as (lockstep, pids):
        found = [lockstep.pid, *parts(lockstep)]
        os.kill(next(pid for pid in found if part in command(pid)), signal.SIGKILL)
        lockstep.wait(30)
        assert go_on(pids)
        assert eventually(lambda: everything_in(tmp_path) == [], 20)


@pytest.mark.slow
def test_clean_lets_jobs_go_on_after_all_parts_were_killed_at_once(tmp_path, monkeypatch):
    with attached(tmp_path) as (lockstep, pids):
        everyone = [lockstep.pid, *parts(lockstep)]
        for pid in everyone:
            os.kill(pid, signal.SIGSTOP)
        while all(state(pid) != "T" for pid in pids):
            time.sleep(0.01)
        for pid in everyone:
            os.kill(pid, signal.SIGKILL)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        lockstep.wait()
        told = "\n".join(cleanup.clean())
        assert "continued 3 processes of others" in told
        assert go_on(pids) and everything_in(tmp_path) == []


@pytest.mark.slow
def test_a_job_that_somebody_else_has_stopped_is_not_continued_at_the_end(tmp_path):
    """It is alone, so that no turn continues it."""
    with attached(tmp_path) as (lockstep, (one, other)):
        os.kill(other, signal.SIGKILL)
        assert eventually(lambda: state(one) == "R" and shares([one], 0.2)[1] == 1, 20)
        os.kill(one, signal.SIGSTOP)
        line = next(line for line in lockstep.stderr if "has stopped" in line)  # behind others, of other runs
        assert f"has stopped rank 0 of job 0 (process {one})" in line
        lockstep.send_signal(signal.SIGINT)
        assert lockstep.wait(20) == 130 and state(one) == "T"


@pytest.mark.slow
def test_processes_that_outlive_the_first_one_take_turns_until_they_have_ended(tmp_path):
    """The first process of a command leaves two behind, each in another session."""
    spin = tmp_path / "spin.py"
    spin.write_text("import os; os.write(1, b'%d\\n' % os.getpid())\n" + SPIN.format(2.5))
    program = f"{sys.executable} {spin}"
    leaves = f"{program} & setsid {program} & sleep .7"
    words = ["--quantum-ms", "50", "--", "sh", "-c", leaves, ":::", *program.split()]
    with started(*LOCKSTEP, *words, stdout=subprocess.PIPE, text=True) as lockstep:
        answers = (lockstep.stdout.readline().split(": ") for _ in range(3))
        own, other = sorted({name: int(pid) for name, pid in answers}.items(), reverse=True)
        time.sleep(1.0)
        assert shares([own[1], other[1]], 0.3)[2] < 0.5
        assert lockstep.wait(30) == 0
        assert state(own[1]) in ("", "Z")


@pytest.mark.slow
def test_a_reader_that_does_not_read_holds_up_nobody_but_the_writer(tmp_path):
    done = tmp_path / "done"
    words = ["--quantum-ms", "20", "--", "yes", ":::", f"sh -c 'sleep .2; touch {done}'"]
    with started(*LOCKSTEP, *words, stdout=subprocess.PIPE) as lockstep:
        assert eventually(done.exists, 20) and lockstep.poll() is None
        lockstep.stdout.read(1000)
        lockstep.stdout.close()
        assert lockstep.wait(20) == 141  # yes has found its pipe closed


@pytest.mark.slow
def test_under_batch_one_begins_when_the_other_has_ended(tmp_path):
    note = "import time, sys; a = time.time(); time.sleep(.3); print(a, time.time())"
    words = ["--policy", "batch", "--", *([sys.executable, "-c", note, ":::"] * 3)[:-1]]
    output = subprocess.run([*LOCKSTEP, *words], stdout=subprocess.PIPE, text=True, check=True).stdout
    spans = sorted(tuple(map(float, line.split()[1:])) for line in output.splitlines())
    assert len(spans) == 3 and all(end <= begin for (_, end), (begin, _) in pairwise(spans))


@pytest.mark.slow
@needs_two
def test_a_job_that_has_ended_before_it_can_be_taken_over_is_no_failure():
    ended = subprocess.Popen(["sleep", "60"])
    name = identity.name(ended.pid)
    ended.kill()
    ended.wait()
    chosen = turns.scheduler("gang", running=True)
    result = run_workload(
        turns.workload([name, name], chosen, two_processors(), None), None, NoLauncher("", "")
    )
    assert result.failure == "" and [job.finish_ns for job in result.jobs] == [None, None]


@pytest.mark.slow
@needs_two
def test_a_line_says_what_runs_and_one_each_minute_how_far(monkeypatch, capfd):
    monkeypatch.setattr("harness.commands.turns.STANDING_S", 0.2)
    assert cli.main(["turns", "--quantum-ms", "50", "--", "sleep 1", ":::", "true"]) == 0
    begun, *later = [line for line in capfd.readouterr().err.splitlines() if line.startswith("lockstep: ")]
    assert begun == "lockstep: 2 jobs in 50 ms slots; Ctrl-C ends"
    assert "lockstep: after 0 min, CPU time: sleep 0 s, true has ended" in later


@pytest.mark.slow
@needs_two
def test_a_launcher_that_waits_for_ever_is_ended(tmp_path):
    if "hydra" not in run([*launcher("here"), "--version"]).stdout.lower():
        pytest.skip("the launcher has no proxies")
    job = shlex.join([*launcher("here"), "-n", "2", "sleep", "300"])
    words = [*LOCKSTEP, "--quantum-ms", "20", "--", job, ":::", "sleep 1"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as ours:
        proxy, ranks = eventually(lambda: proxy_and_ranks(ours.pid), 60)
        for pid in (proxy, ranks[0]):
            os.kill(pid, signal.SIGKILL)
        _, errors = ours.communicate(timeout=60)
    assert ours.returncode == 137
    assert "waits for processes that were killed" in errors and "exited with status 0" in errors
    assert all(state(pid) in ("", "Z") for pid in ranks)


@pytest.mark.slow
@needs_two
def test_a_launcher_is_not_signalled_and_tells_nothing_of_turns(compiled, monkeypatch, capfd):
    """Open MPI's prints a line for each SIGCONT that it passes on."""
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    job = shlex.join([*launcher("openmpi"), "-n", "2", compiled("openmpi", "bsp.c"), "5000", ".25", "100"])
    assert cli.main(["turns", "--", job, ":::", job]) == 0
    output = capfd.readouterr()
    assert "orwarding" not in output.err + output.out
