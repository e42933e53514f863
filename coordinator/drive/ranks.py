"""Starting jobs. Each rank executes the user's program in a wrapper, or one of our entries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from coordinator.drive.preflight import LaunchPlan
from coordinator.host import launch
from coordinator.host.environment import PYTHON
from coordinator.host.launch import Started
from coordinator.host.processes import JOB
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.workload import ParallelJob, Workload
from workloads.program import Program
from workloads.work import Command


def start(
    workload: Workload,
    launch_plan: LaunchPlan,
    job: ParallelJob,
    count: int,
    hosts: Sequence[str],
    directory: RunDirectory,
) -> Started:
    """Start and return the launcher of a job on ``count`` processes."""
    number = job.number
    launcher = launch_plan.own.get(number, launch_plan.launcher)
    words = launcher.argv(count, argv(workload, launch_plan, job, count, directory), hosts)
    if hosts:
        marks = directory.marks
    else:
        marks = directory.marks_apart(str(number)) | launcher.memory_apart(directory.memory / str(number))
    environment = launcher.environment({**marks, JOB: str(number)}, hosts=hosts)
    out, err = (directory.log(f"job-{number}-{stream}") for stream in ("out", "err"))
    status = directory.status(number) if workload.nodes else None
    started = launch.start(words, environment, out, err, status)
    directory.note_process(started.pid, number)
    return started


def argv(
    workload: Workload, launch_plan: LaunchPlan, job: ParallelJob, count: int, directory: RunDirectory
) -> list[str]:
    """The command line of a rank of ``job`` on ``count`` processes."""
    program, number, socket = job.program, job.number, str(directory.socket)
    if isinstance(program, Command):
        variables = dict(launch_plan.variables.get(number, {}))
        if program.waits == "two-phase":
            variables["LOCKSTEP_RECORD"] = str(directory.records(number))
        become = [*PYTHON, "-S", "-m", "coordinator.node.exec_rank", socket, str(number)]
        return [*become, json.dumps(variables), *program.argv]
    spec: dict[str, Any] = {"version": protocol.VERSION, "socket": socket, "job": number}
    if isinstance(program, Program):
        spec |= parallel(workload, number, program, count)
        return [*PYTHON, "-m", "mpi4py", "-m", "workloads.rank", json.dumps(spec)]
    spec |= {"kind": program.kind, "work": asdict(program)}
    return [*PYTHON, "-m", "workloads.single", json.dumps(spec)]


def parallel(workload: Workload, number: int, program: Program, count: int) -> dict[str, Any]:
    """The specification of a bulk-synchronous program for its ``count`` launched ranks."""
    return {
        "program": asdict(program),
        "processes": count,
        "key": [workload.seed, workload.repeat, number],
        "options": asdict(workload.options),
        "switch_us": workload.switch_us,
        "latency_us": workload.latency_us,
        "walk_step_ns": workload.walk_step_ns,
        "timeline": workload.timeline,
        "coscheduling": dict(workload.policy.coscheduling),
        "observation": dict(workload.policy.observation),
    }
