"""Runs to do things to: a driver in a process of its own, and what is left of it afterwards."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import run_unprivileged
from places import ROOT, SUPPORT

from coordinator import policies
from coordinator.drive.driver import run_workload
from coordinator.host.mechanisms import cgroups_of_runs, known
from coordinator.host.processes import DIRECTORY, marked
from coordinator.owners import Owner
from coordinator.view import Submitter
from coordinator.workload import Node, ParallelJob, Workload
from workloads.locks.lock_program import LockProgram
from workloads.options import DEFAULTS, Options
from workloads.program import Program
from workloads.work import Command

NOBODY = run_unprivileged.NOBODY

if __name__ != "__main__":  # the import takes a driver as long as its own modules
    import pytest

    needs_two = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="it takes two processors")

AMONG_OTHERS = (sys.executable, "-P", str(SUPPORT / "among_others.py"))
"""The command with nominal constants, and without what others do to it."""

HIDE = """
import ctypes, os, pathlib
begin, end = map(int, pathlib.Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[47:49])
ctypes.memset(begin, 0, end - begin)  # as setproctitle does
"""
"""Program text that overwrites the environment, and the mark in it."""


def two_processors():
    """The first two that this process may use; skips the test where there is only one."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        pytest.skip("takes two processors")
    return first, others[0]


def workload(policy="none", jobs=2, phases=2000, hosts=(), **changes):
    """Two-process BARRIER jobs of about 0.1 ms a phase, on the first two cores or one of each host.

    Waits block at once by default: processes that spin would take the processors of other tests.
    ``owners`` has for each processor the second at which its owner comes, ``programs`` for each job what its
    program has in place of the usual, or the whole of it, and ``partitions`` where each job waits.
    """
    parameters = changes.pop("options", {"quantum_ms": 10} if policy == "gang" else {})
    arrival_s = changes.pop("arrival_s", 0.0)
    program = Program(
        granularity_us=changes.pop("granularity_us", 100),
        imbalance=0.25,
        phases=phases,
        processes=changes.pop("processes", 2),
    )
    if section_us := changes.pop("section_us", 0):
        timing = {"granularity_us": program.granularity_us, "phases": phases, "section_us": section_us}
        program = LockProgram(processes=program.processes, **timing)
    if argv := changes.pop("command", None):
        program = Command(tuple(argv), program.processes, waits=changes.pop("waits", "mpi"))
    come_s = enumerate(changes.pop("owners", ()))
    given = {key: changes.pop(key) for key in vars(DEFAULTS) if key in changes}
    programs = [
        replace(program, **own) if isinstance(own, dict) else own
        for own in changes.pop("programs", [{}] * jobs)
    ]
    submitters = [Submitter(partition=name) for name in changes.pop("partitions", [""] * len(programs))]
    return Workload(
        tuple(
            ParallelJob(number, own, number * arrival_s, submitter=submitter)
            for number, (own, submitter) in enumerate(zip(programs, submitters, strict=True))
        ),
        policies.create(policy, parameters),
        () if hosts else two_processors(),
        nodes=tuple(Node(host) for host in hosts),
        timeout_s=changes.pop("timeout_s", 60.0),
        owners=tuple(Owner((processor,), loads=((at_s, 1.0),)) for processor, at_s in come_s),
        options=Options(**{"waiting": "immediate"} | given),
        **changes,
    )


class Run:
    """A driver in a process of its own, with a runtime directory of its own.

    Args:
        runtime: that directory.
        argv: a command that is to be the driver; by default it runs the workload of ``options``.
        popen: further arguments of ``subprocess.Popen``.
        options: of ``workload``.
    """

    def __init__(self, runtime, *, argv=(), popen=None, **options):
        self.runtime = runtime
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.driver = subprocess.Popen(
            argv or [sys.executable, str(SUPPORT / "runs.py"), json.dumps(options)],
            env={**os.environ, "XDG_RUNTIME_DIR": runtime, "PYTHONPATH": str(ROOT)},
            **{**pipes, **(popen or {})},
        )

    def processes(self):
        """Pids of what the run has started and is still there."""
        found = marked().items()
        return [pid for pid, variables in found if variables.get(DIRECTORY, "").startswith(self.runtime)]

    def part(self, name):
        """The pid of the driver, agent, guardian, mpiexec of a job, or a rank."""
        if name == "driver":
            return self.driver.pid
        places = {"agent": "coordinator.node", "guardian": "coordinator.host", "rank": "workloads"}
        for pid in self.processes():
            words = command(pid)
            if name == "mpiexec":
                found = bool(words) and Path(words[0]).name in ("mpiexec", "prterun", "mpirun")
            else:
                found = "-m" in words[1:4] and f"{places[name]}.{name}" in words[:6]
            if found:
                return pid
        return None

    def segments(self):
        """Shared-memory files that its processes map at this moment."""
        found = set()
        for pid in self.processes():
            try:
                maps = Path(f"/proc/{pid}/maps").read_text()
            except OSError:
                continue
            found |= {line.split()[5] for line in maps.splitlines() if "/dev/shm/" in line}
        return [Path(name) for name in found]

    def result(self, timeout_s=60):
        """What the driver printed; it must have exited with 0."""
        out, err = self.driver.communicate(timeout=timeout_s)
        assert self.driver.returncode == 0, err
        document = json.loads(out)
        return document

    def remains(self):
        """What there still is of the run."""
        left = [f"process {pid} {state(pid)}: {command(pid)}" for pid in self.processes()]
        left += everything_in(self.runtime)
        groups = [group for group in cgroups_of_runs() if group.name.removeprefix("lockstep-") in self.ids]
        return left + [str(group) for group in groups]

    def holds(self):
        """Whether some process of it is stopped, frozen or in a realtime class of ranks at this moment."""
        self.note()
        groups = [group for group in cgroups_of_runs() if group.name.removeprefix("lockstep-") in self.ids]
        events = [name for group in groups for name in everything_in(group) if name.endswith(".events")]
        frozen = any("frozen 1" in text(name) for name in events)
        return frozen or any(state(pid) == "T" or _in_gang(pid) for pid in self.processes())

    ids: frozenset[str] = frozenset()

    def note(self):
        """Remember the run's id, to look for its cgroup later."""
        pattern = re.compile(r"/lockstep-\d+/([^/]+)$")
        self.ids |= {found[1] for name in everything_in(self.runtime) if (found := pattern.search(name))}


def _in_gang(pid):
    """Whether the mechanism ``realtime`` has a process run."""
    try:
        return os.sched_getscheduler(pid) == os.SCHED_RR
    except ProcessLookupError:
        return False


@contextmanager
def running(**options):
    """A run in progress; afterwards nothing of it is left, whatever the test did."""
    two_processors()
    with TemporaryDirectory(prefix="ls-") as runtime:
        run = Run(runtime, **options)
        try:
            yield run
        finally:
            run.driver.kill()
            run.driver.communicate()
            eventually(lambda: not run.processes())
            for pid in run.processes():
                os.kill(pid, 9)


@contextmanager
def spawned(*argv, marks=None, **popen):
    """A program with these variables more than ours; it is killed at the end."""
    with subprocess.Popen(argv, env={**os.environ, **(marks or {})}, **popen) as started:
        try:
            yield started
        finally:
            started.kill()


def usable(mechanism):
    """Skip the test where this mechanism cannot be used."""
    reason = known()[mechanism].unavailable()
    if reason:
        pytest.skip(reason)


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def state(pid):
    """The state letter of a process; empty if it is gone."""
    return next(iter(text(f"/proc/{pid}/stat").rpartition(")")[2].split()), "")


def catches(pid, signum):
    """Whether a process has a handler for a signal."""
    masks = [
        line.split()[1] for line in text(f"/proc/{pid}/status").splitlines() if line.startswith("SigCgt")
    ]
    return any(int(mask, 16) >> (signum - 1) & 1 for mask in masks)


def text(name):
    try:
        return Path(name).read_text()
    except OSError:
        return ""


def everything_in(place):
    """The paths of all below a directory; unlike Path.rglob it bears that they go while it looks."""
    return [f"{top}/{name}" for top, inner, files in os.walk(place) for name in inner + files]


def eventually(condition, timeout_s=60.0):
    """Wait until ``condition()`` is true and return what it gave, or its last value when time is up."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return value


def as_nobody(action, *words):
    """Whether a process that is not root's can call such a function without an error."""
    return _run_unprivileged(action, words).wait() == 0


@contextmanager
def nobody_at(action, *words):
    """A context in which a process that is not root's does something, until it ends or the context does."""
    child = _run_unprivileged(action, words)
    try:
        yield
    finally:
        child.kill()
        child.wait()


def _run_unprivileged(action, words):
    program = [sys.executable, str(SUPPORT / "run_unprivileged.py"), action.__module__, action.__name__]
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{SUPPORT}"}
    return subprocess.Popen([*program, *map(str, words)], env=os.environ | paths)


def between_nodes_ns(switches):
    """For each boundary that several nodes have switched at, the time from the first to the last."""
    done = {}
    for switch in switches:
        done.setdefault(switch.due_ns, []).append(switch.due_ns + switch.switch_delay_ns)
    return sorted(max(times) - min(times) for times in done.values() if len(times) > 1)


def say(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    result = run_workload(workload(**json.loads(sys.argv[1])), say)
    told = {
        "failure": result.failure,
        "jobs": [job.failure for job in result.jobs],
        "warnings": result.warnings,
        "spans_ns": [(job.start_ns, job.finish_ns) for job in result.jobs],
        "placements": [job.placement for job in result.jobs],
        "estimates_ns": [rank.estimate_ns for rank in result.ranks],
        "hosts": sorted({rank.host for rank in result.ranks}),
        "nodes": [asdict(node) for node in result.nodes],
        "between_nodes_ns": between_nodes_ns(result.switches),
        "switches": len(result.switches),
    }
    print(json.dumps(told))
