"""``lockstep turns --hosts``: commands take turns on several hosts, and nothing of them stays there."""

import json
import os
import shlex
import signal
import sys
import time

import pytest
from runs import command, eventually, state

from coordinator.workload import FOR_EVER_S, Node
from harness import cli
from harness.spec import turns
from workloads.validation import InputError

TWO = ("--", "true", ":::", "true")
SPIN = "import time; end = time.time() + {}\nwhile time.time() < end: pass"


@pytest.mark.parametrize(
    "words, rule",
    [
        (["--hosts", ""], "must begin with the name of a host"),
        (["--hosts", "a,a"], "cannot name a host a second time"),
        (["--hosts", "a:0"], "must end with a number of processors"),
        (["--hostfile", "empty"], "must name a host"),
        (["--hostfile", "not there"], "cannot be read"),
        (["--hosts", "a", "--pid", "1"], "cannot be combined with --pid"),
        (["--hosts", "a", "--processes", "1"], "cannot be combined with --processes"),
        (["--hostfile", "one", "--processes", "1"], "cannot be combined with --processes"),
        (["--hosts", "a", "--policy", "gang waiting=immediate"], "two-phase"),
    ],
)
def test_hosts_that_cannot_be_used_are_refused_in_a_line(words, rule, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.commands.turns.run_workload", lambda *ignored: pytest.fail("it has begun"))
    (tmp_path / "empty").write_text("# none\n")
    (tmp_path / "one").write_text("a\n")
    assert cli.main(["turns", *words, *TWO]) == 2
    error = capsys.readouterr().err
    assert rule in error and error.count("\n") == 1, error


def on_hosts(*commands, policy="gang quantum_ms=20"):
    nodes = [Node("a", 2), Node("b")]
    chosen = turns.scheduler(policy, running=False)
    return turns.workload_on(nodes, [shlex.split(one) for one in commands], chosen)


def test_a_command_is_a_job_of_its_ranks_on_the_processors_of_its_job():
    found = on_hosts("mpiexec -genv A 1 -n 3 ./one 4", "./two.sh")
    one, two = (job.program for job in found.jobs)
    assert (one.argv, one.processes, one.launcher) == (("./one", "4"), 3, "mpiexec")
    assert one.launcher_options == ("-genv", "A", "1")
    assert (two.argv, two.processes, two.launcher) == (("./two.sh",), 1, "")
    assert (found.processor_count, found.processors) == (3, ()) and found.timeout_s == FOR_EVER_S
    assert found.options.bind == "job"
    assert on_hosts("./one", policy="gang bind=false").options.bind is False


@pytest.mark.parametrize(
    "line, rule",
    [
        ("mpiexec -n 4 ./one", "has 4 ranks, and these hosts have 3 processors"),
        ("mpiexec ./one", "must have -n"),
        ("mpiexec -hosts c -n 2 ./one", "cannot place or bind"),
    ],
)
def test_a_command_that_the_hosts_cannot_run_is_refused(line, rule):
    with pytest.raises(InputError, match=rule) as error:
        on_hosts(line, "true")
    assert error.value.key == "COMMAND"


def started(hosts, *words):
    place = shlex.quote(str(hosts.root))
    lockstep = shlex.join([sys.executable, "-P", "-m", "harness", "turns", *words])
    return hosts.start(["sh", "-c", f"cd {place}; exec {lockstep}"])


@pytest.mark.slow
def test_commands_on_two_hosts_end_with_their_status_and_output(hosts):
    where = ["--hosts", ",".join(hosts.hosts), "--quantum-ms", "20"]
    ranks = "mpiexec -n 2 sh -c 'echo $(hostname) in $PWD; sleep .2; exit 3'"
    # More than fits into a pipe; Python itself loses parts of one large write when it is stopped meanwhile.
    noisy = "sh -c 'head -c 3145728 /dev/zero | tr \\\\0 x'"
    lockstep = started(hosts, *where, "--", ranks, ":::", noisy, ":::", "sh -c 'echo error >&2; exit 7'")
    out, err = lockstep.communicate(timeout=120)
    assert lockstep.returncode == 7, err
    lines = [line for line in out.splitlines() if line.startswith("sh-1")]
    assert sorted(lines) == [f"sh-1: node{number} in {hosts.root}" for number in (1, 2)], lines
    assert sum(line.count("x") for line in out.splitlines() if line.startswith("sh-2")) == 3 << 20
    assert "sh-3: error" in err and "sh-1 exited with status 3" in err
    assert "sh-3 exited with status 7" in err
    assert hosts.as_new
    file = hosts.root / "hosts"
    file.write_text("\n".join(hosts.hosts))
    words = ["--json", "--hostfile", "hosts", "-o", "out", "--", "printf 'a b'", ":::", "sh -c 'exit 5'"]
    lockstep = started(hosts, *words)
    out, err = lockstep.communicate(timeout=120)
    document = json.loads(out)
    assert [one["status"] for one in document["programs"]] == [0, 5] and lockstep.returncode == 5, err
    assert all(one["seconds"] > 0 and one["cpu_s"] is not None for one in document["programs"])
    assert document["failure"] == "" and (hosts.root / "out/printf.out").read_text() == "a b"
    assert hosts.as_new


@pytest.mark.slow
def test_a_host_that_nobody_knows_is_named_before_anything_starts(hosts):
    lockstep = started(hosts, "--hosts", f"{hosts.hosts[0]},nowhere.invalid", *TWO)
    out, err = lockstep.communicate(timeout=60)
    assert lockstep.returncode == 2 and out == ""
    assert "'nowhere.invalid': cannot be reached" in err and err.count("\n") == 1, err


def spinning(hosts):
    """The ranks of the spinning programs by pid, each with the number of its program."""
    found = {}
    for pid in hosts.processes():
        words = command(pid)
        if words[1:2] == ["-c"] and words[2:3] and words[2].startswith("import time; end"):
            found[pid] = int(words[3])
    return found


def driver_of(hosts):
    (pid,) = (pid for pid in hosts.head.processes() if command(pid)[1:5] == ["-P", "-m", "harness", "turns"])
    return pid


@pytest.mark.slow
@pytest.mark.parametrize(
    "signum, status", [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, 247)]
)
def test_programs_take_turns_and_none_stays_stopped_or_running(hosts, signum, status):
    jobs = [f"mpiexec -n 2 {shlex.join([sys.executable, '-c', SPIN.format(120), str(n)])}" for n in (0, 1)]
    where = ["--hosts", ",".join(hosts.hosts), "--quantum-ms", "50"]
    lockstep = started(hosts, *where, "--", jobs[0], ":::", jobs[1])
    ranks = eventually(lambda: len(found := spinning(hosts)) == 4 and found)
    driver = driver_of(hosts)
    os.kill(driver, signal.SIGTSTP)  # does nothing
    assert eventually(lambda: any(state(pid) == "T" for pid in ranks))
    end_s, by_turns = time.monotonic() + 1.0, set()
    while time.monotonic() < end_s:
        by_turns.add(frozenset(ranks[pid] for pid in ranks if state(pid) != "T"))
        time.sleep(0.003)
    assert {frozenset({0}), frozenset({1})} <= by_turns and state(driver) != "T"
    os.kill(driver, signum)
    lockstep.communicate(timeout=60)
    assert lockstep.returncode == status
    assert eventually(lambda: hosts.as_new), (hosts.processes(), hosts.files())
