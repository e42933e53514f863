"""Submitting experiments: the [slurm] table, the scripts made of it, waiting, collecting the parts."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_commands import fake_commands
from fake_runs import Quiet

from harness.measure.slurm_wait import LATE_S, SILENCE_S, wait
from harness.spec import experiment, submission
from harness.store import database
from slurm.command import SlurmError
from slurm.job import Ending, JobState
from workloads.validation import InputError

FILE = """
name = "two words"
processors = 2

[[jobs]]
program = { processes = 2, phases = 1 }

[[schedulers]]
policy = "none"

[sweep]
"program.granularity_us" = [100, 200, 300]

[slurm]
partition = "short"
time = 10
modules = ["mpich/4"]
setup = ["export X=1"]
"""


@pytest.fixture(autouse=True)
def _file(lockstep):
    """FILE as x.toml in the current directory, which is that of the command."""
    Path("x.toml").write_text(FILE)


@pytest.fixture
def dry(lockstep):
    """What ``submit --dry-run`` prints, or the complaint if it is refused."""

    def run(*options):
        status, out, err = lockstep("submit", "x.toml", "--dry-run", *options)
        assert (status == 2 and not out) or status == 0
        return out or err

    return run


@pytest.mark.parametrize(
    "line, complaint",
    [
        ('partitoin = "x"', "partitoin = 'x': is not a key that is known here; did you mean 'partition'"),
        ("ntasks_per_node = 2", "did you mean 'ntasks-per-node'?"),
        ("ntasks-per-node = 0", "slurm.ntasks-per-node = 0: must be a whole number from 1 to 4096"),
        ("nodes = 1.5", "slurm.nodes = 1.5: must be a whole number"),
        ("partition = 3", "slurm.partition = 3: must be one line of text"),
        ('qos = "a\\nb"', "must be one line of text"),
        ('extra = "--x"', "must be a list of lines"),
        ('extra = ["x"]', "must be an option of sbatch"),
        ("exclusive = 1", "must be true or false"),
        ("signal_s = 0", "from 1 to 65535"),
        ("container = 'apptainer \"a'", "slurm.container = 'apptainer \"a': must be a command"),
        ("container = 3", "slurm.container = 3: must be one line of text"),
    ],
)
def test_a_bad_table_is_told_with_its_line(lockstep, line, complaint):
    Path("x.toml").write_text(FILE.replace('partition = "short"', line))
    for command in ("submit", "run"):
        status, out, err = lockstep(command, "x.toml")
        assert (status, out) == (2, "") and complaint in err and "x.toml, line 15" in err


def test_the_digest_knows_nothing_of_slurm(tmp_path):
    with_table = tmp_path / "a.toml"
    without = tmp_path / "b.toml"
    with_table.write_text(FILE)
    without.write_text(FILE.partition("[slurm]")[0])
    assert experiment.load(str(with_table)).digest == experiment.load(str(without)).digest


def options_in(script):
    return {line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH")}


def test_a_dry_run_prints_the_script_and_leaves_nothing(dry, tmp_path):
    out = dry("--qos", "high", "--set", "repeats=3", "--quick")
    assert [path.name for path in tmp_path.iterdir()] == ["x.toml"]
    assert options_in(out) >= {"partition=short", "time=10", "qos=high", "nodes=1", "ntasks-per-node=2"}
    lines = out.splitlines()
    assert lines[0] == "#!/bin/bash" and lines.index("module load mpich/4") < lines.index("export X=1")
    assert "    --set repeats=3 \\" in lines and "    --quick \\" in lines
    assert f"    --results {tmp_path}/lockstep-results \\" in lines
    subprocess.run(["bash", "-n"], input=out, text=True, check=True)


def test_the_command_line_comes_before_the_file(dry):
    out = dry("--partition", "long", "--nodes=2", "--exclusive", "--sbatch=--gres=gpu:1", "--requeue")
    wanted = {"partition=long", "nodes=2", "ntasks-per-node=1", "exclusive", "gres=gpu:1", "requeue"}
    assert options_in(out) >= wanted


@pytest.mark.parametrize(
    "options, said",
    [
        (["--nodes=3"], "cannot divide 2 processors evenly"),
        (["--set", "processors=0"], "write --ntasks-per-node"),
        (["--ntasks-per-node=64", "--nodes=4", "--set", "program.processes=256"], "#SBATCH --nodes=4\n"),
        (
            ["--set", "program.processes=4", "--set", "schedulers.0.policy=gang"],
            "must be at most 2 under gang",
        ),
        (
            ["--set", "machine.lost=[1]"],
            "machine.lost = [1]: cannot be in real runs, which use all processors",
        ),
        (["--set", "slurm.container='apptainer exec a.sif'"], "\napptainer exec a.sif lockstep run "),
        (["--array=4"], "--array = 4"),
        *((["--results", name], "choose another directory") for name in ("a\nb", "a\\b", "a\udcffb")),
        *(([f"--sbatch={option}"], "--sbatch = ") for option in ("--x\nrm -rf /", "x", "")),
    ],
)
def test_a_dry_run_tells_what_can_be_had(dry, options, said):
    assert said in dry(*options)


def test_an_array_shares_out_the_cells_and_collects(dry, tmp_path):
    run, collect = json.loads(dry("--array=2", "--json"))["scripts"].values()
    assert options_in(run) >= {"array=1-2", "job-name=two-words"}
    assert '--part "$SLURM_ARRAY_TASK_ID"/2' in run
    assert f"collect {tmp_path}/lockstep-results/parts/1-of-2" in collect and "--array" not in collect


@pytest.mark.slow
def test_parts_together_are_the_whole(lockstep, tmp_path):
    for number in ("1", "2"):
        status, _, err = lockstep("run", "x.toml", "--part", f"{number}/2", "--results", f"part{number}")
        assert status == 0, err
    assert lockstep("collect", "part1", "part2", "--results", "all")[0] == 0
    frames = database.load("all")
    halves = [database.load(f"part{number}") for number in (1, 2)]
    assert sorted(frames.runs.cell.unique()) == [0, 1, 2]
    for table in ("runs", "jobs", "ranks", "calibrations"):
        assert len(getattr(frames, table)) == sum(len(getattr(half, table)) for half in halves)
    assert (tmp_path / "all" / "report.html").stat().st_size > 1000
    document = json.loads(lockstep("collect", "part1", "part2", "--results", "all", "--json")[1])
    assert len(database.load("all").runs) == len(frames.runs), "merging twice adds nothing"
    assert [row["measured"]["workload_slowdown"]["n"] for row in document["rows"]] == [3, 3, 3]


@pytest.mark.slow
def test_what_a_part_adds_later_is_merged_later_and_a_missing_part_is_told(lockstep):
    run = ("run", "x.toml", "--part", "1/3", "--results", "part", "--set")
    lockstep(*run, "repeats=1")
    lockstep("collect", "part", "--results", "all")
    lockstep(*run, "repeats=2", "--resume")
    status, _, err = lockstep("collect", "part", "part2", "--results", "all")
    assert status == 1 and "not merged" in err and "part2" in err
    part = database.load("part").runs
    merged = database.load("all").runs
    assert list(merged.recorded_at) == list(part.recorded_at) and len(part) > 4
    status, _, err = lockstep("collect", "part2", "--results", "none")
    assert status == 2 and "holds no records" in err


@pytest.mark.parametrize("text", ["0/2", "3/2", "x", "1", "1/0"])
def test_what_is_no_part_is_refused(lockstep, text):
    assert "must be K/N" in lockstep("run", "x.toml", "--part", text)[2]


def test_an_allocation_must_be_there(lockstep, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert "needs a Slurm allocation" in lockstep("run", "x.toml", "--allocation")[2]


def test_without_slurm_nothing_is_lost(lockstep, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(shutil.which("git"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    status, out, err = lockstep("submit", "x.toml")
    assert (status, out) == (1, "") and "there is no sbatch here" in err


@pytest.mark.slow
def test_values_stay_as_they_are(dry, tmp_path):
    value = 'name="a --b $SLURM_ARRAY_TASK_ID 100%"'
    results = tmp_path / "it's --here $(touch x)"
    out = dry("--array=2", "--set", value, "--results", str(results))
    run = out[out.index(f"\n{sys.executable} -P") : out.index(" &\nrun=$!")]
    run = run.replace(sys.executable, r"printf '%s\n'", 1)
    output = subprocess.check_output(["bash", "-c", run], env={"SLURM_ARRAY_TASK_ID": "2"}, text=True)
    words = output.splitlines()
    assert value in words and f"{results}/parts/2-of-2" in words and "2/2" in words
    assert not Path("x").exists()


@pytest.mark.parametrize("wait", [(), ("--wait",)])
def test_what_was_submitted_is_told_if_the_rest_is_refused(lockstep, monkeypatch, tmp_path, wait):
    refuse = 'case "$*" in *collect*) echo "no more jobs" >&2; exit 1;; esac'
    monkeypatch.setenv("PATH", fake_commands(tmp_path, sbatch=f"{refuse}\necho 4711"))
    status, out, err = lockstep("submit", "x.toml", "--array=2", "--json", *wait)
    assert status == 1 and json.loads(out)["jobs"] == {"two-words.sbatch": "4711"}
    assert "collect.sbatch is not submitted: sbatch: no more jobs" in err
    assert "scancel 4711" in err and "sbatch --dependency=afterany:4711 " in err


class Cluster:
    """Tells states from a list, one question after the other; its clock is what was slept."""

    def __init__(self, *told):
        self.told = iter(told)
        self.now_s = 0.0

    def ask(self, jobs, folder):
        answer = next(self.told)
        if isinstance(answer, Exception):
            raise answer
        return dict.fromkeys(jobs, answer)

    def pause(self, seconds):
        self.now_s += seconds

    def wait(self, folder):
        return wait(["7"], folder, Quiet(), ask=self.ask, pause=self.pause, clock=lambda: self.now_s)


PENDING = (JobState.PENDING, None)
RUNNING = (JobState.RUNNING, None)
UNKNOWN = (JobState.UNKNOWN, None)
COMPLETED = (JobState.COMPLETED, Ending(0))


def test_waiting_ends_with_evidence_or_when_its_lack_is_believed(tmp_path):
    cluster = Cluster(PENDING, RUNNING, PENDING, RUNNING, SlurmError("busy"), RUNNING, COMPLETED)
    assert cluster.wait(tmp_path) == {"7": COMPLETED}
    assert Cluster(RUNNING, UNKNOWN, UNKNOWN, COMPLETED).wait(tmp_path) == {"7": COMPLETED}
    cluster = Cluster(RUNNING, *[UNKNOWN] * 100)
    assert cluster.wait(tmp_path) == {"7": UNKNOWN} and cluster.now_s >= LATE_S


def test_progress_shows_the_last_line_of_a_log(tmp_path, monkeypatch):
    labels = []
    monkeypatch.setattr(Quiet, "progress", lambda self, progress: labels.append(progress.label))
    (tmp_path / "7.log").write_text("a\n" * 9000 + "last \n\n")
    Cluster(PENDING, RUNNING, COMPLETED).wait(tmp_path)
    assert any(label.endswith(": last") for label in labels), labels


def test_a_silent_controller_is_borne_for_a_while(tmp_path):
    cluster = Cluster(RUNNING, *[SlurmError("no answer")] * 1000)
    with pytest.raises(SlurmError, match="no answer"):
        cluster.wait(tmp_path)
    assert cluster.now_s > SILENCE_S


def test_spreading_keeps_what_was_asked_for():
    assert submission.parse({"ntasks-per-node": 3, "nodes": 2}).spread(7).processors == 6
    with pytest.raises(InputError, match="all processors"):
        submission.parse({}).spread(0)
