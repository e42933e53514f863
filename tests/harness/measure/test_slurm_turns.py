"""Turns of Slurm's jobs: which are refused, the slots of each, and which of a job's processes are stopped."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_commands import fake_commands
from runs import eventually, state, text

from coordinator.drive.agents import start_elsewhere
from coordinator.host import identity, job_steps, launch, processes
from coordinator.host.environment import STEP
from coordinator.host.job_steps import JobSteps, root_of
from coordinator.host.launchers import JobStep
from coordinator.host.processes import children, name_of
from harness import cli
from harness.commands import turns as turns_command
from harness.measure import slurm_turns
from harness.measure.slurm_turns import Named, SlurmTurns, Watched, check, groups_of, rows_of, tables
from harness.spec import turns
from slurm import client, partition
from slurm.job import Standing
from workloads.validation import InputError

MINE = os.getuid()


SCONTROL = f"""case "$*" in
*"show config") echo "PreemptMode = GANG,SUSPEND"; echo "SlurmUser  = some.one({MINE})";;
*"partition gang") echo "PartitionName=gang Default=NO OverSubscribe=FORCE:4 PreemptMode=OFF";;
*"partition off") echo "PartitionName=off Default=NO OverSubscribe=NO PreemptMode=OFF";;
*"partition yes") echo "PartitionName=yes Default=NO OverSubscribe=YES:4 PreemptMode=OFF";;
*"partition one") echo "PartitionName=one Default=NO OverSubscribe=FORCE:1 PreemptMode=OFF";;
*"job 5") echo "JobId=6 ArrayJobId=5 JobName=a"
    echo "     Nodes=n1 CPU_IDs=9 Mem=0 GRES="
    echo "JobId=5 ArrayJobId=5 JobName= Nodes=n1 CPU_IDs=8 Mem=0"
    echo "     Nodes=n[1-2] CPU_IDs=0,2-3 Mem=0 GRES="
    echo "     Nodes=n[3-4] CPU_IDs=7 Mem=0 GRES="
    echo "   Comment= Nodes=n1 CPU_IDs=6 Mem=0"
    echo "     Nodes=n[1-65536] CPU_IDs=0-65535- Mem=0";;
*) echo "$4 not found"; exit 1;;
esac"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A Slurm that knows jobs 1 to 9, by scripts; returns what srun was asked."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    table = f"""case "$*" in
*"-j 1 "*) echo "1|1|RUNNING|{MINE}|n[1-2]";;
*"-j 2 "*) echo "2|2|RUNNING|{MINE}|n2";;
*"-j 3 "*) echo "3|3|PENDING|{MINE}|";;
*"-j 4 "*) echo "4|4|COMPLETED|{MINE}|n1";;
*"-j 5 "*) echo "6|5_1|RUNNING|{MINE}|n1"; echo "5|5_2|RUNNING|{MINE}|n1";;
*"-j 6 "*) echo "6|5_1|RUNNING|{MINE}|n1";;
*"-j 7 "*) echo "7|7+0|RUNNING|{MINE}|n1"; echo "8|7+1|RUNNING|{MINE}|n2";;
*"-j 9 "*) echo "9|9|RUNNING|{MINE + 1}|n1";;
*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1;;
esac"""
    fake_commands(tmp_path, squeue=table, srun=f"echo $* >> {tmp_path}/started; exit 1", scontrol=SCONTROL)
    return tmp_path / "started"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("3", "does not run (PENDING)"),
        ("4", "has ended (COMPLETED)"),
        ("5", "is a job array"),
        ("6", "is a job array"),
        ("7", "is a heterogeneous job"),
        ("10", "is not a job that Slurm knows"),
        ("5_2", "must be the number of a job"),
        ("-1", "must be the number of a job"),
        ("1", "cannot be named twice"),
        pytest.param(
            "9", "is not yours", marks=pytest.mark.skipif(MINE == 0, reason="root may name every job")
        ),
    ],
)
def test_jobs_that_cannot_take_turns_are_refused(site, capsys, name, rule):
    assert cli.main(["turns", "--slurm", "1", f"--slurm={name}"]) == 2
    err = capsys.readouterr().err
    assert rule in err and len(err.splitlines()) == 1 and not site.exists()


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--watch", "none"], "is not a partition of this cluster"),
        (["--watch", "-a"], "is not a partition of this cluster"),
        (["--watch", ""], "is not a partition of this cluster"),
        (["--watch", "off"], "must be a partition with OverSubscribe=FORCE:n, and has NO"),
        (["--watch", "yes"], "and has YES:4"),
        (["--watch", "one"], "and has FORCE:1"),
        (["--watch", "gang", "--slurm", "1"], "cannot be combined with --watch"),
        (["--watch", "gang", "--pid", "1"], "cannot be combined with --pid"),
        (["--watch", "gang", "--hosts", "a:1"], "cannot be combined with --hosts"),
        (["--watch", "gang", "--", "true"], "cannot be combined with COMMAND"),
        (["--watch", "gang", "--policy", "none"], "cannot choose nodes"),
    ],
)
def test_partitions_that_cannot_be_watched_are_refused(site, capsys, words, rule):
    if words[1] in ("-a", ""):
        words = [f"--watch={words[1]}"]
    assert cli.main(["turns", *words]) == 2
    err = capsys.readouterr().err
    assert rule in err and len(err.splitlines()) == 1 and not site.exists()


def test_only_root_and_slurmuser_watch(site, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: MINE + 2)
    with pytest.raises(InputError, match="by root or SlurmUser only"):
        Watched("gang")


def test_without_slurm_nothing_is_watched(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="there is no srun here"):
        Watched("gang")


def test_a_partition_is_read(site):
    assert partition.sharing("gang") == (True, 4, "FORCE:4", True, MINE)
    assert partition.sharing("none")[:3] == (False, 0, "")


def test_processors_of_a_job_are_read_from_its_own_line(site):
    two = [f"{node}/{cpu}" for node in ("n1", "n2") for cpu in (0, 2, 3)]
    assert client.processors("5", ["n1", "n2", "n3"]) == (*two, "n3/7")
    assert client.processors("5", ["n9"]) == ()


def test_a_watch_asks_once_for_the_processors_of_an_allocation(site, monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_JOB_ID", "11")
    row = f"RUNNING|{MINE}"
    lines = [f"5|4_2|{row}|n1", f"7|7+0|{row}|n1", f"11|11|{row}|n1", f"12|12|{row}|n2", "welcome"]
    asked = tmp_path / "asked"
    table = "\n".join(f"echo '{line}'" for line in lines)
    fake_commands(tmp_path, squeue=f"echo $* >> {asked}\n{table}")
    fake_commands(tmp_path, scontrol=f"echo $* >> {asked}\n{SCONTROL}")
    watched = Watched("gang")
    assert [job.id for job in watched.first] == ["5", "12"]
    assert watched.first[0].processors == ("n1/0", "n1/2", "n1/3") and watched.first[1].processors == ()
    asked.unlink()
    assert watched.ask() == watched.first
    lines = asked.read_text().splitlines()
    assert "-p gang" in lines[0] and "RUNNING,SUSPENDED,STOPPED" in lines[0]
    assert lines[1:] == ["-d show job 12"]  # what could not be told is asked again


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--slurm", "1"], "must be at least 2 jobs"),
        (["--slurm", "1", "--slurm", "2", "--pid", "1"], "cannot be combined with --pid"),
        (["--slurm", "1", "--slurm", "2", "--", "true"], "cannot be combined with COMMAND"),
        (["--slurm", "1", "--slurm", "2", "--hosts", "a:1"], "cannot be combined with --hosts"),
        (["--slurm", "1", "--slurm", "2", "--policy", "gang fill=jobs"], "cannot choose nodes"),
        (["--slurm", "1", "--slurm", "2", "--policy", "batch", "--quantum-ms", "9"], "cannot be combined"),
    ],
)
def test_words_that_do_not_fit_are_refused(site, capsys, words, rule):
    assert cli.main(["turns", *words]) == 2
    assert rule in capsys.readouterr().err and not site.exists()


def test_the_job_around_the_command_is_refused(site, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    with pytest.raises(InputError, match="in which this command runs"):
        check(["1", "2"])


def test_another_users_job_is_told_by_its_owner(site, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: MINE + 2)
    with pytest.raises(InputError, match=f"not yours, but of user {MINE}"):
        check(["1", "2"])


def test_without_slurm_there_is_one_line(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    assert cli.main(["turns", "--slurm", "1", "--slurm", "2"]) == 2
    assert "there is no srun here" in capsys.readouterr().err


def test_squeue_is_read(site):
    assert client.standings(["1"]) == [Standing("1", "1", "RUNNING", MINE, ("n1", "n2"))]
    assert client.standings(["10"]) == []
    assert [job.nodes for job in client.standings(["3"])] == [()]


def test_jobs_on_a_node_never_share_a_slot_and_idle_nodes_are_filled():
    jobs = [("1", ("a", "b")), ("2", ("a",)), ("3", ("b",)), ("4", ("c",))]
    assert rows_of(jobs) == [{"1", "4"}, {"2", "3", "4"}]
    assert rows_of([("1", ("a",)), ("2", ("b",))]) == [{"1", "2"}]


def test_groups_share_nothing_with_each_other():
    a, b, c, d = ("1", ("n/0",)), ("2", ("n/1",)), ("3", ("n/0", "m/0")), ("4", ("m/0", "n/1"))
    assert groups_of([a, b]) == [(a,), (b,)]
    assert groups_of([a, b, c]) == [(b,), (a, c)]
    assert groups_of([a, b, c, d]) == [(b, a, c, d)]


def test_free_slots_are_divided_among_those_that_fit():
    jobs = [("1", ("a", "b")), ("2", ("a", "b")), ("3", ("a",)), ("4", ("a",)), ("5", ("b",))]
    rows = rows_of(jobs)
    assert rows == [{"1"}, {"2"}, {"3", "5"}, {"4", "5"}]
    pairs = [("1", ("a",)), ("2", ("a",)), ("3", ("a", "b")), ("4", ("b",)), ("5", ("b",)), ("6", ("a",))]
    slots = [sum(job in row for row in rows_of(pairs)) for job, _ in pairs]
    assert max(slots) <= 2


class Played:
    """Jobs of a lasting set that has these standings."""

    def __init__(self, *first, lasting=True):
        self.first = first
        self.lasting = lasting

    def ask(self):
        return self.first


def job(name, *processors, state="RUNNING"):
    return Standing(name, name, state, MINE, tuple({one.split("/")[0] for one in processors}), processors)


class Recorded(SlurmTurns):
    """Turns without agents: who would have one."""

    def turn(self, *jobs, now_ns=0):
        self._follow(jobs, now_ns)
        self._drop(now_ns)
        self._tidy(now_ns)
        self._share_out(now_ns)
        self.started = []
        self._start(now_ns)
        return self.started

    def _lost(self, place, job, node, reason, now_ns):
        self.started.append((job, node))


@pytest.fixture
def recorded(monkeypatch):
    def none(*args):
        raise OSError

    monkeypatch.setattr(slurm_turns, "_Agent", none)
    turns = Recorded(Played(), 10**8, print, print)
    turns._loop = None
    return turns


def test_agents_start_where_jobs_share_processors_only(recorded):
    one, other, third = job("1", "n/0"), job("2", "n/1"), job("3", "n/1", "m/0")
    assert recorded.turn(one) == [] and recorded.turn(one, other) == []
    assert recorded.turn(one, other, third) == [("2", "n"), *(("3", node) for node in third.nodes)]
    assert [(row["name"], row["turns"]) for row in recorded.state(0)["jobs"]] == [
        ("1", "alone"),
        ("2", "begins"),
        ("3", "begins"),
    ]
    suspended = job("3", "n/1", "m/0", state="SUSPENDED")
    assert recorded.turn(one, other, suspended) == []
    assert [row["turns"] for row in recorded.state(0)["jobs"]] == ["alone", "alone", None]


@pytest.mark.parametrize("state", ["SUSPENDED", "STOPPED"])
def test_jobs_count_by_nodes_while_processors_of_one_are_unknown(recorded, state):
    known = job("1", "n/0"), job("2", "n/1")
    unknown = Standing("3", "3", "RUNNING", MINE, ("n",))
    assert recorded.turn(*known) == []
    assert recorded.turn(*known, unknown) == [(name, "n") for name in "123"]
    assert recorded.turn(*known, replace(unknown, state=state)) == []  # which Slurm alone may continue
    assert recorded.turn(*known, replace(unknown, state="SIGNALING")) != []


def test_tables_of_a_group_stay_while_other_groups_change(recorded):
    pair = job("1", "n/0"), job("2", "n/0")
    recorded.turn(*pair, now_ns=1)
    (tables_of_pair,) = recorded._groups.values()
    recorded.turn(*pair, job("3", "m/0"), now_ns=2)
    assert next(iter(recorded._groups.values())) is tables_of_pair
    recorded.turn(*pair, job("3", "n/0"), now_ns=3)
    (all_three,) = recorded._groups.values()
    assert {table.from_ns for table in all_three.values()} == {3 + slurm_turns.LEAD_NS}


def test_jobs_that_end_are_forgotten_unless_they_were_named(recorded):
    recorded.turn(job("1", "n/0"), job("2", "n/0"))
    recorded.turn(job("2", "n/0"), now_ns=5)
    assert [*recorded.shares] == ["2"] and {name for name, _ in recorded._places} == {"2"}
    recorded.turn(now_ns=6)
    assert not recorded.shares and recorded.open
    named = Recorded(Played(job("1"), lasting=False), 10**8, print, print)
    named.turn(job("3"))
    assert [*named.shares] == ["1"] and not named.open


def test_what_lost_agents_leave_is_removed_once_it_is_old(recorded, monkeypatch):
    removed = []
    monkeypatch.setattr(slurm_turns.cleanup, "release", removed.append)

    class Directory:
        def unlock(self):
            removed.append(None)

    first, second = Directory(), Directory()
    recorded._left = [("1", first, 10), ("2", second, 10)]
    recorded.turn(job("1", "n/0"), job("2", "n/1", state="SUSPENDED"), now_ns=9)
    assert not removed
    recorded.turn(job("1", "n/0"), job("2", "n/1", state="SUSPENDED"), now_ns=10)
    assert removed == [first, None]
    recorded.turn(job("1", "n/0"), job("2", "n/1"), now_ns=11)
    assert removed == [first, None, second, None] and not recorded._left


def test_a_turn_removes_what_one_agent_has_left(recorded, monkeypatch):
    removed = []
    monkeypatch.setattr(slurm_turns.cleanup, "release", removed.append)
    recorded._left = [("1", SimpleNamespace(unlock=int), 0) for _ in range(3)]
    for count in (1, 2, 3, 3):
        recorded.turn(now_ns=1)
        assert len(removed) == count


def test_named_jobs_are_asked_about_by_their_numbers(site):
    named = Named(check(["1", "2"]))
    assert [one.id for one in named.first] == ["1", "2"] and not named.lasting


def test_the_state_in_words():
    jobs = [{"turns": how, "state": "SUSPENDED"} for how in ("takes turns", "alone", None, "takes turns")]
    state = {"seconds": 59.9, "silent_s": 2.0, "jobs": jobs}
    assert turns_command._in_words(state) == "after 1 min, jobs: 1 alone, 1 suspended, 2 takes turns"
    state = {"seconds": 130, "silent_s": 70.2, "jobs": []}
    assert turns_command._in_words(state) == "after 2 min, jobs: none; no answer of Slurm for 70 s"


def test_tables_alternate_and_a_lone_job_runs_without_end():
    two = tables([("1", ("a",)), ("2", ("a",))], 5, 7)
    assert {table.lengths_ns for table in two.values()} == {(5, 5)}
    assert [table.runs for table in two.values()] == [(((0,),), ((),)), (((),), ((0,),))]
    assert not any(table.flaw() for table in two.values())
    assert tables([("1", ("a",))], 5, 7)["1"].lengths_ns == (None,)
    batch = tables([("1", ("a",)), ("2", ("a",))], None, 7)
    assert [table.runs for table in batch.values()] == [(((0,),),), (((),),)]
    assert (
        turns.quantum_of_jobs("batch") is None and turns.quantum_of_jobs("gang quantum_ms=20") == 20_000_000
    )


def test_an_agent_is_a_step_of_its_job_without_marks(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "3")
    monkeypatch.setenv("SLURM_CONF", "/conf")
    launcher = JobStep("/usr/bin/srun", "", job="7")
    argv = launcher.argv(1, ["agent"], ["n1"])
    assert {"--jobid=7", "--overlap", "--nodelist=n1", "--mem=0"} <= set(argv) and argv[-1] == "agent"
    given = []
    monkeypatch.setattr(launch, "start", lambda words, variables, *files, **more: given.append(variables))
    directory = SimpleNamespace(marks={"LOCKSTEP_RUN": "x"}, log=Path)
    start_elsewhere(directory, SimpleNamespace(encode=str), launcher, ["n1"], [0])
    (environment,) = given
    assert environment[STEP] == "7" and "LOCKSTEP_RUN" not in environment
    assert {name for name in environment if name.startswith("SLURM_")} == {"SLURM_CONF"}


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="plays a batch shell")
def test_an_agent_in_a_job_of_another_user_runs_as_that_user():
    (other, *_) = (one for one in pwd.getpwall() if one.pw_uid != MINE)
    step = {"path": "/usr/bin/srun", "version": "", "job": "7"}
    own, theirs, unknown = (JobStep(**step, user=user) for user in (MINE, other.pw_uid, 2**31 - 7))
    words = theirs.argv(1, ["agent"], ["n1"])
    srun = words.index("/usr/bin/srun")
    assert words[srun:] == own.argv(1, ["agent"], ["n1"]) == unknown.argv(1, ["agent"], ["n1"])
    ids = [f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}"]
    assert words[:srun] == ["setpriv", *ids, "--init-groups", "--"]
    environment = theirs.environment({}, {"HOME": "/root", "USER": "root"}, hosts=["n1"])
    assert (environment["HOME"], environment["USER"]) == (other.pw_dir, other.pw_name)
    assert own.environment({}, {"HOME": "/own"}, hosts=["n1"])["HOME"] == "/own"


def test_all_but_the_waiting_shell_and_launchers_may_be_stopped(tmp_path, monkeypatch):
    """A program under a batch shell, one that comes later, a launcher, and a step of ours."""
    for name in ("slurmstepd", "srun"):
        shutil.copy("/bin/sleep", tmp_path / name)
    shutil.copy("/bin/bash", tmp_path / "bash")
    groups = {name: tmp_path / "job_7" / name / "user" for name in ("step_batch", "step_0", "step_extern")}
    monkeypatch.setattr(job_steps.mechanisms, "cgroup_base", lambda controller="": groups["step_0"])
    for group in groups.values():
        group.mkdir(parents=True)
    programs = []

    def start(step, *words, **variables):
        program = subprocess.Popen(words, env=os.environ | variables)
        programs.append(program)
        with (groups[step] / "cgroup.procs").open("a") as file:
            file.write(f"{program.pid}\n")
        return program.pid

    monkeypatch.setattr(
        job_steps, "name_of", lambda pid: "slurmstepd" if pid == os.getpid() else name_of(pid)
    )
    steps = JobSteps(root_of("7"))
    try:
        shell = start("step_batch", str(tmp_path / "bash"), "-c", "sleep 60; true")
        work = start("step_batch", sys.executable, "-c", "import time; time.sleep(60)")
        start("step_batch", str(tmp_path / "srun"), "60")
        start("step_0", str(tmp_path / "slurmstepd"), "60")
        start("step_extern", "sleep", "60")
        steps.heirs += steps.new()
        assert {heir.pid for heir in steps.heirs} == {work} and shell
        assert not list(steps.new())  # it is too soon to look again
        later = start("step_0", "sleep", "60")
        monkeypatch.setattr(job_steps, "SHARE", 0)
        steps._due_s = 0.0
        steps.heirs += steps.new()
        assert {heir.pid for heir in steps.heirs} == {work, later}
        programs[1].kill()
        programs[1].wait()
        steps.heirs += steps.new()
        assert {heir.pid for heir in steps.heirs} == {later}
    finally:
        for program in programs:
            program.kill()
            program.wait()
        for heir in steps.heirs:
            heir.close()
        steps.close()


def test_a_step_of_our_own_is_left_alone(tmp_path, monkeypatch):
    group = tmp_path / "job_7" / "step_1"
    group.mkdir(parents=True)
    monkeypatch.setattr(job_steps.mechanisms, "cgroup_base", lambda controller="": group)
    with subprocess.Popen(["sleep", "60"], env=os.environ | {STEP: "7"}) as program:
        (group / "cgroup.procs").write_text(f"{program.pid}\n")
        steps = JobSteps(root_of("7"))
        assert list(steps.new()) == []
        steps.close()
        program.kill()


SPIN = (
    "import sys, time\nend = time.process_time() + float(sys.argv[1])\nwhile time.process_time() < end: pass"
)


class PlayedSlurm:
    """Jobs on this host, each under a process that looks like a slurmstepd; srun and squeue are scripts."""

    def __init__(self, folder):
        self.folder = folder
        self.jobs = {}
        self.states = {}
        shutil.copy("/bin/bash", folder / "slurmstepd")
        srun = f"""#!/bin/bash
for word; do case $word in --jobid=*) job=${{word#*=}};; esac; done
while [[ $1 == --* ]]; do shift; done
exec -a "slurmstepd: [$job.9]" {folder}/slurmstepd -c '"$@"; :' x "$@"
"""
        (folder / "srun").write_text(srun)
        (folder / "srun").chmod(0o700)
        partition = "PartitionName=gang OverSubscribe=FORCE:4"
        held = f"sed -n 's/^'$4' //p' {folder}/held"
        config = f'echo "SlurmUser = me({MINE})"'
        shown = f'case "$*" in *config) {config};; *gang) echo {partition};; *) {held};; esac'
        fake_commands(folder, squeue=f"cat {folder}/table", scontrol=shown)
        self.environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(folder)}

    def start(self, job, seconds, step="0", cpu=0):
        with (self.folder / "held").open("a") as file:
            file.write(f"{job} JobId={job} JobName=x\n{job}      Nodes=localhost CPU_IDs={cpu} Mem=0 GRES=\n")
        words = [
            f"slurmstepd: [{job}.{step}]",
            "-c",
            '"$@" & wait $!',
            "x",
            sys.executable,
            "-c",
            SPIN,
            seconds,
        ]
        program = subprocess.Popen([*words[:-1], str(seconds)], executable=self.folder / "slurmstepd")
        self.jobs.setdefault(job, []).append(program)
        self.set(job, "RUNNING")

    def set(self, job, state):
        self.states[job] = state
        lines = [f"{one}|{one}|{its}|{MINE}|localhost\n" for one, its in self.states.items()]
        (self.folder / "new").write_text("".join(lines))
        (self.folder / "new").rename(self.folder / "table")

    def leave(self, job):
        """The processes of a job have ended, and Slurm no longer knows it."""
        for program in self.jobs.pop(job):
            processes.end_family(program.pid, 0)
            program.wait()
        del self.states[job]
        self.set(*next(iter(self.states.items())))

    def work(self, job):
        """The pids of a job's programs."""
        return [
            child for program in self.jobs[job] if program.poll() is None for child in children(program.pid)
        ]

    def turns(self, *options):
        named = [word for job in self.jobs for word in ("--slurm", job)]
        return self.lockstep(*named, *options)

    def lockstep(self, *options):
        command = [sys.executable, "-P", "-m", "harness", "turns", *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=self.environment, **pipes)

    def stopped(self, job):
        return any(state(pid) == "T" for pid in self.work(job))

    def seen_stopped(self):
        """The jobs that were stopped at a look."""
        seen = set()
        for _ in range(300):
            seen |= {job for job in self.jobs if self.stopped(job)}
            time.sleep(0.005)
        return seen

    def take_turns(self):
        return self.seen_stopped() == set(self.jobs)


@pytest.fixture
def played(tmp_path, monkeypatch):
    slurm = PlayedSlurm(tmp_path)
    yield slurm
    for programs in slurm.jobs.values():
        for program in programs:
            processes.end_family(program.pid, 0)
            program.wait()


@pytest.mark.slow
def test_played_jobs_take_turns_until_they_end(played):
    played.start("7", 300)
    played.start("8", 300)
    process = played.turns("--quantum-ms", "50")
    assert eventually(played.take_turns, 30)
    played.start("7", 300, step="1")  # a later step
    assert eventually(lambda: len(played.work("7")) == 2, 5)
    time.sleep(1.5)
    first, later = played.work("7")
    looks = [(state(first) == "T", state(later) == "T") for _ in range(200) if not time.sleep(0.005)]
    assert sum(a == b for a, b in looks) > 150 and (True, True) in looks
    for job in ("7", "8"):
        played.set(job, "COMPLETED")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err.count("(COMPLETED)") == 2, err
    assert not any(map(played.stopped, played.jobs))


def agents(job):
    """The processes of a job's agent and of what it has started, from its slurmstepd on."""
    return [
        pid for pid in identity.pids() if text(f"/proc/{pid}/cmdline").startswith(f"slurmstepd: [{job}.9]")
    ]


def whole(pids):
    return [pid for one in pids for pid in (one, *(below.pid for below in processes.descendants(one)))]


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["interrupt", "driver", "agent", "step", "step and interrupt"])
def test_whatever_is_killed_nothing_stays_stopped(played, victim):
    played.start("7", 300)
    played.start("8", 300)
    process = played.turns("--quantum-ms", "50")
    assert eventually(played.take_turns, 30)
    if victim == "agent":
        (agent,) = [pid for one in agents("7") for pid in children(one)]
        os.kill(agent, signal.SIGKILL)
    if victim == "step and interrupt":
        assert eventually(lambda: played.stopped("7"), 5)
    if "step" in victim:
        for pid in whole(agents("7")):
            os.kill(pid, signal.SIGKILL)
    if victim in ("agent", "step"):
        time.sleep(1)
        assert eventually(lambda: agents("7") and played.take_turns(), 30)
        assert process.poll() is None
    process.send_signal(signal.SIGKILL if victim == "driver" else signal.SIGINT)
    _, err = process.communicate(timeout=60)
    if victim != "driver":
        assert process.returncode == 130 and "the jobs continue" in err and "Traceback" not in err, err
    assert eventually(lambda: not agents("7") + agents("8"), 30)
    looks = [any(map(played.stopped, played.jobs)) for _ in range(100) if not time.sleep(0.005)]
    assert not any(looks) and all(map(played.work, played.jobs))


@pytest.mark.slow
def test_a_suspended_job_is_left_alone(played):
    """Slurm's signals: SIGTSTP to all of a job, its agent's step among them, SIGSTOP two seconds later."""
    played.start("7", 300)
    played.start("8", 300)
    process = played.turns("--quantum-ms", "50")
    assert eventually(played.take_turns, 30)
    everything = whole([program.pid for program in played.jobs["7"]] + agents("7"))
    for signum, wait_s in ((signal.SIGTSTP, 2), (signal.SIGSTOP, 0)):
        for pid in everything:
            os.kill(pid, signum)
        played.set("7", "SUSPENDED")
        time.sleep(wait_s)
    (work,) = played.work("7")
    (other,) = played.work("8")
    time.sleep(2)
    looks = [(state(work), state(other)) for _ in range(2000) if not time.sleep(0.006)]
    assert {one for one, _ in looks} == {"T"} and "T" not in {other for _, other in looks}
    for pid in everything:
        os.kill(pid, signal.SIGCONT)
    played.set("7", "RUNNING")
    assert eventually(played.take_turns, 60)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Slurm has suspended job 7" in err and "Slurm has resumed job 7" in err, err
    assert not any(map(played.stopped, played.jobs))


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_jobs_of_a_watched_partition_join_and_leave(played, signum):
    """A job alone, one on another processor, one that comes and goes, another that comes."""
    played.start("7", 300)
    played.start("8", 300, cpu=1)
    process = played.lockstep("--watch", "gang", "--quantum-ms", "50", "--json")
    first = json.loads(process.stdout.readline())
    assert {row["name"]: row["turns"] for row in first["jobs"]} == {"7": "alone", "8": "alone"}
    assert played.seen_stopped() == set() and not agents("7")
    played.start("9", 300)
    assert eventually(lambda: played.seen_stopped() == {"7", "9"}, 30)
    assert not agents("8")
    played.set("9", "COMPLETED")
    played.leave("9")
    assert eventually(lambda: played.seen_stopped() == set(), 30)
    played.start("10", 300, cpu="0-1")
    assert eventually(lambda: played.seen_stopped() == {"7", "8", "10"}, 30)
    process.send_signal(signum)
    _, err = process.communicate(timeout=60)
    if signum != signal.SIGKILL:
        assert process.returncode == 130 and "the jobs continue" in err and "Traceback" not in err, err
    assert eventually(lambda: not [*agents("7"), *agents("8"), *agents("10")], 30)
    assert played.seen_stopped() == set() and all(map(played.work, ("7", "8", "10")))


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--slurm", "7", "--slurm", "8"), ("--watch", "gang")])
def test_a_driver_that_is_killed_at_once_leaves_nothing_stopped(played, options):
    played.start("7", 300)
    played.start("8", 300)
    for after_s in (0.6, 0.9, 1.2, 1.5, 1.8, 2.1):
        process = played.lockstep(*options, "--quantum-ms", "50")
        time.sleep(after_s)
        process.kill()
        process.communicate()
    assert eventually(lambda: not agents("7") + agents("8"), 60)
    assert played.seen_stopped() == set()
