"""Submitting experiments: the [slurm] table, the scripts made of it, waiting, collecting the parts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runs import TOOLS, ImitatedSimulator, Quiet

from harness import application, cli
from harness.measure.slurm_wait import LATE_S, SILENCE_S, wait
from harness.predict import missing
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

Lockstep = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lockstep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Lockstep:
    """Runs the command beside FILE as x.toml, on made-up runs; gives status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(application, "real_tools", lambda *nodes: TOOLS)
    monkeypatch.setattr(missing, "back_end", ImitatedSimulator)
    (tmp_path / "x.toml").write_text(FILE)

    def lockstep(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(arguments)
        said = capsys.readouterr()
        return status, said.out, said.err

    return lockstep


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            'partitoin = "x"',
            "slurm.partitoin = 'x': is not a key that is known here; did you mean 'partition'",
        ),
        ("ntasks_per_node = 2", "did you mean 'ntasks-per-node'?"),
        ("ntasks-per-node = 0", "slurm.ntasks-per-node = 0: must be a whole number of at least 1"),
        ("nodes = 1.5", "slurm.nodes = 1.5: must be a whole number"),
        ("partition = 3", "slurm.partition = 3: must be one line of text"),
        ('qos = "a\\nb"', "must be one line of text"),
        ('extra = "--x"', "must be a list of lines"),
        ('extra = ["x"]', "must be an option of sbatch"),
        ("exclusive = 1", "must be true or false"),
        ("signal_s = 0", "of at least 1"),
        ("container = 'apptainer \"a'", "slurm.container = 'apptainer \"a': must be a command"),
        ("container = 3", "slurm.container = 3: must be one line of text"),
    ],
)
def test_a_bad_table_is_told_with_its_line(lockstep: Lockstep, line: str, complaint: str) -> None:
    Path("x.toml").write_text(FILE.replace('partition = "short"', line))
    for command in ("submit", "run"):
        status, out, err = lockstep(command, "x.toml")
        assert (status, out) == (2, "") and complaint in err and "x.toml, line 15" in err


def test_the_digest_knows_nothing_of_slurm(tmp_path: Path) -> None:
    with_table, without = tmp_path / "a.toml", tmp_path / "b.toml"
    with_table.write_text(FILE)
    without.write_text(FILE.partition("[slurm]")[0])
    assert experiment.load(str(with_table)).digest == experiment.load(str(without)).digest


def test_a_dry_run_prints_the_script_and_leaves_nothing(lockstep: Lockstep, tmp_path: Path) -> None:
    status, out, _ = lockstep(
        "submit", "x.toml", "--dry-run", "--qos", "high", "--set", "repeats=3", "--quick"
    )
    assert status == 0 and [path.name for path in tmp_path.iterdir()] == ["x.toml"]
    lines = out.splitlines()
    assert lines[0] == "#!/bin/bash"
    for option in ("partition=short", "time=10", "qos=high", "nodes=1", "ntasks-per-node=2"):
        assert f"#SBATCH --{option}" in lines
    assert lines.index("module load mpich/4") < lines.index("export X=1")
    assert "    --set repeats=3 \\" in lines and "    --quick \\" in lines
    assert f"    --results {tmp_path}/lockstep-results \\" in lines
    subprocess.run(["bash", "-n"], input=out, text=True, check=True)


def test_the_command_line_comes_before_the_file(lockstep: Lockstep) -> None:
    options = ("--partition", "long", "--nodes=2", "--exclusive", "--sbatch=--gres=gpu:1", "--requeue")
    out = lockstep("submit", "x.toml", "--dry-run", *options)[1]
    for option in ("partition=long", "nodes=2", "ntasks-per-node=1", "exclusive", "gres=gpu:1", "requeue"):
        assert f"#SBATCH --{option}\n" in out


def test_processors_are_shared_out_or_asked_for(lockstep: Lockstep) -> None:
    assert "cannot divide 2 processors evenly" in lockstep("submit", "x.toml", "--nodes=3", "--dry-run")[2]
    status, _, err = lockstep("submit", "x.toml", "--set", "processors=0", "--dry-run")
    assert status == 2 and "give --ntasks-per-node" in err
    gang = ("--set", "schedulers.0.policy=gang")
    large = ("--set", "program.processes=4", *gang)
    many = ("--ntasks-per-node=64", "--nodes=4", "--set", "program.processes=256")
    assert lockstep("submit", "x.toml", "--dry-run", *many)[0] == 0
    assert "processors is 2" in lockstep("submit", "x.toml", "--dry-run", *large)[2]


def test_a_machine_without_some_processors_is_refused(lockstep: Lockstep) -> None:
    status, out, err = lockstep("submit", "x.toml", "--dry-run", "--set", "machine.lost=[1]")
    assert (status, out) == (2, "") and "machine.lost = [1]: real runs use all processors" in err


def test_a_container_has_its_own_lockstep(lockstep: Lockstep) -> None:
    out = lockstep("submit", "x.toml", "--dry-run", "--set", "slurm.container='apptainer exec a.sif'")[1]
    assert "\napptainer exec a.sif lockstep run " in out


def test_an_array_shares_out_the_cells_and_collects(lockstep: Lockstep, tmp_path: Path) -> None:
    document = json.loads(lockstep("submit", "x.toml", "--dry-run", "--array=2", "--json")[1])
    run, collect = document["scripts"].values()
    assert "#SBATCH --array=1-2\n" in run and "#SBATCH --job-name=two-words\n" in run
    assert '--part "$SLURM_ARRAY_TASK_ID"/2' in run
    assert f"collect {tmp_path}/lockstep-results/parts/1-of-2" in collect and "--array" not in collect
    assert "--array = 4" in lockstep("submit", "x.toml", "--dry-run", "--array=4")[2]


@pytest.mark.slow
def test_parts_together_are_the_whole(lockstep: Lockstep, tmp_path: Path) -> None:
    for part in ("1/2", "2/2"):
        status, _, err = lockstep("run", "x.toml", "--part", part, "--results", f"part{part[0]}")
        assert status == 0, err
    assert lockstep("collect", "part1", "part2", "--results", "all")[0] == 0
    frames, halves = database.load("all"), [database.load(f"part{number}") for number in (1, 2)]
    assert sorted(frames.runs.cell.unique()) == [0, 1, 2]
    for table in ("runs", "jobs", "ranks", "calibrations"):
        assert len(getattr(frames, table)) == sum(len(getattr(half, table)) for half in halves)
    assert (tmp_path / "all" / "report.html").stat().st_size > 1000
    document = json.loads(lockstep("collect", "part1", "part2", "--results", "all", "--json")[1])
    assert len(database.load("all").runs) == len(frames.runs), "merging twice adds nothing"
    assert [row["measured"]["workload_slowdown"]["n"] for row in document["rows"]] == [3, 3, 3]


@pytest.mark.slow
def test_what_a_part_adds_later_is_merged_later(lockstep: Lockstep) -> None:
    lockstep("run", "x.toml", "--part", "1/3", "--results", "part", "--set", "repeats=1")
    lockstep("collect", "part", "--results", "all")
    lockstep("run", "x.toml", "--part", "1/3", "--results", "part", "--set", "repeats=2", "--resume")
    lockstep("collect", "part", "--results", "all")
    part, merged = database.load("part").runs, database.load("all").runs
    assert list(merged.recorded_at) == list(part.recorded_at) and len(part) > 4


@pytest.mark.slow
def test_a_missing_part_is_told(lockstep: Lockstep) -> None:
    lockstep("run", "x.toml", "--part", "1/2", "--results", "part1")
    status, _, err = lockstep("collect", "part1", "part2", "--results", "all")
    assert status == 1 and "not merged" in err and "part2" in err
    status, _, err = lockstep("collect", "part2", "--results", "none")
    assert status == 2 and "holds no records" in err


@pytest.mark.parametrize("text", ["0/2", "3/2", "x", "1", "1/0"])
def test_what_is_no_part_is_refused(lockstep: Lockstep, text: str) -> None:
    assert "must be K/N" in lockstep("run", "x.toml", "--part", text)[2]


def test_an_allocation_must_be_there(lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert "there is no allocation here" in lockstep("run", "x.toml", "--allocation")[2]


def test_without_slurm_nothing_is_lost(
    lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    git = shutil.which("git") or ""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    status, out, err = lockstep("submit", "x.toml")
    assert (status, out) == (1, "") and "there is no sbatch here" in err


@pytest.mark.slow
def test_values_stay_as_they_are(lockstep: Lockstep, tmp_path: Path) -> None:
    value = 'name="a --b $SLURM_ARRAY_TASK_ID 100%"'
    results = tmp_path / "it's --here $(touch x)"
    out = lockstep("submit", "x.toml", "--dry-run", "--array=2", "--set", value, "--results", str(results))[1]
    (tmp_path / "python").write_text("#!/bin/bash\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / "python").chmod(0o755)
    run = out[out.index(f"\n{sys.executable} -P") : out.index(" &\nrun=$!")]
    run = run.replace(sys.executable, str(tmp_path / "python"), 1)
    done = subprocess.run(
        ["bash", "-c", run], env={"SLURM_ARRAY_TASK_ID": "2"}, capture_output=True, text=True, check=True
    )
    words = done.stdout.splitlines()
    assert value in words and f"{results}/parts/2-of-2" in words and "2/2" in words
    assert not Path("x").exists()


@pytest.mark.parametrize("name", ["a\nb", "a\\b", "a\udcffb"])
def test_results_that_no_script_can_name_are_refused(lockstep: Lockstep, tmp_path: Path, name: str) -> None:
    status, out, err = lockstep("submit", "x.toml", "--dry-run", "--results", name)
    assert (status, out) == (2, "") and "--results = " in err and "choose another directory" in err


@pytest.mark.parametrize("option", ["--x\nrm -rf /", "x", ""])
def test_a_bad_option_of_sbatch_is_refused(lockstep: Lockstep, option: str) -> None:
    status, out, err = lockstep("submit", "x.toml", "--dry-run", f"--sbatch={option}")
    assert (status, out) == (2, "") and "--sbatch = " in err


@pytest.mark.parametrize("wait", [(), ("--wait",)])
def test_what_was_submitted_is_told_if_the_rest_is_refused(
    lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wait: tuple[str, ...]
) -> None:
    (tmp_path / "sbatch").write_text(
        '#!/bin/sh\ncase "$*" in *collect*) echo "no more jobs" >&2; exit 1;; esac\necho 4711\n'
    )
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    status, out, err = lockstep("submit", "x.toml", "--array=2", "--json", *wait)
    assert status == 1 and json.loads(out)["jobs"] == {"two-words.sbatch": "4711"}
    assert "collect.sbatch is not submitted: sbatch: no more jobs" in err
    assert "scancel 4711" in err and "sbatch --dependency=afterany:4711 " in err


class Cluster:
    """Tells states from a list, one question after the other; its clock is what was slept."""

    def __init__(self, *told: tuple[JobState, Ending | None] | Exception) -> None:
        self.told: Iterator[Any] = iter(told)
        self.now_s = 0.0

    def ask(self, jobs: Any, folder: str) -> dict[str, tuple[JobState, Ending | None]]:
        answer = next(self.told)
        if isinstance(answer, Exception):
            raise answer
        return dict.fromkeys(jobs, answer)

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def wait(self, folder: Path) -> dict[str, tuple[JobState, Ending | None]]:
        return wait(["7"], folder, Quiet(), ask=self.ask, pause=self.pause, clock=lambda: self.now_s)


PENDING, RUNNING = (JobState.PENDING, None), (JobState.RUNNING, None)
UNKNOWN, COMPLETED = (JobState.UNKNOWN, None), (JobState.COMPLETED, Ending(0))


def test_waiting_ends_with_the_job(tmp_path: Path) -> None:
    cluster = Cluster(PENDING, RUNNING, PENDING, RUNNING, SlurmError("busy"), RUNNING, COMPLETED)
    assert cluster.wait(tmp_path) == {"7": COMPLETED}


def test_evidence_may_come_late_and_its_lack_is_believed_in_the_end(tmp_path: Path) -> None:
    assert Cluster(RUNNING, UNKNOWN, UNKNOWN, COMPLETED).wait(tmp_path) == {"7": COMPLETED}
    cluster = Cluster(RUNNING, *[UNKNOWN] * 100)
    assert cluster.wait(tmp_path) == {"7": UNKNOWN}
    assert cluster.now_s >= LATE_S


def test_progress_shows_the_last_line_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels: list[str] = []
    monkeypatch.setattr(Quiet, "progress", lambda self, progress: labels.append(progress.label))
    (tmp_path / "7.log").write_text("a\n" * 9000 + "last \n\n")
    Cluster(PENDING, RUNNING, COMPLETED).wait(tmp_path)
    assert any(label.endswith(": last") for label in labels), labels


def test_a_silent_controller_is_borne_for_a_while(tmp_path: Path) -> None:
    cluster = Cluster(RUNNING, *[SlurmError("no answer")] * 1000)
    with pytest.raises(SlurmError, match="no answer"):
        cluster.wait(tmp_path)
    assert cluster.now_s > SILENCE_S


def test_spreading_keeps_what_was_asked_for() -> None:
    assert submission.parse({"ntasks-per-node": 3, "nodes": 2}).spread(7).processors == 6
    with pytest.raises(InputError, match="all processors"):
        submission.parse({}).spread(0)
