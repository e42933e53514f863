"""What on a host matters to a measurement, with a remedy for disturbances (``lockstep doctor``)."""

import os
import re
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from coordinator.host import causes, mechanisms, quotas
from coordinator.host.launcher_choice import find_launcher, launchers
from coordinator.host.processor_claims import rivals
from coordinator.host.rundir import SHARED_MEMORY
from harness.measure import runner
from harness.measure.calibrate import Constants
from harness.measure.measured import Measured
from harness.measure.plan import plan
from harness.measure.session import MeasurementSession, Watcher
from harness.spec import experiment
from harness.store import conditions
from harness.store.conditions import Conditions, Moment
from harness.store.records import DEDICATED, Calibration, RunRecord
from workloads.validation import InputError

OTHERS, STEAL = 0.05, 0.01
"""Most share of the CPU time that other programs, and the hypervisor, take on a quiet host."""

WATCH_S = 2.0
GLANCE_S = 0.7
"""Time to watch two processors before a measurement. The kernel counts hundredths of a second of each."""

AA_PROCESSORS = 2
AA_EXPERIMENT = {
    "name": "aa",
    "processors": AA_PROCESSORS,
    "jobs": [{"count": 2, "program": {"processes": 2, "granularity_us": 100, "dedicated_s": 0.5}}],
    "schedulers": [{"policy": "gang", "quantum_ms": 20}],
}

SHARED_MEMORY_BYTES = 256 << 20

SHARED = (
    *("processors", "siblings", "load", "other programs", "hypervisor", "frequency", "control group"),
    *("mechanisms", "C compiler", "shared memory"),
)
"""Findings that may be told in public; the others name users, hosts or directories."""


@dataclass(frozen=True)
class Finding:
    """A fact about the host; ``remedy`` says what to do about it, and is empty if it is as it should be."""

    subject: str
    found: str
    remedy: str = ""


def check(processors: Sequence[int], watch_s: float = WATCH_S) -> Iterator[Finding]:
    """All findings about these processors of this host; it watches them for ``watch_s`` seconds."""
    session = conditions.of_session(processors, "")
    yield from _processors(processors, session.cpu_model, session.siblings or {})
    yield from _rivals(processors)
    yield from _watched(session, processors, watch_s)
    yield _frequency(session.governor)
    yield from _quota(len(processors))
    yield from _mechanisms()
    yield from _programs()
    yield shared_memory()


def disturbances(processors: Sequence[int], watch_s: float = GLANCE_S) -> Iterator[str]:
    """Disturbances of measurements here now, with remedies; ``session.reserved`` tells of other Locksteps."""
    session = conditions.of_session(processors, "")
    of_host = _frequency(session.governor), *_quota(len(processors)), *_mechanisms()
    findings = *_watched(session, processors, watch_s), *of_host
    return (f"{one.subject}: {one.found}; {one.remedy}" for one in findings if one.remedy)


def shared_memory() -> Finding:
    """What is free where ranks share memory."""
    text = f"{SHARED_MEMORY} cannot be written"
    remedy = causes.MOUNT
    if os.access(SHARED_MEMORY, os.W_OK):
        room = shutil.disk_usage(SHARED_MEMORY).free
        text = f"{room >> 20} MiB free in {SHARED_MEMORY}"
        remedy = "make room: MPI keeps its messages there" if room < SHARED_MEMORY_BYTES else ""
    return Finding("shared memory", text, remedy)


def _frequency(governor: str | None) -> Finding:
    text = f"governor {governor}" if governor else "cannot be set here"
    remedy = "" if governor in (None, "performance") else "cpupower frequency-set -g performance"
    return Finding("frequency", text, remedy)


def _processors(
    processors: Sequence[int], model: str | None, siblings: Mapping[str, str | None]
) -> Iterator[Finding]:
    used = ", ".join(map(str, processors))
    remedy = "" if len(processors) > 1 else "use two or more: jobs of one process never wait for each other"
    yield Finding("processors", f"{used} ({model}), Linux {os.uname().release}", remedy)
    groups = [group for group in siblings.values() if group]
    if len(set(groups)) < len(groups):
        yield Finding(
            "siblings",
            "some processors are hyperthreads of one core",
            "they share a core's units: choose one of each core (taskset), or turn off SMT",
        )


def _rivals(processors: Sequence[int]) -> Iterator[Finding]:
    others = rivals(processors)
    for rival in others:
        yield Finding(
            "Lockstep",
            f"{rival.name} measures on processors {rival.processors}",
            "wait for its end (lockstep run does), or use other processors",
        )
    if not others:
        yield Finding("Lockstep", "no other run uses these processors")


def _watched(session: Conditions, processors: Sequence[int], watch_s: float) -> Iterator[Finding]:
    before = Moment.now(processors)
    time.sleep(watch_s)
    during = conditions.of_run(session, before, Moment.now(processors))
    waiting = conditions.crowding(during)
    yield Finding(
        "load",
        f"{during.wanting} threads of other programs want a processor",
        "wait, or stop other programs" if waiting else "",
    )
    others = during.others
    if others is not None:
        remedy = "stop them, or measure at another time" if others > OTHERS else ""
        yield Finding("other programs", f"took {others:.1%} of the processors in {watch_s:g} s", remedy)
    steal = during.steal or 0.0
    remedy = "measure on a quieter host, or one without a hypervisor" if steal > STEAL else ""
    yield Finding("hypervisor", f"took {steal:.1%} of the processors in {watch_s:g} s", remedy)


def _quota(processors: int) -> Iterator[Finding]:
    for group, quota in quotas.quotas().items():
        if quota < processors:
            yield Finding(
                "control group",
                f"{group} may use {quota:g} processors",
                "raise its CPU quota: the kernel stops all ranks when it is used up",
            )


def _mechanisms() -> Iterator[Finding]:
    unavailable = {name: kind.unavailable() for name, kind in mechanisms.known().items()}
    usable = [name for name, reason in unavailable.items() if not reason]
    reason = unavailable.get("realtime", "")
    remedy = f"slots begin late where ranks spin: realtime {reason}" if reason else ""
    yield Finding("mechanisms", ", ".join(usable) or "none", remedy)


def _programs() -> Iterator[Finding]:
    try:
        yield Finding("MPI", str(find_launcher()))
    except InputError as error:
        yield Finding("MPI", "no launcher", error.remedy)
    compiler = shutil.which("cc")
    remedy = "" if compiler else "install one (Debian: gcc): two-phase waits of other programs are compiled"
    yield Finding("C compiler", compiler or "none", remedy)
    remedy = "set XDG_CACHE_HOME: without a cache the simulator compiles each time"
    try:
        where = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        yield Finding("cache", "no home directory", remedy)
        return
    usable = os.access(where if where.exists() else where.parent, os.W_OK)
    yield Finding("cache", f"{where} on {socket.gethostname()}", "" if usable else remedy)


def shared(
    processors: Sequence[int], findings: Iterable[Finding], calibrations: Sequence[Calibration]
) -> Iterator[Finding]:
    """What may be told in public: no name of a user, host or control group, of paths only the last part."""
    session = conditions.of_session(processors, "")
    packages = {"Python": session.python, **(session.packages or {})}
    yield Finding("versions", ", ".join(f"{name} {version}" for name, version in packages.items() if version))
    kernel = os.uname()
    preemption = re.findall(r"\bPREEMPT\w*", kernel.version)  # the rest may name its builder
    words = [f"{kernel.sysname} version {kernel.release}", kernel.machine, *preemption[:1]]
    yield Finding("kernel", ", ".join(words))
    yield Finding("machine", f"{session.cores} processors, {(session.memory_bytes or 0) / 2**30:.0f} GiB")
    mpis = dict.fromkeys(f"{one.kind} {one.version}" for one in launchers())
    yield Finding("MPIs", ", ".join(mpis) or "none")
    for one in findings:
        if one.subject in SHARED:
            text = re.sub(r"^.* may use", "may use", re.sub(r"/(?:[^\s/()]+/)*", "", one.found))
            yield Finding(one.subject, text, one.remedy)
    for calibration in calibrations:
        value = f"{median(calibration.samples) / 1000:.2f} us" if calibration.quantity.endswith("_ns") else ""
        if value:
            yield Finding(
                calibration.quantity.removesuffix("_ns"), f"{value} on {calibration.recorded_at[:10]}"
            )


def aa_records(pairs: int, session: MeasurementSession, watcher: Watcher) -> list[RunRecord]:
    """The records of all runs: of each pair one dedicated run, and two repeats under the scheduler."""
    experiment_here = experiment.load({**AA_EXPERIMENT, "repeats": 2 * pairs}, here=True)
    back_end = Measured(session, lambda task: Constants(), watcher.note)
    # Without the dedicated run of every second repeat.
    tasks = [task for task in plan(experiment_here) if task.kind != DEDICATED or task.repeat % 2 == 0]
    return list(runner.run(tasks, back_end, session.store, watcher))
