"""Kill a part of a command at a random instant of its life, and see what is left of it.

The victim is chosen by its role among the processes that exist at that instant: the driver alone in
the beginning, later its agents, guardians, launchers, proxies and ranks as well.
"""

from __future__ import annotations

import functools
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import psutil
from netns_cluster import Cluster, cluster
from runs import command, everything_in, state, text, two_processors

from coordinator.host.launchers import find_launcher
from coordinator.host.mechanisms import cgroups_of_runs, known
from coordinator.host.processes import JOB, RUN, environment_of
from workloads import native

PATIENCE_S = 10.0
"""How long after the end of the driver something of its run may be there."""

LIFE_S = 180.0
"""How long a driver may take to end by itself when another part was killed."""

EXPERIMENT = """
processors = 2
repeats = 1
[machine]
context_switch_us = 50
latency_us = 10
local = "round-robin"
[[jobs]]
count = 2
program = { pattern = "NEWS", processes = 2, granularity_us = 100, phases = 300 }
[[schedulers]]
policy = "gang"
quantum_ms = 10
"""

SBATCH = """#!/bin/sh
sleep 0.3
echo 1
"""
"""Takes any script, and gives it a number."""

LOCKSTEP = (sys.executable, "-P", "-m", "harness")

TEMPORARY = re.compile(r"(lockstep|hydra|ompi|openmpi|prte|pmix|mpich|mpiexec)", re.IGNORECASE)
"""How Lockstep and the launchers name what they leave in /tmp if they heed no TMPDIR."""

PROGRAMS = {
    **dict.fromkeys(("mpiexec", "mpiexec.hydra", "mpirun", "prterun", "orterun"), "launcher"),
    **dict.fromkeys(("hydra_pmi_proxy", "prted", "orted"), "proxy"),
}
MODULES = {
    "coordinator.node.agent": "agent",
    "coordinator.host.guardian": "guardian",
    "coordinator.host.guarded_program": "wrapper",
    "harness": "wrapper",  # of a rank, if it is not the driver
    "workloads.rank": "rank",
    "workloads.probe": "rank",
    "mpi4py.futures": "rank",
}


def role(pid: int) -> str:
    """What part a process plays; it may be gone."""
    words = command(pid)
    if not words:
        return ""
    if (name := Path(words[0]).name) in PROGRAMS:
        return PROGRAMS[name]
    # A way to another host, or a keeper of a status.
    if "netns_cluster.py" in " ".join(words[:5]) or name == "sh":
        return "launcher"
    if name == "native-rank":
        return "rank"
    return next((MODULES[word] for word in words[:8] if word in MODULES), "other")


class Life(Protocol):
    """A command that was started, and all that there is of it."""

    def driver(self) -> int | None:
        """The pid of the command; None before it runs and after its end."""
        ...

    def processes(self) -> list[int]:
        """Pids of all that descends from it, wherever it is."""
        ...

    def status(self) -> int | None:
        """How it ended, as in ``subprocess``; None if it has not."""
        ...

    def files(self) -> list[str]:
        """Everything that it should not leave: files, sockets, shared memory."""
        ...

    def said(self) -> str:
        """What it wrote on standard error."""
        ...


class OneHost:
    """A command on this host, in a nest."""

    def __init__(self, argv: Sequence[str], root: Path) -> None:
        self._root = root
        for name in ("runtime", "tmp", "bin"):
            (root / name).mkdir(mode=0o700)
        (root / "bin/sbatch").write_text(SBATCH)
        (root / "bin/sbatch").chmod(0o700)
        environment = {
            "XDG_RUNTIME_DIR": str(root / "runtime"),
            "TMPDIR": str(root / "tmp"),
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
        }
        self._before = {*_segments(), *_temporary()}
        with (root / "err").open("wb") as err, (root / "nest").open("wb") as told:
            self.nest = subprocess.Popen(
                [sys.executable, "-S", str(Path(__file__).with_name("nest.py")), *argv],
                cwd=root,
                env={**os.environ, **environment},
                stdout=told,
                stderr=err,
            )

    def _told(self) -> list[int]:
        return [int(line) for line in text(self._root / "nest").split("\n")[:-1]]

    def driver(self) -> int | None:
        told = self._told()
        return told[0] if len(told) == 1 else None

    def processes(self) -> list[int]:
        parents = {pid: _parent(pid) for pid in psutil.pids()}
        found = {self.nest.pid}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(pid for pid in found - {self.nest.pid} if state(pid) not in ("", "Z"))

    def status(self) -> int | None:
        told = self._told()
        return told[1] if len(told) > 1 else None

    def files(self) -> list[str]:
        ours = [name for place in ("runtime", "tmp") for name in everything_in(self._root / place)]
        ours += [str(path) for path in self._root.glob("cache/lockstep/.*")]
        ours += [str(path) for path in self._root.glob("records/*") if not _whole(path)]
        return ours + sorted({*_segments(), *_temporary()} - self._before)

    def said(self) -> str:
        return text(self._root / "err")

    def end(self) -> None:
        """Leave nothing, whatever the test has found."""
        while self.nest.poll() is None:
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self.nest.wait(0.1)


class TwoHosts:
    """A command on the head of two emulated hosts."""

    def __init__(self, argv: Sequence[str], root: Path, hosts: Cluster) -> None:
        self._root, self._hosts = root, hosts
        self._before = set(_temporary())
        script = f'cd {root}; exec "$@" > out 2> err'
        self._ssh = hosts.start(["sh", "-c", script, "sh", *argv])

    def driver(self) -> int | None:
        sign = shlex.join(LOCKSTEP[1:])
        found = [pid for pid in self._hosts.head.processes() if sign in " ".join(command(pid))]
        return found[0] if found and self._ssh.poll() is None else None

    def processes(self) -> list[int]:
        return [pid for pid in self._hosts.processes() if state(pid) not in ("", "Z")]

    def status(self) -> int | None:
        status = self._ssh.poll()
        return status if status is None or status < 192 else status - 256  # it came in a byte

    def files(self) -> list[str]:
        return self._hosts.files() + sorted(set(_temporary()) - self._before)

    def said(self) -> str:
        return text(self._root / "err")

    def end(self) -> None:
        """The hosts end with all that is on them."""
        self._ssh.kill()
        self._ssh.communicate()


def _parent(pid: int) -> int:
    words = text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(words[1]) if words else 0


def _segments() -> list[str]:
    """What this user has in /dev/shm and no living process maps: who maps it is told of by itself."""
    found = [path for path in Path("/dev/shm").iterdir() if _ours(path)]
    maps = "".join(text(f"/proc/{pid}/maps") for pid in psutil.pids() if found)
    return [str(path) for path in found if str(path) not in maps]


def _temporary() -> list[str]:
    return [str(path) for path in Path("/tmp").iterdir() if TEMPORARY.match(path.name) and _ours(path)]


def _whole(record: Path) -> bool:
    """Whether a file is the record of a rank."""
    try:
        return "waits" in json.loads(text(record))
    except ValueError:
        return False


def _ours(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.getuid()
    except OSError:
        return False


def _run(number: int, hosts: Sequence[str] = ()) -> list[str]:
    usable = [name for name, mechanism in known().items() if not mechanism.unavailable()]
    mechanism = f'schedulers.0.mechanism="{usable[number % len(usable)]}"'
    where = ["--hosts", ",".join(f"{host}:1" for host in hosts)] if hosts else []
    return [*LOCKSTEP, "run", "x.toml", "--no-simulate", "--set", mechanism, *where]


def _calibrate(number: int) -> list[str]:
    return [*LOCKSTEP, "calibrate"]


def _simulate(number: int) -> list[str]:
    return find_launcher().argv(3, [*LOCKSTEP, "simulate", "x.toml", "--mpi"])


@functools.cache
def _native_program() -> tuple[TemporaryDirectory[str], str]:
    """A program that is not ours, in a folder that lasts as long as this."""
    folder = TemporaryDirectory(prefix="ls-kill-program-")
    program = f"{folder.name}/native-rank"
    source = Path(__file__).parent / "native/bsp.c"
    wrapper = native.wrapper(find_launcher().argv(2, ["true"]))
    subprocess.run([wrapper, "-O1", "-o", program, source], check=True)
    return folder, program


def _exec(number: int) -> list[str]:
    """Number 0 ends by itself soon; the others go on until something of them is killed."""
    _, program = _native_program()
    compiling = ["env", "XDG_CACHE_HOME=cache"] if number % 4 == 3 else []
    command = find_launcher().argv(2, [program, "300", ".5", "1000000" if number else "3000"])
    return [*compiling, *LOCKSTEP, "exec", "--record", "records", "--", *command]


def _submit(number: int) -> list[str]:
    return [*LOCKSTEP, "submit", "x.toml"]


COMMANDS: dict[str, Callable[[int], list[str]]] = {
    "run": _run,
    "calibrate": _calibrate,
    "simulate": _simulate,
    "exec": _exec,
    "submit": _submit,
}
"""Command lines on one host, by their names."""

ELSEWHERE = "run on two hosts"


@contextmanager
def started(what: str, number: int) -> Iterator[Life]:
    """A command that was started just now; afterwards nothing of it is left."""
    with TemporaryDirectory(prefix="ls-kill-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        (root / "x.toml").write_text(EXPERIMENT)
        if what != ELSEWHERE:
            two_processors()
            alone = OneHost(COMMANDS[what](number), root)
            try:
                yield alone
            finally:
                alone.end()
            return
        with cluster(2) as hosts:
            there = TwoHosts(_run(number, hosts.hosts), root, hosts)
            try:
                yield there
            finally:
                there.end()


@dataclass
class Outcome:
    """What was done, and what came of it.

    Attributes:
        told: what was done, in words.
        role: of the victim; empty if everything was over before.
        clean_s: from the end of the driver until nothing was left.
        faults: what is not as it should be.
    """

    told: str
    role: str = ""
    clean_s: float = 0.0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n  ".join([self.told, *self.faults])


@dataclass(frozen=True)
class Kill:
    """Something to do: a signal to a part of a command. SIGKILL goes to any, others to the driver."""

    what: str
    number: int
    seed: str
    signum: signal.Signals = signal.SIGKILL

    def do(self, life_s: float) -> Outcome:
        """Do it at an instant of a life of so many seconds."""
        choices = random.Random(f"{self.seed}-{self.number}")
        instant_s = choices.uniform(0.0, life_s)
        with started(self.what, self.number) as life:
            begin_s = time.monotonic()
            if self.what == "exec" and self.number % 2:  # most of its life is its start
                instant_s = self._first_rank_s(life) - begin_s + choices.uniform(0.0, 1.0)
            while time.monotonic() < begin_s + instant_s and life.status() is None:
                time.sleep(0.002)
            while not (life.driver() or life.status() is not None):
                time.sleep(0.002)
            outcome = self._strike(life, choices)
            outcome.told += f" {time.monotonic() - begin_s:.3f} s after the start, of {life_s:.1f} s"
            outcome.told += f" (LOCKSTEP_KILLS_SEED={self.seed}, number {self.number})"
            follow(life, outcome)
            return self._judged(life, outcome)

    def _first_rank_s(self, life: Life) -> float:
        """Wait for a rank; returns when that was."""
        while life.status() is None and not any(role(pid) == "rank" for pid in life.processes()):
            time.sleep(0.01)
        return time.monotonic()

    def _strike(self, life: Life, choices: random.Random) -> Outcome:
        while life.status() is None:
            driver = life.driver()
            if driver is None:  # between its shell and itself, or between its end and its status
                continue
            parts: dict[str, list[int]] = {"driver": [driver]}
            if self.signum == signal.SIGKILL:
                for pid in life.processes():
                    if pid != driver and (found := role(pid)):
                        parts.setdefault(found, []).append(pid)
            chosen = choices.choice(sorted(parts))
            victim = choices.choice(parts[chosen])
            told = f"{self.what}: {self.signum.name} to {chosen} {victim} ({' '.join(command(victim))[:200]})"
            with suppress(ProcessLookupError):
                os.kill(victim, self.signum)
                if self.what == "exec" and chosen not in ("driver", "launcher", "rank"):
                    # It goes on without a guardian, and Hydra may wait for ever for its proxy.
                    os.kill(driver, signal.SIGKILL if chosen == "proxy" else signal.SIGTERM)
                return Outcome(told, chosen)
        return Outcome(f"{self.what}: had ended")

    def _judged(self, life: Life, outcome: Outcome) -> Outcome:
        """Look at how the driver ended, too."""
        status, said = life.status(), life.said()
        if status is not None and status not in self._expected(outcome.role):
            outcome.faults.append(f"the driver ended with status {status}")
        if "Traceback" in said and str(Path(__file__).parents[1]) in said:
            outcome.faults.append("the driver printed a traceback")
        if outcome.faults:
            outcome.faults += [f"| {line}" for line in said.splitlines()[-12:]]
        return outcome

    def _expected(self, role: str) -> Sequence[int]:
        if not role:
            return (0,)
        if self.what in ("simulate", "exec") and role != "driver":  # as the launcher says
            return range(-64, 256)
        if self.signum == signal.SIGKILL:
            return (-signal.SIGKILL,) if role == "driver" else (0, 1)
        # It may have been as good as over, or Python not yet far enough to do anything about it.
        return (130, 0, -self.signum)


def follow(life: Life, outcome: Outcome) -> None:
    """Wait for the end of the driver, and then until nothing is left, but for no longer than it may take."""
    begin_s = time.monotonic()
    while life.status() is None:
        if time.monotonic() > begin_s + LIFE_S:
            outcome.faults.append(f"the driver did not end within {LIFE_S:g} s")
            break
        time.sleep(0.01)
    begin_s = time.monotonic()
    while remains(life):
        if time.monotonic() > begin_s + PATIENCE_S:
            outcome.faults += remains(life)
            break
        time.sleep(0.02)
    outcome.clean_s = time.monotonic() - begin_s


def remains(life: Life) -> list[str]:
    """What there is of a command at this moment: processes, files, groups."""
    left = []
    for pid in life.processes():
        marks = {name: value for name, value in environment_of(pid).items() if name in (RUN, JOB)}
        words = " ".join(command(pid))[:200]
        left.append(f"process {pid} in state {state(pid)}, child of {_parent(pid)}, {marks}: {words}")
    return left + life.files() + [str(group) for group in cgroups_of_runs()]


def undisturbed(what: str) -> tuple[float, Outcome]:
    """How long a command lives if nobody does anything to it, in seconds, and what is left of it."""
    with started(what, 0) as life:
        begin_s = time.monotonic()
        outcome = Outcome(f"{what}: undisturbed")
        while life.status() is None and time.monotonic() < begin_s + LIFE_S:
            time.sleep(0.01)
        life_s = time.monotonic() - begin_s
        follow(life, outcome)
        if life.status() != 0:
            outcome.faults.append(f"it ended with status {life.status()}: {life.said()}")
        return life_s, outcome
