"""Checks before a run: can this machine do what the workload asks for?"""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.decide.session import Session
from coordinator.host import directories, mechanisms, processes
from coordinator.host.directories import DirectoryGuardian
from coordinator.host.environment import Variables, of_command
from coordinator.host.launcher_choice import find_launcher, launcher_at, unchanged
from coordinator.host.launcher_options import accepted
from coordinator.host.launchers import Launcher
from coordinator.view import Job, Machine
from coordinator.workload import Workload
from workloads import locks, native
from workloads.bounds import fits
from workloads.locks.lock_program import LockProgram
from workloads.validation import InputError
from workloads.waiting_rules import Waiting, waiting_rule

AS_MPI = waiting_rule("spin", context_switch_us=0, latency_us=0)
"""The rule of commands that wait as their MPI does."""


@dataclass(frozen=True)
class LaunchPlan:
    """The mechanism and the launchers for a workload.

    ``mechanism`` is None if the policy stops nothing; ``own`` has the launchers of the jobs that name one,
    ``variables`` the environment variables of jobs that wait two-phase or are recorded, by job;
    ``warnings`` name programs of another MPI than their launcher's.
    """

    mechanism: str | None
    reason: str
    launcher: Launcher
    own: Mapping[int, Launcher]
    variables: Mapping[int, Variables] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def of(self, job: int) -> Launcher:
        """The launcher of a job."""
        return self.own.get(job, self.launcher)


def check_host() -> None:
    """Refuse limits, and a place for the files of runs, with which none can work here."""
    processes.check_limits()
    directories.check_name()


def launch_plan(
    workload: Workload, launcher: Launcher | None = None, tell: native.Tell = lambda line: None
) -> LaunchPlan:
    """The mechanism and launchers for a workload here; ``tell`` gets a line if something is compiled."""
    check_host()
    mechanism, reason = _mechanism(workload)
    hosts = [node.host for node in workload.nodes]
    launcher = unchanged(launcher) if launcher else find_launcher(hosts=hosts)
    programs = {job.number: job.program for job in workload.jobs}
    own = {number: launcher_at(program.launcher) for number, program in programs.items() if program.launcher}
    for number, program in programs.items():
        accepted(program.launcher_options, [type(own.get(number, launcher))])
    if any(program.kind == LockProgram.kind for program in programs.values()):
        locks.library(tell, DirectoryGuardian)
    launchers = {**dict.fromkeys(programs, launcher), **own}
    variables = _preloaded(workload, launchers, tell)
    return LaunchPlan(mechanism, reason, launcher, own, variables, tuple(_strange(workload, launchers)))


def _strange(workload: Workload, launchers: Mapping[int, Launcher]) -> Iterator[str]:
    """A warning for each program whose ranks do not find each other."""
    for job in workload.jobs:
        launcher, (name, *_) = launchers[job.number], job.program.argv or ("",)
        if name and job.program.processes > 1 and (other := launcher.strange(shutil.which(name) or name)):
            yield (
                f"{name} loads {other}, of another MPI than {launcher.path}: each rank is alone. Name the "
                "mpiexec of its MPI by its path"
            )


def _preloaded(
    workload: Workload, launchers: Mapping[int, Launcher], tell: native.Tell
) -> dict[int, dict[str, str]]:
    """Environment variables of the commands that wait by the run's rule, or are recorded, by job."""
    libraries: dict[Launcher, native.Library] = {}
    variables_of = {}
    for job in workload.jobs:
        two_phase = job.program.waits == "two-phase"
        if not two_phase and not job.recording:
            continue
        rule = _rule(workload) if two_phase else AS_MPI
        launcher = launchers[job.number]
        if launcher not in libraries:
            libraries[launcher] = native.carried([launcher.path]) or native.library(
                native.wrapper([launcher.path]), tell, DirectoryGuardian
            )
        folder = Path(job.recording) if job.recording else None
        around = of_command(dict(job.program.environment))
        variables_of[job.number] = libraries[launcher].environment(rule, folder, around)
    return variables_of


def _rule(workload: Workload) -> Waiting:
    if workload.options.waiting == "oracle":
        raise InputError(
            "waiting",
            "oracle",
            "the imbalance of a command is unknown",
            "choose another rule for jobs with two-phase waits",
        )
    return workload.options.waiting_rule(
        context_switch_us=workload.context_switch_us, latency_us=workload.latency_us
    )


def _mechanism(workload: Workload) -> tuple[str | None, str]:
    mechanisms.check_local(workload.options.local)
    if not workload.policy.stops_processes and not any(job.root for job in workload.jobs):
        return None, "the policy stops nothing"
    return mechanisms.choose(workload.options.mechanism)


def session(workload: Workload) -> tuple[Session, list[Job]]:
    """A new session for a workload, and its jobs as the policy sees them."""
    for core in workload.processors:
        if core not in os.sched_getaffinity(0):
            raise InputError("processors", core, "this process may not use that core", "choose other cores")
    if workload.nodes and any(job.program.adapts for job in workload.jobs):
        raise InputError(
            "malleable",
            True,
            "the processes of a malleable job, and of TASKS, cannot move between hosts",
            "run it on one host, or leave malleable out",
        )
    if workload.nodes and any(job.program.checkpoint_phases for job in workload.jobs):
        raise InputError(
            "checkpoint_phases",
            True,
            "checkpoints stay on the host on which they are made",
            "run it on one host, or leave checkpoint_phases out",
        )
    if workload.nodes and any(job.program.threads > 1 for job in workload.jobs):
        raise InputError(
            "threads",
            True,
            "the threads of a process would get processors of several hosts",
            "run it on one host, or leave threads out and set bind = false",
        )
    if any(job.program.adapts for job in workload.jobs):
        workload.options.check_adapting()
    moves = workload.policy.moves and (workload.owners or not workload.policy.uses_owner_load)
    if workload.nodes and moves:
        raise InputError(
            "policy",
            type(workload.policy).__name__,
            "lets running processes move, and none can move between hosts",
            "run it on one host",
        )
    jobs = [job.seen() for job in workload.jobs]
    new_session = Session(workload.policy, Machine(workload.processor_count, workload.topology), jobs)
    for job in jobs:
        if not workload.policy.allows_oversubscription:
            fits("processes", new_session.processes(job.number) or 1, workload.processor_count)
    return new_session, jobs
