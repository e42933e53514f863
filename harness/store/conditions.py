"""The conditions of a measurement, needed to judge or to repeat it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import psutil

from coordinator.host import quotas
from coordinator.host.environment import OF_MPI, of_command
from coordinator.host.quotas import NEVER, Throttled

PACKAGES = ("lockstep-scheduling", "mpi4py", "numpy", "psutil")

TOLD = (
    *(*OF_MPI, "PSM", "MV2_", "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "MKL_", "BLIS_", "TBB_"),
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "MALLOC_", "GLIBC_TUNABLES"),
)
"""Variables of commands that conditions name with their values: they matter to MPI, threads and libraries."""

PASSING = re.compile(
    "_|PWD|OLDPWD|SHLVL|COLUMNS|LINES|(COLOR)?TERM.*|PS[0-4]|PROMPT.*|HIST.*|MAIL.*|LS_COLORS|LESS.*|PAGER"
    "|EDITOR|VISUAL|SSH_.*|(WAYLAND_)?DISPLAY|XAUTHORITY|XDG_(SESSION|SEAT|VTNR|RUNTIME).*|DBUS_.*|WINDOW.*"
    "|TMUX.*|STY|VSCODE_.*|GPG_.*|KRB5.*|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_.*|TMPDIR"
    "|(SLURM|SBATCH|PBS|LSB|GITHUB|RUNNER|PYTEST)_.*|.*(TOKEN|SECRET|PASSWORD|CREDENTIAL).*"
)
"""Variables that differ from session to session, or are secret, and that programs run alike with."""

COMPARABLE = ("host", "cpu_model", "kernel", "processors", "quota_processors", "launcher", "nodes")
"""Conditions that must be equal for two sessions to measure the same thing."""

SHORT_S = 1.0
"""Shares of less CPU time than this are too coarse: the kernel counts hundredths of a second."""


@dataclass(frozen=True, kw_only=True)
class StableConditions:
    """The conditions that stay the same while Lockstep runs (docs/reference); None for an unknown one."""

    host: str | None = None
    kernel: str | None = None
    cpu_model: str | None = None
    cores: int | None = None
    affinity: Sequence[int] | None = None
    processors: Sequence[int] | None = None
    quota_processors: float | None = None  # the smallest CPU quota of this process's control groups
    siblings: Mapping[str, str | None] | None = None
    governor: str | None = None
    memory_bytes: int | None = None
    python: str | None = None
    packages: Mapping[str, str | None] | None = None
    launcher: str | None = None
    commit: str | None = None
    argv: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class PassingConditions:
    """The conditions that change during a run, as shares of the CPU time; None for an unknown one."""

    load_before: float | None = None
    load_after: float | None = None
    wanting: int | None = None  # so many threads of others ran or waited for a processor when it began
    steal: float | None = None  # what the hypervisor gave to others
    busy: float | None = None
    others: float | None = None  # what foreign processes used
    throttled: float | None = None  # in it a CPU quota stopped our processes, in this number of its periods
    throttled_periods: int | None = None
    frequency_before_mhz: float | None = None
    frequency_mhz: float | None = None


@dataclass(frozen=True, kw_only=True)
class Conditions(PassingConditions, StableConditions):
    """The conditions of a session, a run or a calibration."""

    nodes: Sequence[str] = ()  # the hosts with their numbers of processors, if there are several
    topology: str = ""  # this and the sides are the values of a [machine] table; none for a flat one
    sides: Sequence[int] = ()
    recording: str = ""  # the file with the recording of the run, below the directory for records
    recorded_until_ns: int | None = None  # when the recording ends, since the start of the run
    # The fields of ``coordinator.workload.NodeResult`` for each of several hosts.
    nodes_after: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()  # faults that did not stop the run
    # When, by its clock, a run was interrupted; ``--resume`` continued it there.
    interrupted_ns: Sequence[int] = ()
    ran_again: int = 0  # how many jobs had begun by then without an end, and ran again
    exceeded: float | None = None  # the run was stopped after so many times the sum of the times alone
    calibration: str = (
        ""  # why the constants of the run may not be those of the host; empty if nothing says so
    )
    agrees: bool = False  # whether a calibration that was not steady found what the one before it had found
    # The variables of commands that begin with one of TOLD.
    environment: Mapping[str, str] = field(default_factory=dict)
    # A digest of all others but PASSING; empty if there are no commands, or it is unknown.
    variables: str = ""

    def recorded(self) -> dict[str, Any]:
        """The conditions for a record: the lasting and the passing ones also where one is unknown."""
        complete = {one.name for one in fields(StableConditions) if self.host is not None}
        complete |= {one.name for one in fields(PassingConditions) if self.steal is not None}
        return {name: value for name, value in vars(self).items() if value or name in complete}


def of_commands(session: Conditions) -> Conditions:
    """The conditions of a session that runs commands, here and now."""
    variables = of_command({})
    announced = {name: value for name, value in variables.items() if name.startswith(TOLD)}
    rest = sorted((n, v) for n, v in variables.items() if n not in announced and not PASSING.fullmatch(n))
    return replace(
        session, environment=announced, variables=hashlib.sha256(ascii(rest).encode()).hexdigest()[:16]
    )


def of_session(processors: Sequence[int], launcher: str) -> Conditions:
    return Conditions(
        host=socket.gethostname(),
        kernel=platform.release(),
        cpu_model=_cpu_model(),
        cores=os.cpu_count(),
        affinity=sorted(os.sched_getaffinity(0)),
        processors=list(processors),
        quota_processors=min(quotas.quotas().values(), default=None),
        siblings={
            str(p): _read(f"/sys/devices/system/cpu/cpu{p}/topology/thread_siblings_list") for p in processors
        },
        governor=_read(f"/sys/devices/system/cpu/cpu{processors[0]}/cpufreq/scaling_governor"),
        memory_bytes=psutil.virtual_memory().total,
        python=platform.python_version(),
        packages={name: _version(name) for name in PACKAGES},
        launcher=launcher,
        commit=_commit(),
        argv=sys.argv[1:],
    )


@dataclass(frozen=True)
class Moment:
    """The state of the host: load average, CPU times of the processors (s), frequency (MHz)."""

    load: float
    steal_s: float
    busy_s: float
    total_s: float
    frequency_mhz: float | None
    own_s: float = 0.0  # the CPU time of this process and of its children that have ended
    throttled: Throttled = NEVER  # what CPU quotas have done to its control groups
    wanting: int = 0  # threads that run or wait for a processor anywhere on the host, without this one

    @classmethod
    def now(cls, processors: Sequence[int]) -> Moment:
        times = psutil.cpu_times(percpu=True)
        used = [times[p] for p in processors if p < len(times)]
        total_s = sum(sum(cpu[:8]) for cpu in used)  # guest times, the rest, are contained in user
        idle_s = sum(cpu.idle + cpu.iowait for cpu in used)
        frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
        return cls(
            load=os.getloadavg()[0],
            steal_s=sum(cpu.steal for cpu in used),
            busy_s=total_s - idle_s,
            total_s=total_s,
            frequency_mhz=frequency.current if frequency else None,
            own_s=sum(os.times()[:4]),
            throttled=quotas.throttled(),
            wanting=wanting(),
        )


LOOKS, BETWEEN_S = 5, 0.002
"""Looks at the threads that want a processor, and the time between two."""


def wanting() -> int:
    """Threads of this host that run or wait for a processor, without this one; 0 if the kernel does not say.

    It is the median of some looks: what wakes up for a moment is no load.
    """
    looks = []
    for look in range(LOOKS):
        if look:
            time.sleep(BETWEEN_S)
        match = re.search(r"^procs_running (\d+)$", _read("/proc/stat") or "", re.MULTILINE)
        looks.append(int(match[1]) - 1 if match else 0)
    return max(0, statistics.median_low(looks))


def crowding(during: Conditions) -> int:
    """How many threads of others more than the other processors wanted one when a run began."""
    if during.wanting is None or not during.cores:
        return 0
    return max(0, during.wanting - (during.cores - len(during.processors or ())))


def of_run(session: Conditions, before: Moment, after: Moment) -> Conditions:
    """The conditions of one run: its session's, and changes between two moments."""
    span_s = after.total_s - before.total_s
    others_s = max(0.0, after.busy_s - before.busy_s - (after.own_s - before.own_s))
    return replace(
        session,
        load_before=before.load,
        load_after=after.load,
        wanting=before.wanting,
        steal=max(0.0, (after.steal_s - before.steal_s) / span_s) if span_s > 0 else 0.0,
        busy=(after.busy_s - before.busy_s) / span_s if span_s > 0 else None,
        others=others_s / span_s if span_s > SHORT_S else None,
        throttled=(after.throttled.lost_s - before.throttled.lost_s) / span_s if span_s > 0 else None,
        throttled_periods=after.throttled.periods - before.throttled.periods,
        frequency_before_mhz=before.frequency_mhz,
        frequency_mhz=after.frequency_mhz,
    )


def difference(old: Conditions, new: Conditions) -> tuple[str, Any, Any] | None:
    return next(differences(old, new), None)


def differences(old: Conditions, new: Conditions) -> Iterator[tuple[str, Any, Any]]:
    """All fields of COMPARABLE, and all variables, in which two sessions differ, with both values."""
    both = [(name, getattr(old, name) or None, getattr(new, name) or None) for name in COMPARABLE]
    if old.variables and new.variables:
        before = old.environment
        after = new.environment
        both += [(f"environment.{n}", before.get(n), after.get(n)) for n in sorted({**before, **after})]
        both.append(("variables", old.variables, new.variables))
    yield from (one for one in both if one[1] != one[2])


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _cpu_model() -> str:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of this checkout, with "-dirty" if it was changed; None outside of one."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
