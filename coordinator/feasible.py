"""What a workload asks for, checked against what this machine has."""

from __future__ import annotations

import os

from coordinator import mechanisms
from coordinator.launch import Launcher, launcher_at
from coordinator.session import Session
from coordinator.view import Job, Machine
from coordinator.workload import Work, Workload
from workloads.other import Command
from workloads.program import Program
from workloads.validation import InputError


def own_launchers(workload: Workload) -> dict[int, Launcher]:
    """The launchers of the jobs that do not take the common one.

    Raises:
        InputError: if there is no such launcher.
    """
    programs = {job.number: job.program for job in workload.jobs}
    return {
        number: launcher_at(program.launcher)
        for number, program in programs.items()
        if isinstance(program, Command) and program.launcher
    }


def mechanism(workload: Workload) -> tuple[str | None, str]:
    """The mechanism to use, None if the policy needs none, and why.

    Raises:
        InputError: if it cannot be used here.
    """
    mechanisms.check_local(workload.local)
    if not workload.policy.needs_mechanism:
        return None, "the policy stops nothing"
    chosen, why = mechanisms.choose(workload.mechanism)
    if chosen == "realtime" and workload.local == "rr":
        raise InputError("local", "rr", "the realtime mechanism sets the class itself", "leave local out")
    return chosen, why


def session(workload: Workload) -> tuple[Session, list[Job]]:
    """The policy's side of a workload, new, and its jobs as the policy knows them.

    Raises:
        InputError: if they do not fit the machine.
    """
    for core in workload.processors:
        if core not in os.sched_getaffinity(0):
            raise InputError("processors", core, "this process may not use that core", "choose other cores")
    if workload.nodes and any(malleable(job.program) for job in workload.jobs):
        rule = "the processes of a malleable job cannot move between hosts"
        raise InputError("malleable", True, rule, "run it on one host, or leave malleable out")
    jobs = [
        Job(
            number=job.number,
            processes=job.program.processes,
            arrival_ns=round(job.arrival_s * 1e9),
            moldable=isinstance(job.program, Program),
            malleable=malleable(job.program),
            estimate=job.estimate,
        )
        for job in workload.jobs
    ]
    made = Session(workload.policy, Machine(workload.processor_count), jobs)
    for job in jobs:
        count = made.processes(job.number)
        if (count or 1) > workload.processor_count:
            rule = f"must be at most the number of processors, {workload.processor_count}"
            raise InputError("processes", count, rule, "use more processors or fewer processes")
    return made, jobs


def malleable(program: Work) -> bool:
    """Whether a job may gain and lose processors while it runs."""
    return isinstance(program, Program) and program.malleable
