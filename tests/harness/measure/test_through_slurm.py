"""``run --through slurm`` on made-up runs and a made-up Slurm: rows, scripts, refusals."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import short_queue
from fake_runs import command_on_made_up_runs
from fake_slurm import RUN_S, WAIT_S, fake_slurm

import lockstep as interface
from harness.analyse.timelines import planned_slots
from harness.spec.naming import scheduler_name, waiting_name
from harness.spec.scheduler import THROUGH_SLURM
from harness.spec.settings import of_table
from harness.store import database
from harness.store.database import Store
from workloads.validation import InputError

LOG = short_queue.LOG.replace(" 1800 ", " 180000 ")
SLURM = '[slurm]\nsetup = ["export X=1"]\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The directory of the commands of Slurm, which are on PATH."""
    monkeypatch.setenv("PATH", fake_slurm(tmp_path / "slurm"))
    short_queue.write(tmp_path, "fcfs", log=LOG, more=SLURM)
    return tmp_path / "slurm"


@pytest.fixture
def lockstep(folder, tmp_path, monkeypatch, capsys):
    return command_on_made_up_runs(monkeypatch, tmp_path, capsys)


def stored():
    """The run through Slurm."""
    with Store(Path("lockstep-results"), existing=True) as store:
        runs = store.runs(store.experiments()[-1][0])
    (run,) = [one for one in runs if one.scheduler["policy"] == "slurm"]
    return run


def rows_of(document):
    return {row["scheduler"]["policy"]: row for row in json.loads(document)["rows"]}


@pytest.mark.slow
def test_slurm_is_one_more_row_with_the_times_of_its_accounts(lockstep, folder):
    status, out, _ = lockstep("run", "queue.toml", "--through", "slurm", "--json")
    rows = rows_of(out)
    row = rows["slurm"]
    assert (status, [*rows]) == (0, ["fcfs", "slurm"])
    metrics = row["measured"]["schedule"]["metrics"]
    assert (metrics["wait_s"], metrics["response_s"]) == (WAIT_S, WAIT_S + RUN_S)
    slowdowns = [(WAIT_S + RUN_S) / run_s for run_s in short_queue.RUN_S]
    assert metrics["slowdown"] == pytest.approx(sum(slowdowns) / 4, rel=0.01)
    assert row["simulated"] is None and "by_job" not in row and row["error"] is None
    assert rows["fcfs"]["by_job"] and rows["fcfs"]["simulated"]
    assert (folder / "asked").read_text().split() == [
        "sbatch",
        "1",
        "sbatch",
        "2",
        "sbatch",
        "3",
        "sbatch",
        "4",
    ]


@pytest.mark.slow
def test_each_job_is_a_script_with_its_processes_and_a_limit_of_whole_minutes(lockstep, folder):
    lockstep("run", "queue.toml", "--through", "slurm")
    texts = [(folder / f"job-{number}").read_text() for number in (1, 2, 3, 4)]
    options = [dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", text, flags=re.MULTILINE)) for text in texts]
    assert [one["ntasks"] for one in options] == ["2", "1", "2", "1"]
    # 180,000 s of the log are 60 s of the run; to all limits Slurm's time to start a job is added.
    assert [one["time"] for one in options] == ["1", "1", "2", "1"]
    assert len({one["job-name"] for one in options}) == 1 and "signal" not in options[0]
    assert "export X=1" in texts[0].splitlines()
    words = " ".join(texts[0].replace("\\\n", " ").split())
    assert re.search(r"srun --mpi=pmi[2x] .*--ntasks=2 \S*python\S* -P -m workloads \w+ --phases \d+ ", words)


@pytest.mark.slow
def test_the_row_is_shown_stored_and_found_again(lockstep):
    _, out, said = lockstep("run", "queue.toml", "--through", "slurm")
    (line,) = [line for line in out.splitlines() if line.strip().startswith("slurm ")]
    assert "7" in line.split() and "-" in line.split()
    assert "sacct tells whole seconds" in said
    _, again, said = lockstep("run", "queue.toml", "--through", "slurm", "--resume")
    assert "0 runs recorded" in said and line in again
    _, out, _ = lockstep("report", "lockstep-results", "--format", "text")
    assert line in out
    alone = replace(stored(), jobs=stored().jobs[:1])
    assert planned_slots(alone) == {}, "no policy of ours says which processor a job has there"
    assert lockstep("report", "lockstep-results", "-o", "page.html")[0] == 0
    assert "slurm" in Path("page.html").read_text()


@pytest.mark.slow
def test_a_job_that_fails_counts_in_no_mean(lockstep, folder):
    script = (folder / "sacct").read_text()
    (folder / "sacct").write_text(f"{script}echo '3|TIMEOUT|1000300|1000302|1000399'\n")
    status, out, said = lockstep("run", "queue.toml", "--through", "slurm", "--json")
    metrics = rows_of(out)["slurm"]["measured"]["schedule"]["metrics"]
    assert status == 1 and "1 of 4 jobs failed" in said and "Slurm's job 3 ended as TIMEOUT" in said
    assert (metrics["wait_s"], metrics["response_s"]) == (WAIT_S, WAIT_S + RUN_S)


@pytest.mark.slow
def test_a_run_whose_jobs_all_fail_has_no_means(lockstep, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", fake_slurm(tmp_path / "other", state="FAILED"))
    status, out, said = lockstep("run", "queue.toml", "--through", "slurm", "--json")
    assert status == 1 and "Slurm's job 1 ended as FAILED" in said
    measured = rows_of(out)["slurm"]["measured"]
    assert measured["failures"] == 1 and "schedule" not in measured


def test_its_table_has_names_for_rows_without_a_schedule():
    """As all rows are if every run has failed."""
    assert (scheduler_name(THROUGH_SLURM.table), waiting_name(THROUGH_SLURM.table)) == ("slurm", "spin")
    assert of_table(THROUGH_SLURM.table) == THROUGH_SLURM


@pytest.mark.slow
def test_a_larger_partition_has_a_warning_and_no_utilisation(lockstep, tmp_path):
    Path("large.toml").write_text(Path("queue.toml").read_text() + 'partition = "long"\n')
    _, out, said = lockstep("run", "large.toml", "--through", "slurm", "--json")
    assert "the partition 'long' has 64 processors, and the window 2: jobs wait less" in said
    assert rows_of(out)["slurm"]["measured"]["schedule"]["metrics"]["utilisation"] is None


@pytest.mark.slow
def test_a_refused_job_ends_those_before_it(lockstep, folder, monkeypatch):
    script = (folder / "sbatch").read_text()
    refusing = '[ -e "$0.no" ] && { echo "sbatch: error: over the limit" >&2; exit 1; }; : > "$0.no"\n'
    (folder / "sbatch").write_text(script.replace("#!/bin/sh\n", "#!/bin/sh\n" + refusing))
    status, _, said = lockstep("run", "queue.toml", "--through", "slurm")
    assert status == 1 and "over the limit" in said
    first, cancelled, *_ = (folder / "asked").read_text().splitlines()
    assert first == "sbatch 1" and cancelled.startswith("scancel --name=lockstep-")
    assert [job.failure for job in stored().jobs][1:] == ["not submitted"] * 3


REFUSALS = {
    "no log": ("three-jobs", {}, "--through = 'slurm': submits the jobs of a job log"),
    "no sbatch": ("queue.toml", {"size": None}, "--through = 'slurm': there is no sbatch here"),
    "no accounting": ("queue.toml", {"configuration": "AccountingStorageType = (null)"}, "no accounting"),
    "too small": ("queue.toml", {"size": 1}, "processors = 2: must be at most 1, those of Slurm's partition"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_submitted_is_refused_in_one_line(lockstep, tmp_path, monkeypatch, case):
    experiment, how, complaint = REFUSALS[case]
    if how.get("size", 2) is None:
        monkeypatch.setenv("PATH", "/nonexistent")
    else:
        monkeypatch.setenv("PATH", fake_slurm(tmp_path / "other", **how))
    status, out, said = lockstep("run", experiment, "--through", "slurm")
    assert (status, out) == (2, "") and complaint in said
    assert len(said.strip().splitlines()) == 1 and not Path("lockstep-results").exists()


def test_programs_that_need_lockstep_are_refused(lockstep):
    programs = 'programs = [{ pattern = "NEWS", malleable = true }]\n[[schedulers]]'
    Path("other.toml").write_text(Path("queue.toml").read_text().replace("[[schedulers]]", programs))
    status, _, said = lockstep("run", "other.toml", "--through", "slurm")
    assert status == 2 and "log.programs.malleable = true: needs Lockstep around" in said


@pytest.mark.slow
def test_python_has_the_same_argument(lockstep):
    found = interface.run("queue.toml", through="slurm", simulate=False)
    assert set(found.rows().scheduler) == {"fcfs", "slurm"}
    assert len(database.load(Path("lockstep-results")).runs) == 2
    with pytest.raises(InputError, match="through"):
        interface.run("queue.toml", through="pbs")
