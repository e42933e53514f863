"""Jobs that take turns, as a workload.

On this host a job is all that its first process has started. On several hosts it is a command of an
experiment: Lockstep gives its ranks their processors, and starts them through the job's launcher.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from coordinator import policies
from coordinator.host import identity
from coordinator.host.processes import descendants, is_ours
from coordinator.workload import FOR_EVER_S, Node, ParallelJob, Workload
from harness.spec import colocate, overrides
from harness.spec.jobs import job_group
from harness.spec.scheduler import Scheduler, reader, schedulers_of
from workloads.bounds import PROCESSES, fits
from workloads.options import DEFAULTS, WITHIN_JOB
from workloads.validation import InputError
from workloads.work import Command

KERNEL_THREAD = 0x200000  # PF_KTHREAD of the kernel


def scheduler(text: str, *, running: bool) -> Scheduler:
    """The scheduler of a policy with its keys, such as ``gang quantum_ms=20``, for unmodified programs."""
    try:
        (chosen,) = schedulers_of([overrides.scheduler(text)], reader(here=True))
    except InputError as error:
        key = error.key.removeprefix("schedulers[0].")
        raise InputError("--policy", text, f"{key} {error.rule}", error.remedy) from None
    policy = chosen.policy
    options = chosen.options
    changed = [key for key in vars(DEFAULTS) if getattr(options, key) != getattr(DEFAULTS, key)]
    key = next((key for key in changed if key != "bind"), "")
    places = running and not policy.stops_processes and chosen.name not in ("none", "batch")
    for refused, rule, remedy in (
        (key == "waiting", "needs ranks that wait two-phase", "start them together under lockstep exec"),
        (key, f"cannot have {key}, which is for the programs of experiments", "leave it out"),
        (policy.relocates, "cannot move these jobs to other processors", "choose gang or batch"),
        (places, "needs jobs that start, and some run already", "choose gang, batch or none"),
    ):
        if refused:
            raise InputError("--policy", text, rule, remedy)
    return replace(chosen, options=replace(options, bind=False)) if running else chosen


def quantum_of_jobs(text: str) -> int | None:
    """The length in ns of the slots of jobs whose nodes are given; None if one runs after the other."""
    policy = scheduler(text, running=True).policy
    if policy == policies.create("batch", {}):
        return None
    quantum_ms: float | None = getattr(policy, "quantum_ms", None)
    if quantum_ms is None or policy != policies.create("gang", {"quantum_ms": quantum_ms}):
        raise InputError(
            "--policy",
            text,
            "cannot choose nodes for jobs that Slurm has placed",
            'choose batch, or "gang quantum_ms=100"',
        )
    return round(quantum_ms * 1e6)


def workload(
    roots: Sequence[str], chosen: Scheduler, processors: tuple[int, ...], size: int | None
) -> Workload:
    """The workload, without a time limit, of jobs whose roots have these names; each uses ``size`` cores."""
    if size is not None:
        PROCESSES.check("--processes", size)
        fits("--processes", size, len(processors))
    programs = [Command((root,), threads=size or len(processors)) for root in roots]
    jobs = [ParallelJob(number, program, root=program.argv[0]) for number, program in enumerate(programs)]
    result = Workload(tuple(jobs), chosen.policy, processors, chosen.options)
    return replace(result, timeout_s=FOR_EVER_S, lease_s=colocate.LEASE_S)


def workload_on(nodes: Sequence[Node], commands: Sequence[Sequence[str]], chosen: Scheduler) -> Workload:
    """The workload, without a time limit, of commands whose ranks the policy places on hosts.

    A command that names no launcher is one process. The ranks of a job share its processors on each host, as
    the processes of a job do on one host alone.
    """
    options = chosen.options
    if options.bind is True and not chosen.policy.moves:
        options = replace(options, bind=WITHIN_JOB)
    processors = sum(node.processors for node in nodes)
    jobs = []
    for number, words in enumerate(commands):
        try:
            program = job_group({"command": colocate.launched(words)}, "").program
        except InputError as error:
            raise InputError("COMMAND", shlex.join(words), error.rule, error.remedy) from None
        if program.processes > processors and not chosen.policy.allows_oversubscription:
            raise InputError(
                "COMMAND",
                shlex.join(words),
                f"has {program.processes} ranks, and these hosts have {processors} processors",
                f"name more processors, as in --hosts {nodes[0].host}:{program.processes}",
            )
        jobs.append(ParallelJob(number, program))
    return Workload(
        tuple(jobs),
        chosen.policy,
        (),
        options,
        nodes=tuple(nodes),
        timeout_s=FOR_EVER_S,
        lease_s=colocate.LEASE_S,
    )


def check_roots(pids: Sequence[int]) -> None:
    """Check that these processes, with all that they have started, are jobs that we may stop and continue."""
    above = set(_upwards(os.getpid()))
    for pid in pids:
        members = [pid, *(one.pid for one in descendants(pid))]
        states = {one: process.state for one in members if (process := identity.stat(one))}
        there = pid in identity.pids() and states.get(pid, "Z") not in "ZX"
        stopped = next((one for one, state in states.items() if state == "T"), None)
        for refused, rule, remedy in (
            (
                not there or _of_kernel(pid),
                "is not a running program",
                "name a launcher, or the root of a program",
            ),
            (
                pid in above,
                "cannot be stopped, as it has started this command",
                "name the root of a job, not its shell",
            ),
            (os.getuid() and not is_ours(pid), "is not yours, but another user's", "be that user, or root"),
            (
                stopped,
                f"must be running, and its process {stopped} is stopped",
                f"kill -CONT {stopped}, or leave it out",
            ),
        ):
            if refused:
                raise InputError("--pid", pid, rule, remedy)
    for one, other in permutations(pids, 2):
        if one == other:
            raise InputError("--pid", one, "cannot be named twice", "leave one of them out")
        if one in _upwards(other):
            raise InputError(
                "--pid", other, f"cannot be named with {one}, to which it belongs", "leave one of them out"
            )


def _of_kernel(pid: int) -> bool:
    try:
        flags = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[6]
    except OSError:
        return False
    return bool(int(flags) & KERNEL_THREAD)


def _upwards(pid: int) -> Iterator[int]:
    """A process, its parent, and so on."""
    while pid and (process := identity.stat(pid)):
        yield pid
        pid = process.parent
