"""The back end that submits each job of a log to Slurm by itself, and asks its accounting what became of it.

Times are those of ``sacct``, in whole seconds. The jobs have no agent of Lockstep.
"""

from __future__ import annotations

import math
import os
import select
import shlex
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from coordinator.host.environment import PYTHON, forwarded
from coordinator.host.interrupt import Interrupt
from coordinator.host.launch import tail
from coordinator.host.launcher_choice import find_launcher
from coordinator.host.launchers import Launcher, Srun
from coordinator.workload import ParallelJob
from harness.measure.plan import BackEnd, Task
from harness.measure.session import MeasurementSession, Watcher
from harness.spec import submission
from harness.spec.experiment import Experiment
from harness.spec.jobs import described
from harness.spec.scheduler import THROUGH_SLURM
from harness.spec.submission import Submission
from harness.store.records import JobRecord, RunRecord, Schedule, known, recorded_estimate
from slurm import accounting, client
from slurm.accounting import Accounted
from slurm.cancellation import ended_with_us
from slurm.command import SlurmError, answer
from slurm.job import SlurmJob
from slurm.partition import Partition, partition
from workloads import by_hand
from workloads.constants import MachineConstants
from workloads.program import Program
from workloads.validation import InputError, refused, under

START_S = 10.0
"""Time for Slurm to start the ranks of a job: users' estimates contain it, those of an experiment do not."""

LATE_S = 2.0  # a later submission is worth a warning
COARSE_S = 10.0  # whole seconds are coarse for jobs that run for less
SILENCE_S = 600.0  # how long Slurm may give no answer
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 5.0
"""Pauses between two questions to the accounting grow from the first to the last."""

MINUTE_S = 60.0


@dataclass(frozen=True)
class Cluster:
    """A cluster of Slurm that can run the jobs of an experiment, each by itself."""

    how: Submission
    partition: Partition
    launcher: Launcher
    by_srun: bool  # whether srun starts ranks of this launcher's MPI

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """The cluster that Slurm's commands reach from here.

        Raises:
            InputError: if there is none, or it cannot run the jobs.
        """
        if not experiment.of_log:
            raise _refusal("submits the jobs of a job log, and this experiment has no [log]", "leave it out")
        if shutil.which("sbatch") is None:
            raise _refusal("there is no sbatch here", "run this on a login node of the cluster")
        how = submission.parse(experiment.written.data.get("slurm", {}) if experiment.written else {})
        _check_each_job(how)
        launcher = find_launcher()
        try:
            accounting.check(how.place)
            found = partition(how.partition, how.place)
            mpi = answer("srun", "--mpi=list")
        except SlurmError as error:
            raise _refusal(
                f"needs a cluster whose accounting tells waits: {' '.join(str(error).split())}",
                "run this on a login node of such a cluster",
            ) from None
        for cell in experiment.measured_cells:
            if cell.processors > found.processors:
                raise experiment.located(
                    InputError(
                        "processors",
                        cell.processors,
                        f"must be at most {found.processors}, those of Slurm's partition {found.name!r}",
                        "write less, or choose another partition",
                    )
                )
            with under("log.programs"):
                for job in cell.jobs():
                    _arguments(job)
        plugins = f"{mpi.out} {mpi.err}".split()
        return cls(how, found, launcher, by_srun=bool(launcher.srun_plugin in plugins))

    @property
    def launch(self) -> str:
        """What starts the ranks, in words."""
        return f"srun --mpi={self.launcher.srun_plugin} of Slurm" if self.by_srun else str(self.launcher)

    def script(self, name: str, folder: Path, job: ParallelJob, seed: int) -> str:
        """The batch script of a job: its program under the launcher, by itself."""
        processes = job.program.width
        command = [*PYTHON, "-m", "workloads", *_arguments(job), "--seed", str(seed)]
        if self.by_srun:
            step = ["srun", f"--mpi={self.launcher.srun_plugin}", *Srun.unbound, "--kill-on-bad-exit=1"]
            command = [*step, f"--ntasks={processes}", *command]
        else:
            command = self.launcher.argv(processes, command)
        ours = forwarded({})
        variables = {one: ours[one] for one in ("PYTHONPATH", "OMP_NUM_THREADS")}
        variables |= self.launcher.needs()
        exports = (f"export {shlex.join([f'{key}={value}'])}" for key, value in variables.items())
        how = replace(self.how, setup=(*exports, *self.how.setup))
        return how.of_job(name, folder, command, processes, _limit_min(job)).text


OF_WHOLE_RUNS = (
    "container",
    "exclusive",
    "nodelist",
    "nodes",
    "ntasks_per_node",
    "requeue",
    "signal_s",
    "time",
)
"""What is said of a submission that runs a whole experiment; jobs by themselves have sizes and limits."""

OF_OTHER_JOBS = (("--job-name", "-J"), ("--array", "-a"), ("--hold", "-H"))
"""Options with which we would not find our jobs again, or they would not end."""


def _check_each_job(how: Submission) -> None:
    """Refuse what ``[slurm]`` cannot say of each job by itself."""
    for name in OF_WHOLE_RUNS:
        if (value := getattr(how, name)) != getattr(Submission(), name):
            key = f"slurm.{name.replace('ntasks_per_node', 'ntasks-per-node')}"
            raise InputError(key, value, "cannot hold for each job by itself", "leave it out")
    for names in OF_OTHER_JOBS:
        words = [word for line in how.extra for word in shlex.split(line, comments=True)]
        if given := [word for word in words if word.startswith(names)]:
            raise InputError("slurm.extra", given[0], "cannot hold for each job by itself", "leave it out")


def _refusal(rule: str, remedy: str) -> InputError:
    return InputError("--through", THROUGH_SLURM.name, rule, remedy)


def _arguments(job: ParallelJob) -> list[str]:
    """Those with which a job of a log runs by itself."""
    assert isinstance(job.program, Program)
    return by_hand.arguments(job.program)


def _limit_min(job: ParallelJob) -> int:
    """The time limit of a job: Slurm knows whole minutes only."""
    estimate_s = job.estimate.on(job.program.width) if job.estimate else job.program.alone_s
    return math.ceil((estimate_s + START_S) / MINUTE_S)


@dataclass(frozen=True)
class ThroughSlurm:
    """Runs the tasks of the scheduler ``slurm``; the back end ``others`` runs all other tasks."""

    session: MeasurementSession
    cluster: Cluster
    others: BackEnd
    watcher: Watcher

    def refusal(self, task: Task) -> InputError | None:
        return None if task.scheduler == THROUGH_SLURM else self.others.refusal(task)

    def guess_s(self, task: Task) -> float:
        """A guess as if the jobs ran one after the other, or arrived as late as they do."""
        if task.scheduler != THROUGH_SLURM:
            return self.others.guess_s(task)
        work_s = sum(job.program.alone_s * job.program.width for job in task.jobs)
        return START_S + max(work_s / task.cell.processors, *(job.arrival_s for job in task.jobs))

    def run(self, task: Task) -> RunRecord:
        """Run a task, and return its record; whatever ends this process cancels the submitted jobs."""
        if task.scheduler != THROUGH_SLURM:
            return self.others.run(task)
        submitting = _Submitting(task, self.cluster, self._folder(task), self.watcher)
        failure, begin_s = "", time.monotonic()
        with Interrupt() as interrupt:
            try:
                with ended_with_us(submitting.name, self.cluster.how.place):
                    submitting.submit(interrupt)
                    submitting.wait(interrupt)
            except SlurmError as error:
                failure = str(error)
                if interrupt.caught and failure != interrupt.reason:
                    self.watcher.warn(failure)
        jobs = tuple(submitting.records())
        schedule = None if failure else self._schedule(task, jobs)
        if not schedule:  # of a log a job that fails is one of many
            failure = failure or next((job.failure for job in jobs if job.failure), "")
        processors = self.session.processors[: task.cell.processors]
        return task.record(
            self.session.name,
            processors=processors,
            constants=MachineConstants(),
            launcher=self.cluster.launch,
            wall_s=time.monotonic() - begin_s,
            failure=failure,
            # What other programs take from this host's processors is nothing to the cluster's.
            conditions=replace(self.session.conditions, warnings=list(submitting.warnings())),
            jobs=jobs,
            schedule=schedule,
        )

    def _folder(self, task: Task) -> Path:
        """A directory for the scripts and logs of a run."""
        results = Path(os.path.realpath(self.session.store.path.parent))
        folder = results / "submissions" / f"{self.session.name}-{task.cell.index}-{task.repeat}"
        with refused("--results", folder, "cannot hold scripts and logs", "choose another directory"):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _schedule(self, task: Task, jobs: Sequence[JobRecord]) -> Schedule | None:
        """The schedule; of a larger partition the share that the jobs used of their processors is unknown."""
        from harness.measure import log_schedule  # noqa: PLC0415 - NumPy is slow to load

        schedule = log_schedule.of_run(task, jobs)
        if schedule is None or self.cluster.partition.processors == task.cell.processors:
            return schedule
        return replace(schedule, metrics={**schedule.metrics, "utilisation": None})


class _Submitting:
    """The jobs of a run, as Slurm has them."""

    def __init__(self, task: Task, cluster: Cluster, folder: Path, watcher: Watcher) -> None:
        self._task = task
        self._cluster = cluster
        self._folder = folder
        self._watcher = watcher
        self._jobs: dict[int, SlurmJob] = {}  # by the number of the job
        self._accounted: Mapping[SlurmJob, Accounted] = {}
        self._latest_s = 0.0  # how much later than it should the latest submission was over
        self.name = f"lockstep-{folder.name}"  # of all its jobs, and of no others

    def submit(self, interrupt: Interrupt) -> None:
        """Submit each job at its arrival; SlurmError if one is refused, or a signal ends it."""
        coming = sorted(self._task.jobs, key=lambda job: (job.arrival_s, job.number))
        files = {job.number: self._folder / f"{job.number}.sbatch" for job in coming}
        for job in coming:
            text = self._cluster.script(self.name, self._folder, job, self._task.experiment.seed)
            files[job.number].write_text(text, encoding="utf-8")
        begin_s = time.monotonic()
        for job in coming:
            _pause(begin_s + job.arrival_s, interrupt)
            self._jobs[job.number] = client.submit(files[job.number])
            self._latest_s = max(self._latest_s, time.monotonic() - begin_s - job.arrival_s)
            self._watcher.note(f"Slurm has got {len(self._jobs)} of {len(coming)} jobs")

    def wait(self, interrupt: Interrupt) -> None:
        """Wait until the accounts have the ends of all jobs; SlurmError as in ``submit``."""
        pause_s, heard_s = FIRST_PAUSE_S, time.monotonic()
        while True:
            try:
                self._accounted = accounting.times([*self._jobs.values()])
            except SlurmError as error:
                if time.monotonic() - heard_s > SILENCE_S:
                    raise
                self._watcher.note(f"no answer: {error}")
            else:
                heard_s = time.monotonic()
                over = sum(one.end_s is not None for one in self._accounted.values())
                self._watcher.note(f"of {len(self._jobs)} jobs Slurm has ended {over}")
                if over == len(self._jobs):
                    return
            _pause(time.monotonic() + pause_s, interrupt)
            pause_s = min(1.3 * pause_s, LAST_PAUSE_S)

    def records(self) -> Iterator[JobRecord]:
        """The jobs, each with its times since its own arrival.

        So waits and responses are those of the accounts, which know no parts of seconds.
        """
        for job in self._task.jobs:
            arrival_ns = round(job.arrival_s * 1e9)
            slurm_job = self._jobs.get(job.number)
            found = self._accounted.get(slurm_job) if slurm_job else None
            start_ns = finish_ns = None
            if found and found.start_s is not None:
                start_ns = arrival_ns + (found.start_s - found.submit_s) * 1_000_000_000
                if found.end_s is not None:
                    finish_ns = start_ns + max(1, (found.end_s - found.start_s) * 1_000_000_000)
            failure = self._failure(slurm_job, found) if slurm_job else "not submitted"
            yield JobRecord(
                job=job.number,
                program=described(job.program),
                processes=job.program.width,
                placement=(),  # Slurm tells nodes, not processors
                arrival_ns=arrival_ns,
                start_ns=start_ns,
                finish_ns=None if failure else finish_ns,
                failure=failure,
                estimate=recorded_estimate(job.estimate, of_user=True),
                submitter=known(job.submitter),
            )

    def _failure(self, job: SlurmJob, found: Accounted | None) -> str:
        if found and found.state == "COMPLETED":
            return ""
        said = tail(self._folder / f"{job}.log", 3)
        ended = f"ended as {found.state}" if found else "is not in the accounts"
        return f"Slurm's job {job} {ended}{': ' if said else ''}{said}"

    def warnings(self) -> Iterator[str]:
        """What differs from a run of Lockstep's own, where it matters."""
        have, window = self._cluster.partition, self._task.cell.processors
        if have.processors > window:
            size = f"the partition {have.name!r} has {have.processors} processors, and the window {window}"
            yield f"{size}: jobs wait less there than on {window}"
        if self._latest_s > LATE_S:
            yield f"sbatch took long: Slurm got a job {self._latest_s:.1f} s after its arrival"
        if following := sum(job.after is not None for job in self._task.jobs):
            yield f"{following} jobs follow others, and Slurm gets them at the times of the log all the same"
        usual_s = statistics.median(job.program.alone_s for job in self._task.jobs)
        if usual_s < COARSE_S:
            short = f"half of the programs run for less than {usual_s:.2g} s"
            yield f"sacct tells whole seconds, and {short}: the times of single jobs are coarse"
        longer_s = [*self._longer_s()]
        if longer_s and (extra_s := statistics.median(longer_s)) > 0.1 * usual_s:
            yield f"under Slurm a job takes {extra_s:.1f} s longer than its program (median) to start and end"

    def _longer_s(self) -> Iterator[float]:
        """By how much each job took longer than its program alone."""
        for job in self._task.jobs:
            found = self._accounted.get(self._jobs[job.number]) if job.number in self._jobs else None
            if found and found.start_s is not None and found.end_s is not None:
                yield found.end_s - found.start_s - job.program.alone_s


def _pause(until_s: float, interrupt: Interrupt) -> None:
    """Sleep until then; SlurmError as soon as a signal comes that ends us."""
    while not interrupt.caught and (left_s := until_s - time.monotonic()) > 0:
        select.select([interrupt], [], [], left_s)
        interrupt.acknowledge()
    if interrupt.caught:
        raise SlurmError(interrupt.reason)
