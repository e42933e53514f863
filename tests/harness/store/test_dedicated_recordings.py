"""``record = true`` of a command: runs of a kind for it leave recordings, and nothing else does."""

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fake_runs import TOOLS, imitate, measured
from made_recordings import rank_file, recorded
from runs import workload

from coordinator import policies
from coordinator.drive.driver import run_workload
from coordinator.workload import ParallelJob, Workload
from harness.analyse import summary
from harness.analyse.precision import RowPrecision
from harness.measure.execution_times import undisturbed
from harness.measure.plan import RECORDINGS
from harness.measure.session import Tools
from harness.predict import missing, process_level, recorded_programs
from harness.spec.experiment import load
from harness.store import recording
from harness.store.database import Store
from harness.store.records import DEDICATED, POLICY, RECORDED, SIMULATED, SIMULATED_DEDICATED
from workloads.validation import InputError
from workloads.work import Command

EXPERIMENT = """
processors = 2
repeats = 1
[[jobs]]
command = ["{launcher}", "-n", "2", "sh"]
dedicated_s = 0.1
record = true
[[jobs]]
command = ["{launcher}", "-n", "2", "true"]
dedicated_s = 0.1
[[schedulers]]
policy = "none"
"""


def leave(folder, host=b""):
    (folder / "rank-0-1.operations").write_bytes(rank_file(host=host, finish_ns=9))


SLOWER_BY = 3
"""So much longer a recorded run takes here."""


def slower(result):
    jobs = [replace(job, finish_ns=SLOWER_BY * job.finish_ns) for job in result.jobs]
    return replace(result, jobs=tuple(jobs))


def runs(tmp_path, leaves, origin_ns=None, repeats=1):
    """The records of the experiment, and the jobs that were to be recorded."""
    file = tmp_path / "a.toml"
    asked = []
    file.write_text(EXPERIMENT.replace("repeats = 1", f"repeats = {repeats}"))

    def run(given, progress=None, history=None):
        for job in given.jobs:
            if job.recording:
                asked.append(job)
                leaves(Path(job.recording))
        result = imitate(given)
        result = slower(result) if any(job.recording for job in given.jobs) else result
        return replace(result, origin_ns=origin_ns)

    tools = Tools(TOOLS.launcher, TOOLS.probe, run)
    return measured(load(str(file)), tmp_path / "results", tools), asked


def test_further_runs_of_a_command_that_asks_for_it_are_recorded(tmp_path):
    run_records, asked = runs(tmp_path, leave)
    assert [job.program.argv for job in asked] == [("sh",)]
    named = [record.conditions.recording for record in run_records if record.conditions.recording]
    (path,) = (tmp_path / "results" / "recordings").iterdir()
    assert named == [f"recordings/{path.name}"] and path.name.startswith("sh-")
    assert recording.read(path).command == ("sh",)
    assert [record.kind for record in run_records if record.conditions.recording] == [RECORDED]


def test_slowdowns_and_execution_times_do_not_relate_to_recorded_runs(tmp_path):
    run_records, _ = runs(tmp_path, leave, repeats=RECORDINGS + 1)
    wanted = load(str(tmp_path / "a.toml"))
    assert [record.repeat for record in run_records if record.kind == RECORDED] == list(range(RECORDINGS))
    (with_them,) = summary.rows(wanted, run_records)
    (without,) = summary.rows(wanted, [record for record in run_records if record.kind != RECORDED])
    assert with_them == without and with_them.measured.workload_slowdown.n == RECORDINGS + 1
    cell = wanted.cells[0]
    scheduler = wanted.schedulers[0]
    assert RowPrecision(wanted, run_records).estimate(cell, scheduler) == without.measured.workload_slowdown
    fitted = []
    for kinds in ((DEDICATED, RECORDED, POLICY), (DEDICATED, POLICY)):
        estimates = undisturbed()
        with Store(tmp_path / f"of-{len(kinds)}-kinds") as store:
            for record in run_records:
                if record.kind in kinds:
                    store.add_run(record)
            estimates.read(store, wanted.digest)
        fitted.append(estimates.fitted())
    assert fitted[0] == fitted[1] != {}


def test_a_command_is_simulated_by_its_recorded_runs_and_by_dedicated_ones_of_earlier_versions(tmp_path):
    run_records, _ = runs(tmp_path, leave)
    wanted = load(str(tmp_path / "a.toml"))
    folder = tmp_path / "results"
    (kept,) = [record for record in run_records if record.kind == RECORDED]
    (plain,) = [r for r in run_records if r.kind == DEDICATED and r.jobs[0].job == kept.jobs[0].job]
    command = kept.jobs[0].work
    programs = recorded_programs.of(wanted, run_records, folder)
    assert programs.files == {command: folder / kept.conditions.recording}
    assert programs.alone[command].taken_s == pytest.approx(SLOWER_BY * plain.makespan_ns / 1e9)
    earlier = replace(plain, conditions=kept.conditions)
    programs = recorded_programs.of(wanted, [earlier, *(r for r in run_records if r.kind == POLICY)], folder)
    assert programs.files == {command: folder / kept.conditions.recording}
    assert programs.alone[command].taken_s == pytest.approx(plain.makespan_ns / 1e9)


def test_recorded_runs_have_no_simulated_counterparts(tmp_path):
    run_records, _ = runs(tmp_path, leave)
    wanted = load(str(tmp_path / "a.toml"))
    recording.write(recorded([3 * [("ALLREDUCE", 10)]] * 2, peer=-1), path := tmp_path / "some.npz")
    known = recorded_programs.RecordedPrograms({job.program: path for job in wanted.cells[0].jobs()})
    lacking = [task.kind for task, _ in missing.missing(wanted, run_records, known)]
    asked = process_level.predict(wanted, None, None, lambda tasks, *_, **__: tasks, known)
    assert sorted(lacking) == sorted(task.kind for task in asked) == [SIMULATED, *[SIMULATED_DEDICATED] * 2]


@pytest.mark.parametrize(
    "host, origin_ns, until_ns",
    [(socket.gethostname(), 4, 5), (socket.gethostname(), None, None), ("elsewhere", 4, None)],
)
def test_the_end_of_a_recording_is_known_on_the_drivers_host(tmp_path, host, origin_ns, until_ns):
    run_records, _ = runs(tmp_path, lambda folder: leave(folder, host.encode()), origin_ns)
    (recorded,) = [record for record in run_records if record.conditions.recording]
    assert recorded.conditions.recorded_until_ns == until_ns


def damage(folder):
    (folder / "rank-0-1.operations").write_bytes(b"x")


@pytest.mark.parametrize(
    "leaves, reason", [(lambda folder: None, "left no recording"), (damage, r"rank-0-1.operations: ")]
)
def test_a_run_without_a_recording_has_a_warning_and_counts(tmp_path, leaves, reason):
    run_records, _ = runs(tmp_path, leaves)
    (warned,) = [record for record in run_records if record.conditions.warnings]
    assert reason in warned.conditions.warnings[0] and not warned.failure
    assert list((tmp_path / "results" / "recordings").iterdir()) == []


def test_record_is_true_or_false():
    with pytest.raises(InputError, match="must be true or false"):
        Command(("true",), record="yes")


def _span_ns(found):
    return min(rank.start_ns for rank in found.ranks), max(rank.finish_ns for rank in found.ranks)


PROGRAM = """
from mpi4py import MPI
for step in range(50): MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.slow
@pytest.mark.parametrize("waits", ["mpi", "two-phase"], ids=["unchanged", "two-phase"])
def test_real_ranks_that_wait_either_way_leave_a_recording(tmp_path, waits):
    job = ParallelJob(0, Command((sys.executable, "-c", PROGRAM), 2, waits=waits), recording=str(tmp_path))
    batch = policies.create("batch", {})
    processors = workload().processors
    result = run_workload(Workload((job,), batch, processors, timeout_s=60))
    assert result.failure == ""
    assert [rank.waits is not None for rank in result.ranks] == [waits == "two-phase"] * 2
    (found,) = recording.gather(tmp_path, ["app"])
    assert [rank.rows["kind"].tolist().count(recording.KIND["BARRIER"]) for rank in found.ranks] == [50, 50]
    assert [rank.complete for rank in found.ranks] == [True, True]
    began_ns, ended_ns = (times_ns - result.origin_ns for times_ns in _span_ns(found))
    assert 0 < began_ns < ended_ns <= result.jobs[0].finish_ns
    plain = run_workload(Workload((replace(job, recording=""),), batch, processors, timeout_s=60))
    assert plain.failure == "" and len(list(tmp_path.iterdir())) == 2
