"""Batch scripts, the states of jobs, and what an allocation says, without any Slurm."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fake_commands import fake_commands
from hypothesis import example, given, settings
from hypothesis import strategies as st
from places import ROOT
from runs import eventually

from slurm.allocation import nodes, per_node
from slurm.command import SlurmError, ask, cleaned
from slurm.job import Ending, JobState, explain, judge
from slurm.script import TASK, Script, word

JOB = {"SLURM_JOB_ID": "7"}


def script(folder, command=("true",), **changes):
    return Script(name="x", directory=str(folder), command=command, **changes)


def started(folder, command, variables=JOB, **changes):
    """The script as Slurm would start it, with a scontrol that notes what it is asked."""
    path = fake_commands(folder, scontrol=f'echo "$@" >> {folder}/asked')
    file = folder / "x.sbatch"
    file.write_text(script(folder, command, **changes).text)
    return subprocess.Popen(["bash", str(file)], env={**os.environ, "PATH": path, **variables})


def left(folder, job="7"):
    file = folder / f"{job}.status"
    return Ending.parse(file.read_text()) if file.exists() else None


def test_options_have_slurms_own_names(tmp_path):
    options = {"nodes": 2, "exclusive": True, "mem": None, "constraint": "big&fast", "requeue": False}
    made = script(tmp_path, options=options, extra=["--gres=gpu:1"], signal_s=90, tasks=4)
    assert made.directives == [
        *("--job-name=x", f"--output={tmp_path}/%A_%a.log", "--open-mode=append", "--signal=B:USR1@90"),
        *("--no-requeue", "--array=1-4", "--nodes=2", "--exclusive", "--constraint=big&fast"),
        "--gres=gpu:1",
    ]
    lines = made.text.splitlines()
    assert lines[0] == "#!/bin/bash"
    assert [line.removeprefix("#SBATCH ") for line in lines[1:11]] == made.directives
    assert lines[11] == ""


def test_a_command_has_each_word_once_and_each_option_on_a_line_of_its_own(tmp_path):
    text = script(tmp_path, ["lockstep", "run", "x.toml", "--seed", "3", "--resume"]).text
    assert "lockstep run x.toml \\\n    --seed 3 \\\n    --resume" in text


PIECES = [" --", "'", '"', "\\", "$(touch x)", "`", "\n", "\r\n", "%j", "#", TASK.value, "\udcff", "~", "a"]
CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
HOSTILE = st.text(CHARACTERS) | st.lists(st.sampled_from(PIECES)).map("".join)


def said_by_bash(line):
    """The words that a line prints, each ended by a NUL, in task 3 of an array."""
    out = subprocess.check_output(["bash", "-c", line], env={"SLURM_ARRAY_TASK_ID": "3"})
    return [os.fsdecode(part) for part in out.split(b"\0")[:-1]]


@pytest.mark.slow
@given(st.lists(HOSTILE, max_size=20))
@settings(deadline=None, max_examples=60)
@example(
    [
        *("a b", "it's", "$HOME", "", " --results x --", "a\nb", "$SLURM_ARRAY_TASK_ID", "\udcff\udc80b"),
        *("\U0001f600", "\x1b[0m", "!x"),
    ]
)
def test_any_value_survives_the_shell(values):
    line = " ".join(["printf", "'%s\\0'", *map(word, [*values, (TASK, *values)])])
    assert said_by_bash(line) == [*values, "3" + "".join(values)]


@pytest.mark.slow
@given(st.lists(HOSTILE, min_size=1, max_size=20))
@settings(deadline=None, max_examples=30)
def test_any_word_of_a_command_survives_a_script(values):
    text = Script(name="x", directory="/tmp", command=["printf", r"%s\0", *values]).text
    at = text.index("\nprintf") + 1
    assert said_by_bash(text[at : text.index(" &\nrun=$!")]) == values
    assert "\r" not in text and text.encode()


@pytest.mark.slow
@given(HOSTILE.filter(lambda text: text.isprintable() and "\\" not in text))
@settings(deadline=None)
@example("0/")
def test_any_printable_directory_survives(text):
    path = Path(f"/{text}")  # without needless slashes
    lines = script(path)
    (output,) = (line for line in lines.directives if line.startswith("--output="))
    assert as_sbatch_reads(output).replace("%%", "%") == f"--output={path}/%j.log".replace("%%", "%")
    line = next(line for line in lines.text.splitlines() if line.startswith("status_file="))
    assert said_by_bash(f"id=7; {line}; printf '%s\\0' \"$status_file\"") == [f"{path}/7.status"]


def as_sbatch_reads(line):
    """The argument that sbatch makes of a line of options: quotes group, a backslash escapes, # ends it."""
    found = ""
    quote = ""
    characters = iter(line)
    for character in characters:
        if character == "\\":
            found += next(characters)
        elif quote:
            quote, found = ("", found) if character == quote else (quote, found + character)
        elif character in "'\"":
            quote = character
        elif character in " #":
            break
        else:
            found += character
    return found


@pytest.mark.parametrize("path", ["/a\nrm -rf x", "/a\\b", "/a\udcff", "/a\rb", "/a\x1b"])
def test_a_directory_or_a_word_that_slurm_cannot_be_told_is_refused(path):
    with pytest.raises(ValueError, match="printable"):
        script(Path(path))
    with pytest.raises(ValueError, match="NUL"):
        word("a\0b")


@pytest.mark.parametrize("status", [0, 2, 130])
def test_setup_lines_come_first_and_the_exit_status_is_kept(tmp_path, status):
    command = ["sh", "-c", f'echo "$GREETING" > {tmp_path}/said; exit {status}']
    assert started(tmp_path, command, setup=["export GREETING=hello"]).wait() == status
    assert (tmp_path / "said").read_text() == "hello\n"
    assert left(tmp_path) == Ending(status)


def test_a_task_of_an_array_keeps_its_own(tmp_path):
    task = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "8", "SLURM_ARRAY_TASK_ID": "2"}
    started(tmp_path, ["sh", "-c", 'exit "$0"', (TASK,)], task, tasks=2).wait()
    assert left(tmp_path, "8_2") == Ending(2)


@pytest.mark.parametrize(
    "variables, resume, words",
    [
        (JOB, None, ""),
        (JOB, False, ""),
        (JOB, True, "--resume"),
        (JOB | {"SLURM_RESTART_COUNT": "1"}, None, ""),
        (JOB | {"SLURM_RESTART_COUNT": "1"}, False, "--resume"),
    ],
)
def test_a_restarted_job_goes_on(tmp_path, variables, resume, words):
    command = ["sh", "-c", f'echo "$@" > {tmp_path}/said', "sh"]
    started(tmp_path, command, variables, resume=resume).wait()
    assert (tmp_path / "said").read_text().strip() == words


OBEDIENT = "trap 'exit 130' TERM; touch ready; while :; do sleep 0.01; done"


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, requeue, ending, asked",
    [
        (signal.SIGUSR1, False, Ending(130, out_of_time=True), ""),
        (signal.SIGUSR1, True, None, "requeue 7\n"),
        (signal.SIGTERM, True, Ending(130), ""),
    ],
)
def test_the_run_is_ended_ahead_of_time(tmp_path, number, requeue, ending, asked):
    command = ["sh", "-c", f"cd {tmp_path}; {OBEDIENT}"]
    job = started(tmp_path, command, requeue=requeue)
    assert eventually((tmp_path / "ready").exists)
    job.send_signal(number)
    assert job.wait(10) == 130
    assert left(tmp_path) == ending
    assert eventually(lambda: (tmp_path / "asked").exists() or not asked)
    assert ((tmp_path / "asked").read_text() if asked else "") == asked


@pytest.mark.slow
def test_a_run_that_finishes_all_the_same_counts(tmp_path):
    command = ["sh", "-c", f"cd {tmp_path}; trap '' TERM; touch ready; sleep 0.3; exit 0"]
    job = started(tmp_path, command, requeue=True)
    assert eventually((tmp_path / "ready").exists)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(10) == 0
    assert left(tmp_path) == Ending(0)
    assert not (tmp_path / "asked").exists()


def test_what_an_earlier_start_left_is_no_evidence(tmp_path):
    (tmp_path / "7.status").write_text("0 \n")
    job = started(tmp_path, ["sleep", "60"])
    assert eventually(lambda: left(tmp_path) is None)
    job.terminate()
    job.wait(10)


@pytest.mark.parametrize(
    "reported, ending, state",
    [
        ("PENDING", None, JobState.PENDING),
        ("REQUEUED", None, JobState.PENDING),
        ("RUNNING", Ending(0), JobState.RUNNING),
        ("COMPLETING", Ending(0), JobState.RUNNING),
        ("COMPLETED", Ending(0), JobState.COMPLETED),
        ("COMPLETED", None, JobState.UNKNOWN),
        ("COMPLETED", Ending(1), JobState.FAILED),
        (None, Ending(0), JobState.COMPLETED),
        (None, Ending(2), JobState.FAILED),
        (None, None, JobState.UNKNOWN),
        ("", None, JobState.UNKNOWN),
        ("SOMETHING_NEW", None, JobState.UNKNOWN),
        ("FAILED", None, JobState.FAILED),
        ("FAILED", Ending(130, True), JobState.TIMEOUT),
        ("CANCELLED by 1000", Ending(130), JobState.CANCELLED),
        ("CANCELLED+", None, JobState.CANCELLED),
        ("NODE_FAIL", None, JobState.NODE_FAIL),
        ("BOOT_FAIL", None, JobState.NODE_FAIL),
        ("OUT_OF_MEMORY", Ending(137), JobState.OUT_OF_MEMORY),
        ("PREEMPTED", None, JobState.PREEMPTED),
        ("TIMEOUT", None, JobState.TIMEOUT),
        ("DEADLINE", None, JobState.TIMEOUT),
        ("REVOKED", None, JobState.RUNNING),
    ],
)
def test_a_job_has_completed_only_with_evidence(reported, ending, state):
    assert judge(reported, ending) is state


def test_every_state_can_be_told_and_half_a_status_is_none():
    assert all(explain(state, None) for state in JobState)
    assert explain(JobState.FAILED, Ending(2)) == "ended with status 2"
    assert [Ending.parse(text) for text in ("", "time-limit", "x 0")] == [None] * 3


def test_nodes_and_processors_of_an_allocation():
    variables = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_JOB_CPUS_PER_NODE": "2(x2),4"}
    assert nodes(variables) == [("n1", 2), ("n2", 2), ("n3", 4)]
    assert nodes(variables | {"SLURM_NTASKS_PER_NODE": "1"}) == [("n1", 1), ("n2", 1), ("n3", 1)]
    for change, complaint in (
        ({"SLURM_JOB_NODELIST": "n1"}, "1 nodes, but processors of 3"),
        ({"SLURM_JOB_CPUS_PER_NODE": "2x2"}, "cannot be read"),
        ({"SLURM_JOB_NODELIST": "n[1-3"}, "bracket"),
    ):
        with pytest.raises(SlurmError, match=complaint):
            nodes(variables | change)
    with pytest.raises(SlurmError, match="SLURM_JOB_ID is not set"):
        nodes({})
    assert per_node("1") == [1] and per_node("2(x3),4,1(x1)") == [2, 2, 2, 4, 1]


def test_the_callers_options_do_not_reach_slurm():
    ours = {"SLURM_CONF": "c", "PATH": "p", "SLURM_CLUSTERS": "slaking"}
    others = {"SBATCH_PARTITION": "x", "SLURM_JOB_ID": "1", "SQUEUE_FORMAT": "%i", "SLURM_TIME_FORMAT": "%s"}
    assert cleaned(ours | others) == ours


def test_the_script_by_hand_is_one(tmp_path):
    shipped = ROOT / "slurm" / "three-jobs.sbatch"
    path = fake_commands(tmp_path, lockstep=f'echo "$@" > {tmp_path}/said; exit 3')
    result = subprocess.run(["bash", shipped, "--quick"], env={"PATH": path, **JOB}, check=False)
    assert result.returncode == 3
    assert (tmp_path / "said").read_text() == "run three-jobs --allocation --results three-jobs-7 --quick\n"
    begin = time.monotonic()
    fake_commands(tmp_path, lockstep=f"cd {tmp_path}; {OBEDIENT}")
    job = subprocess.Popen(["bash", shipped], env={"PATH": path, **JOB})
    assert eventually((tmp_path / "ready").exists)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(10) == 130 and time.monotonic() - begin < 10


NO_CLUSTER = """
sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host
sbatch: error: fetch_config: DNS SRV lookup failed
sbatch: fatal: Could not establish a configuration source
"""


@pytest.mark.parametrize(
    "said, told",
    [
        (None, "there is no sbatch here"),
        ("Invalid partition", "sbatch: Invalid partition"),
        (NO_CLUSTER, "no cluster answers sbatch here.*login node"),
    ],
)
def test_a_command_that_fails_is_told_in_a_line(monkeypatch, tmp_path, said, told):
    monkeypatch.setenv("PATH", str(tmp_path))
    if said:
        fake_commands(tmp_path, sbatch=f"echo '{said}' >&2; exit 1")
    with pytest.raises(SlurmError, match=told) as error:
        ask("sbatch", "x")
    assert "DNS" not in str(error.value) and "\n" not in str(error.value)
