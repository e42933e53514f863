"""Measures Slurm's own gang scheduling, with jobs on the nodes of the dedicated runs in an allocation."""

import dataclasses
import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.drive import running_jobs
from coordinator.host.environment import PYTHON
from coordinator.host.interrupt import Interrupt
from coordinator.host.launchers import find_launcher
from coordinator.policies.gang import SlurmGang
from coordinator.wire import protocol
from coordinator.workload import JobResult, ParallelJob, Result, Workload
from harness.measure import slurm_wait, trust
from harness.measure.calibrate import Constants, mpi_probe
from harness.measure.measured import Measured
from harness.measure.plan import plan, recorded
from harness.measure.runner import run
from harness.measure.session import MeasurementSession, Progress, Silent, Tools, Watcher, session_name
from harness.spec import hosts
from harness.spec.experiment import Experiment
from harness.spec.submission import Submission
from harness.store.database import Store
from harness.store.records import DEDICATED, RunRecord
from slurm import client, partition
from slurm.command import SlurmError
from slurm.job import Ending, JobState, SlurmJob, explain
from workloads.agent_line import record_file
from workloads.program import Program
from workloads.record import OURS, flaw
from workloads.validation import InputError


def needed(wanted: Experiment) -> bool:
    return any(scheduler.of_slurm for scheduler in wanted.schedulers)


def check(wanted: Experiment, how: Submission) -> None:
    places = [(job, cell.processors) for cell in wanted.measured_cells for job in cell.jobs()]
    for job, processors in places:
        fits = job.program.moldable and not job.program.adapts
        if not fits or job.program.processes != processors:
            rule = "under slurm-gang every job is a program with a process on each processor"
            remedy = f"give all jobs {processors} processes, or leave slurm-gang out"
            raise InputError(f"job {job.number}", job.program.processes, rule, remedy)
    name = how.gang_partition
    if name is None:
        rule = "slurm-gang needs a partition for its jobs"
        remedy = "name one with OverSubscribe=FORCE, on a cluster with PreemptMode=GANG"
        raise InputError("slurm.gang_partition", None, rule, remedy)
    try:
        slice_s, why = partition.time_slice_s(name, how.place)
    except SlurmError as error:
        remedy = "name a partition of this cluster"
        raise InputError("slurm.gang_partition", name, str(error), remedy) from None
    if why:
        remedy = (
            "the administrator sets PartitionName=... OverSubscribe=FORCE and PreemptMode=GANG in slurm.conf"
        )
        raise InputError("slurm.gang_partition", name, why, remedy)
    for index, scheduler in enumerate(wanted.schedulers):
        policy = scheduler.policy
        if isinstance(policy, SlurmGang) and policy.quantum_ms != 1000 * slice_s:
            rule = f"slurm.conf has SchedulerTimeSlice={slice_s}"
            key = f"schedulers[{index}].quantum_ms"
            raise InputError(key, policy.quantum_ms, rule, f"write quantum_ms = {1000 * slice_s}")


def measure(
    wanted: Experiment, how: Submission, results: Path, folder: Path, watcher: Watcher, *, resume: bool
) -> list[RunRecord]:
    """Make the runs under Slurm's gang scheduling; ``results`` has the dedicated runs, and gets these."""
    with Store(results, existing=True, warn=watcher.warn) as store:
        records = store.runs(wanted.digest)
        alone = [record for record in records if record.kind == DEDICATED and not record.failure]
        if not alone:
            rule = "holds no dedicated runs to compare with"
            raise InputError("--results", str(results), rule, "read the log of the job that makes them")
        made_on = alone[-1]
        nodes = hosts.parse(made_on.conditions.nodes)
        names = [node.host for node in nodes] or [str(made_on.conditions.host)]
        launcher = find_launcher()
        how = dataclasses.replace(
            how, partition=how.gang_partition, nodelist=",".join(names), exclusive=False, requeue=False
        )
        cluster = Cluster(how, folder, launcher.srun_plugin)
        session = MeasurementSession(
            name=session_name(),
            processors=tuple(made_on.processors),
            tools=Tools(str(launcher), mpi_probe(launcher), cluster.run_workload),
            store=store,
            conditions=dataclasses.replace(made_on.conditions, submitted_from=socket.gethostname()),
            nodes=nodes,
        )
        done = recorded(records) if resume else {}
        taken = trust.chosen(store.calibrations(), made_on.conditions, results)
        constants = taken.constants or Constants()
        if taken.line:
            watcher.warn(taken.line)
        back_end = Measured(session, lambda task: constants, watcher.note, by_slurm=True)
        tasks = [task for task in plan(wanted) if not back_end.refusal(task) and task.key not in done]
        return list(run(tasks, back_end, store, watcher))


class _Notes(Silent):
    """Passes on messages while waiting, so that the progress bar shows the runs only."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def progress(self, progress: Progress) -> None:
        self._tell(progress.label)

    def note(self, text: str) -> None:
        self._tell(text)

    warn = note


@dataclass(frozen=True)
class Cluster:
    """Runs workloads as jobs of Slurm; scripts, logs and records go to ``folder``."""

    how: Submission
    folder: Path
    plugin: str  # of srun, to start ranks with

    def run_workload(self, workload: Workload, progress: Callable[[str], None]) -> Result:
        """Submit each job when it arrives, and wait for all; their time in Slurm's queue is response time."""
        assert isinstance(workload.policy, SlurmGang)
        folder = self.folder / f"gang-{time.time_ns()}"
        folder.mkdir(parents=True)
        ids: dict[int, SlurmJob] = {}
        begin_ns = time.time_ns()
        try:
            for job in sorted(workload.jobs, key=lambda job: job.arrival_s):
                time.sleep(max(0.0, begin_ns / 1e9 + job.arrival_s - time.time()))
                with Interrupt():  # so that no job is submitted whose id is not known
                    ids[job.number] = client.submit(self._script(workload, job, folder))
            ended = slurm_wait.wait(list(ids.values()), folder, _Notes(progress))
        except BaseException:
            try:
                client.cancel(ids.values())
            except SlurmError as error:  # says less than what ends us
                progress(f"jobs may stay in Slurm: {error}; {client.ends(ids.values())}")
            raise
        parts = [_outcome(workload, job, folder, ended[ids[job.number]], begin_ns) for job in workload.jobs]
        failed = [f"job {job.number}: {job.failure}" for job, _ in parts if job.failure]
        return Result(
            jobs=tuple(job for job, _ in parts),
            ranks=tuple(record for _, records in parts for record in records),
            switches=(),
            mechanism="slurm",
            mechanism_reason="Slurm suspends and resumes its jobs",
            launcher=f"srun --mpi={self.plugin}",
            failure="\n".join(failed),
        )

    def _script(self, workload: Workload, job: ParallelJob, folder: Path) -> Path:
        assert isinstance(workload.policy, SlurmGang) and isinstance(job.program, Program)
        processes = job.program.processes
        spec = {"version": protocol.VERSION, "folder": str(folder), "job": job.number}
        spec |= running_jobs.parallel(workload, job.number, job.program, processes)
        python = self.how.started(["python3", "-P"], PYTHON)
        begun = str(folder / f"{job.number}.begun")
        step = partition.step(processes, self.plugin, retry=workload.policy.retry, begun=begun)
        how = dataclasses.replace(self.how, setup=(*self.how.setup, *step))
        command = ["step", *python, "-m", "mpi4py", "-m", "workloads.rank", json.dumps(spec)]
        path = folder / f"{job.number}.sbatch"
        path.write_text(how.script(f"gang-{job.number}", folder, command).text, encoding="utf-8")
        return path


def _outcome(
    workload: Workload, job: ParallelJob, folder: Path, ended: tuple[JobState, Ending | None], begin_ns: int
) -> tuple[JobResult, list[Mapping[str, Any]]]:
    """The result of a job, and the records of its ranks, in times since the run began."""
    state, ending = ended
    processes = job.program.processes
    failure = "" if state is JobState.COMPLETED else explain(state, ending)
    records: list[Mapping[str, Any]] = []
    places = workload.processors or range(processes)
    try:
        for rank in range(processes):
            record = _record(record_file(str(folder), job.number, rank))
            times = {key: record[key] - begin_ns for key in ("start_ns", "finish_ns")}
            places_of = {"core": record["processor"], "processor": places[rank]}
            records.append(record | times | places_of)
    except OSError:
        failure = failure or "its ranks have left no records"
    except ValueError as error:
        failure = failure or str(error)
    whole = len(records) == processes
    result = JobResult(
        number=job.number,
        processes=processes,
        placement=tuple(range(processes)),
        arrival_ns=round(job.arrival_s * 1e9),
        start_ns=min(record["start_ns"] for record in records) if whole else None,
        finish_ns=max(record["finish_ns"] for record in records) if whole else None,
        failure=failure,
    )
    return result, records


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        record = None
    why = flaw(record, OURS) if isinstance(record, dict) else "it is no JSON object"
    if why:
        raise ValueError(f"{path.name} is no valid rank record: {why}")
    return dict(record)
