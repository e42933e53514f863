"""A command of Lockstep as a test sees it from outside: its processes, its status, what it leaves.

It runs on this host or on the head of two emulated hosts.
"""

import functools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from netns_cluster import cluster
from places import SUPPORT
from runs import AMONG_OTHERS, command, everything_in, state, text, two_processors

from coordinator.host.launcher_choice import find_launcher
from coordinator.host.mechanisms import known
from workloads import native

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

ONCE = f"""
import sys
sys.path.append({str(SUPPORT)!r})
from among_others import allow, once, replace
from harness.__main__ import main
from harness.measure import measured, trust
once(replace)
allow(replace)
replace(trust, "AGAIN", 0)
"""
"""Begins Lockstep, which calibrates and measures once, as on an idle host, whatever runs beside it."""

ENDS = "sys.exit(main())"
AGAIN = "measured.FRESH_S = 0.0; "
"""It takes no calibration for fresh."""

LOCKSTEP = (sys.executable, "-P", "-m", "harness")

TEMPORARY = re.compile(r"(lockstep|hydra|ompi|openmpi|prte|pmix|mpich|mpiexec)", re.IGNORECASE)
"""Names that Lockstep and launchers give files in /tmp if they ignore TMPDIR."""


class OneHost:
    """A command on this host, in a nest."""

    def __init__(self, argv, root):
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

    def _told(self):
        return [int(line) for line in text(self._root / "nest").split("\n")[:-1]]

    def driver(self):
        """The pid of the command; None before it runs and after its end."""
        told = self._told()
        return told[0] if len(told) == 1 else None

    def processes(self):
        """Pids of all its descendants, on any host."""
        parents = {pid: parent(pid) for pid in psutil.pids()}
        found = {self.nest.pid}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(pid for pid in found - {self.nest.pid} if state(pid) not in ("", "Z"))

    def status(self):
        """Its exit status, as in ``subprocess``; None before its end."""
        told = self._told()
        return told[1] if len(told) > 1 else None

    def files(self):
        """Everything that it should not leave: files, sockets, shared memory."""
        ours = [name for place in ("runtime", "tmp") for name in everything_in(self._root / place)]
        ours += [str(path) for path in self._root.glob("cache/lockstep/.*")]
        ours += [str(path) for path in self._root.glob("records/*") if not _whole(path)]
        ours += [
            f"job {job.pid} of others is {state(job.pid)}, {job.poll()}" for job in OTHERS if _harmed(job)
        ]
        return ours + sorted({*_segments(), *_temporary()} - self._before)

    def said(self):
        return text(self._root / "err")

    def end(self):
        while self.nest.poll() is None:
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self.nest.wait(0.1)


class TwoHosts(OneHost):
    """A command on the head of two emulated hosts."""

    def __init__(self, argv, root, hosts):
        self._root = root
        self._hosts = hosts
        self._before = set(_temporary())
        script = f'cd {root}; exec "$@" > out 2> err'
        self._ssh = hosts.start(["sh", "-c", script, "sh", *argv])

    def driver(self):
        sign = shlex.join(LOCKSTEP[1:])
        found = [pid for pid in self._hosts.head.processes() if sign in " ".join(command(pid))]
        return found[0] if found and self._ssh.poll() is None else None

    def processes(self):
        return [pid for pid in self._hosts.processes() if state(pid) not in ("", "Z")]

    def status(self):
        status = self._ssh.poll()
        return status if status is None or status < 192 else status - 256  # it came in a byte

    def files(self):
        return self._hosts.files() + sorted(set(_temporary()) - self._before)

    def end(self):
        """The hosts end with all that is on them."""
        self._ssh.kill()
        self._ssh.communicate()


def parent(pid):
    words = text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(words[1]) if words else 0


def _segments():
    """This user's files in /dev/shm that no living process maps."""
    found = [path for path in Path("/dev/shm").iterdir() if _ours(path)]
    maps = "".join(text(f"/proc/{pid}/maps") for pid in psutil.pids() if found)
    return [str(path) for path in found if str(path) not in maps]


def _temporary():
    """This user's files of MPI in /tmp that no living process has open."""
    place = Path("/tmp")
    listed = place.iterdir() if os.access(place, os.R_OK) else ()
    found = [str(path) for path in listed if TEMPORARY.match(path.name) and _ours(path)]
    held = {one for pid in psutil.pids() if found for one in _open_files(pid)}
    return [path for path in found if path not in held]


def _open_files(pid):
    found = []
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.append(str(descriptor.readlink()))
    return found


def _harmed(job):
    return state(job.pid) == "T" or job.poll() not in (None, 0)


def _whole(record):
    try:
        return "waits" in json.loads(text(record))
    except ValueError:
        return False


def _ours(path):
    try:
        return path.lstat().st_uid == os.getuid()
    except OSError:
        return False


def _run(number, hosts=(), before=""):
    usable = [name for name, mechanism in known().items() if not mechanism.unavailable()]
    mechanism = f'schedulers.0.mechanism="{usable[number % len(usable)]}"'
    where = ["--hosts", ",".join(f"{host}:1" for host in hosts)] if hosts else []
    lockstep = LOCKSTEP if hosts else (sys.executable, "-P", "-c", ONCE + before + ENDS)
    return [*lockstep, "run", "x.toml", "--no-simulate", "--set", mechanism, *where]


def _calibrate_again(number):
    """A run that calibrates before each repeat, as a long series does every few minutes."""
    return [*_run(number, before=AGAIN), "--set", "repeats=3"]


def _simulate(number):
    return find_launcher().argv(3, [*LOCKSTEP, "simulate", "x.toml", "--mpi"])


@functools.cache
def _native_program():
    """A program that is not ours, in a folder that lasts as long as the test process."""
    folder = TemporaryDirectory(prefix="ls-kill-program-")
    program = f"{folder.name}/native-rank"
    source = SUPPORT / "native/bsp.c"
    wrapper = native.wrapper(find_launcher().argv(2, ["true"]))
    subprocess.run([wrapper, "-O1", "-o", program, source], check=True)
    return folder, program


def _exec(number):
    """Number 0 ends by itself soon; the others run until one of their parts is killed."""
    _, program = _native_program()
    compiling = ["env", "XDG_CACHE_HOME=cache"] if number % 4 == 3 else []
    command = find_launcher().argv(2, [program, "300", ".5", "1000000" if number else "3000"])
    return [*compiling, *LOCKSTEP, "exec", "--record", "records", "--", *command]


@functools.cache
def _hanging_program():
    """A program whose ranks hang, with the name by which kills know ranks, and its folder."""
    folder = TemporaryDirectory(prefix="ls-kill-program-")
    program = f"{folder.name}/native-rank"
    wrapper = native.wrapper(find_launcher().argv(2, ["true"]))
    subprocess.run([wrapper, "-O1", "-pthread", "-o", program, SUPPORT / "native/hangs.c"], check=True)
    native.library(wrapper)  # else its first life would be much longer
    return folder, program


def _exec_stuck(number):
    """It reports on ranks that hang, and ends them."""
    command = find_launcher().argv(2, [_hanging_program()[1], "tag"])
    return [*LOCKSTEP, "exec", "--stuck", "1", "--", *command]


def _exec_reports(number):
    """It reports on ranks that hang, and leaves them: it does not end by itself."""
    command = find_launcher().argv(2, [_hanging_program()[1], "tag"])
    return [*LOCKSTEP, "exec", "--stuck", "1:report", "--", *command]


def _spinning(seconds=1.0):
    return [sys.executable, "-c", f"import time\nwhile time.process_time() < {seconds}: pass"]


def _colocate(number):
    _bystander()
    return [*LOCKSTEP, "colocate", "--rounds", "1", "--", *_spinning(0.3), ":::", *_spinning(0.3)]


def _turns(number):
    _bystander()
    return [*LOCKSTEP, "turns", "--quantum-ms", "20", "--", *_spinning(), ":::", *_spinning()]


def _turns_of_others(number):
    """Its jobs are others', who look whether they go on: ``OneHost.files`` tells."""
    jobs = [subprocess.Popen(_spinning(3.0), start_new_session=True) for _ in range(2)]
    OTHERS.extend(jobs)
    _bystander()
    pids = [word for job in jobs for word in ("--pid", str(job.pid))]
    return [*LOCKSTEP, "turns", "--quantum-ms", "20", *pids]


def _bystander():
    """Somebody's program beside the command, which no kill may touch."""
    OTHERS.append(subprocess.Popen(["sleep", "1000"]))


OTHERS = []
"""Programs that a command may stop, but must let go."""


@functools.cache
def _stored():
    """A folder with results of the experiment, that lasts as long as the test process."""
    folder = TemporaryDirectory(prefix="ls-kill-results-")
    (Path(folder.name) / "x.toml").write_text(EXPERIMENT)
    words = [*AMONG_OTHERS, "run", "x.toml", "--no-wait", "--results", "stored"]
    subprocess.run(words, cwd=folder.name, check=True, capture_output=True)
    return folder


def _with_stored(*words):
    """A command that reads results, whose place stands for STORED in it."""
    return lambda number: [
        *LOCKSTEP,
        *(f"{_stored().name}/stored" if word == "STORED" else word for word in words),
    ]


def _with_native(*words):
    """A command about the program that is not ours."""
    return lambda number: [
        *LOCKSTEP,
        *words,
        "--",
        *find_launcher().argv(2, [_native_program()[1], "300", ".5", "3000"]),
    ]


COMMANDS = {
    "run": _run,
    "calibrate": lambda number: [*LOCKSTEP, "calibrate"],
    "calibrate again": _calibrate_again,
    "simulate": _simulate,
    "exec": _exec,
    "exec stuck": _exec_stuck,
    "exec reports": _exec_reports,
    "submit": lambda number: [*LOCKSTEP, "submit", "x.toml"],
    "colocate": _colocate,
    "turns": _turns,
    "turns of others": _turns_of_others,
    "simulate a sweep": lambda number: [*LOCKSTEP, "simulate", "x.toml", *SWEEP],
    "run a sweep": lambda number: [*_run(number), *SWEEP],
    "tune": _with_native("tune", "--rounds", "1"),
    "record": _with_native("record", "-o", "seen.npz"),
    "reproduce": lambda number: [*LOCKSTEP, "reproduce", "hori96", "--quick"],
    "explore": lambda number: [*LOCKSTEP, "explore", "x.toml"],
    "compare": _with_stored("compare", "STORED"),
    "report": _with_stored("report", "STORED", "-o", "report.html"),
    "advise": lambda number: [*LOCKSTEP, "advise"],
    "doctor": lambda number: [*LOCKSTEP, "doctor", "--self-test", "--pairs", "3"],
    "submit and wait": lambda number: [*LOCKSTEP, "submit", "x.toml", "--wait"],
}
"""Command lines on one host, by their names."""

SWEEP = ("--set", "sweep={'program.granularity_us'=[100,200,300,400]}")

ELSEWHERE = "run on two hosts"
TURNS_ELSEWHERE = "turns on two hosts"


def _turns_on_hosts(number, hosts):
    jobs = [shlex.join(["mpiexec", "-n", "2", *_spinning()])] * 2
    where = ["--hosts", ",".join(hosts), "--quantum-ms", "20"]
    return [*LOCKSTEP, "turns", *where, "--", jobs[0], ":::", jobs[1]]


ON_HOSTS = {ELSEWHERE: _run, TURNS_ELSEWHERE: _turns_on_hosts}
"""Command lines on the head of two hosts, by their names."""


@contextmanager
def started(what, number):
    """Start a command; nothing of it remains afterwards."""
    with TemporaryDirectory(prefix="ls-kill-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        (root / "x.toml").write_text(EXPERIMENT)
        if what not in ON_HOSTS:
            two_processors()
            alone = OneHost(COMMANDS[what](number), root)
            try:
                yield alone
            finally:
                alone.end()
                while OTHERS:
                    OTHERS[-1].kill()
                    OTHERS.pop().wait()
            return
        with cluster(2) as hosts:
            there = TwoHosts(ON_HOSTS[what](number, hosts.hosts), root, hosts)
            try:
                yield there
            finally:
                there.end()
