"""Where in its program a process is: the stack of a thread, as py-spy, eu-stack or gdb read it.

None of them is required. What belongs to MPI, the C library, Lockstep or an interpreter is left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from coordinator.host import inspection
from coordinator.host.inspection import Inspection, Outcome
from workloads.validation import printable

SHOWN = 3  # frames in a line; the JSON has all

YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")

PYTHON = re.compile(r"/(lib)?python3[.\d]*t?(\.so[.\d]*)?$", re.M)
"""A mapped file of a process that runs Python."""

OF_PYTHON = re.compile(r"/(site|dist)-packages/|/lib(64)?/python3[.\d]*t?/|^<")
"""Files of Python and of installed packages."""

OF_MPI = re.compile(r"/lib(p?mpi|open-pal|open-rte)[^/]*\.so|/lockstep.*/(wrappers|preload)\.so$")
CALLS_OF_MPI = re.compile(r"P?MPIX?_\w+|p?mpix?_\w+_")
OF_SYSTEM = re.compile(r"/(lib(c|m|dl|rt|pthread|python3|julia)|ld)\b[^/]*\.so|^\[")
SUFFIXES = re.compile(r"(@@?|\.(constprop|isra|part|cold|lto_priv)\b).*")
DENIED = re.compile(r"not permitted|denied", re.I)


@dataclass(frozen=True)
class Frame:
    """A function that a thread is in; ``file`` is "" and ``line`` 0 where they are not known.

    ``function`` is "" for the outermost code of a Python file.
    """

    function: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"at {Path(self.file).name}:{self.line}" if self.file else ""
        return printable(f"{place} in {self.function}".strip() if self.function else place)


@dataclass(frozen=True)
class Stack:
    """Functions of a program, innermost first; at least one."""

    frames: tuple[Frame, ...]

    def __str__(self) -> str:
        more = ", ..." if len(self.frames) > SHOWN else ""
        return ", called ".join(map(str, self.frames[:SHOWN])) + more

    @property
    def document(self) -> list[dict[str, Any]]:
        """A mapping for each frame; None for what is not known."""
        return [
            {"function": one.function or None, "file": one.file or None, "line": one.line or None}
            for one in self.frames
        ]


@dataclass(frozen=True)
class Thread:
    """A thread of a process; ``number`` is its kernel's, that of the process for the main thread."""

    pid: int
    number: int

    @classmethod
    def of(cls, pid: int, number: int) -> Thread:
        """The thread with this number, or the main one if there is none: a rank may see other numbers."""
        return cls(pid, number if Path(f"/proc/{pid}/task/{number}").exists() else pid)


@dataclass(frozen=True)
class Stacks:
    """What was found out of some threads; ``reason`` says why there is no stack, or is ""."""

    of: Mapping[Thread, Stack] = field(default_factory=dict)
    reason: str = ""


def read(
    threads: Sequence[Thread], variables: Mapping[str, str] | None = None, limit_s: float = inspection.LIMIT_S
) -> Stacks:
    """The stacks of these threads, as far as there are tools that can read them within ``limit_s``.

    The tools get these variables, too.
    """
    readings = [reading for one in threads if (reading := _reading(one))]
    environment = {**os.environ, **(variables or {}), "LC_ALL": "C.UTF-8"}
    environment.pop("DEBUGINFOD_URLS", None)  # nothing is asked of the network
    outcomes = inspection.inspect([one.inspection for one in readings], environment, limit_s)
    stacks = dict[Thread, Stack]()
    reasons = list[str]()
    for reading, outcome in zip(readings, outcomes, strict=True):
        calls = reading.calls(outcome.output) if outcome.output else []
        if own := reading.own(calls):
            stacks[reading.thread] = Stack(tuple(own))
        elif not calls:
            reasons.append(_reason(reading, outcome))
    return Stacks(stacks, "" if stacks or not reasons else reasons[0])


def _reason(reading: Reading, outcome: Outcome) -> str:
    """Why a tool has told nothing."""
    scope = ""
    with suppress(OSError):
        scope = YAMA.read_text().strip()
    if scope not in ("", "0") and DENIED.search(outcome.errors):
        remedy = "write: sysctl kernel.yama.ptrace_scope=0"
        return f"kernel.yama.ptrace_scope = {scope} forbids it to {reading.name}; {remedy}"
    said = next((line for line in outcome.errors.splitlines() if line.strip()), "")
    said = said or outcome.failure or "it has printed no stack"
    return f"{reading.name}: {printable(said.strip())[:200]}"


@dataclass(frozen=True)
class Call:
    """A function on a stack, in a mapped file."""

    frame: Frame
    module: str


class Reading(ABC):
    """How a tool reads the stack of a thread, and whether it ``stops`` the process meanwhile."""

    stops = True

    def __init__(self, thread: Thread, tool: str, maps: str) -> None:
        self.thread = thread
        self.tool = tool
        self.maps = maps

    @property
    def name(self) -> str:
        return Path(self.tool).name

    @property
    def inspection(self) -> Inspection:
        return Inspection(self.thread.pid, (self.tool, *self.words), self.stops)

    @property
    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """The arguments of the tool."""

    @abstractmethod
    def calls(self, output: str) -> list[Call]:
        """The stack that it has printed, innermost first; empty if it is none."""

    @abstractmethod
    def own(self, calls: Sequence[Call]) -> list[Frame]:
        """What of it belongs to the program."""


class _PySpy(Reading):
    """Lines of Python; py-spy does not stop the process."""

    stops = False

    @property
    def words(self) -> tuple[str, ...]:
        return ("dump", "--json", "--nonblocking", "--pid", str(self.thread.pid))

    def calls(self, output: str) -> list[Call]:
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            threads = {one["os_thread_id"]: one["frames"] for one in json.loads(output)}
            frames = threads.get(self.thread.number, threads.get(self.thread.pid, []))
            return [Call(_python_frame(one), one["filename"]) for one in frames]
        return []

    def own(self, calls: Sequence[Call]) -> list[Frame]:
        """Frames of the user's files; if there are none, of all."""
        users = [one.frame for one in calls if not OF_PYTHON.search(one.module)]
        return users or [one.frame for one in calls]


def _python_frame(one: Mapping[str, Any]) -> Frame:
    function = str(one["name"]).removeprefix("<module>").replace(".<locals>", "")
    return Frame(function, str(one["filename"]), int(one["line"]))


class _Native(Reading):
    """Functions of compiled programs, by their addresses."""

    def own(self, calls: Sequence[Call]) -> list[Frame]:
        """Those that have called MPI, or that MPI has called back, without those of the system."""
        of_mpi = [self._is_of_mpi(one) for one in calls]
        outside = len(calls) - of_mpi[::-1].index(True) if True in of_mpi else 0
        called_back = [one for one in calls[:outside] if one.module == self._program]
        return [one.frame for one in (*called_back, *calls[outside:]) if not _is_of_system(one)]

    def _is_of_mpi(self, one: Call) -> bool:
        """By its file, or as a function of that name in another library."""
        named = one.module != self._program and CALLS_OF_MPI.fullmatch(one.frame.function)
        return bool(named or OF_MPI.search(one.module))

    @cached_property
    def _program(self) -> str:
        return os.path.realpath(f"/proc/{self.thread.pid}/exe")

    def _call(self, address: int, function: str, file: str = "", line: str = "0") -> Call:
        name = SUFFIXES.sub("", function)
        name = name if name.startswith("(") else name.partition("(")[0]  # without parameters
        return Call(Frame(name.strip(), file, int(line)), self._module(address))

    def _module(self, address: int) -> str:
        """The mapped file at an address."""
        for line in self.maps.splitlines():
            extent, _, rest = line.partition(" ")
            first, _, end = extent.partition("-")
            if int(first, 16) <= address < int(end, 16):
                return rest.split(maxsplit=4)[4] if "/" in rest or "[" in rest else ""
        return ""


def _is_of_system(one: Call) -> bool:
    return one.frame.function in ("", "??", "_start") or bool(OF_SYSTEM.search(one.module))


class _EuStack(_Native):
    """It stops one thread for some milliseconds."""

    CALL = re.compile(r"#\d+ +0x([0-9a-f]+)(?: - 1)?(?: (.*))?(?:\n    (.*?):(\d+)(?::\d+)?)?$", re.M)

    @property
    def words(self) -> tuple[str, ...]:
        return ("-p", str(self.thread.number), "-1", "-i", "-s")

    def calls(self, output: str) -> list[Call]:
        return [
            self._call(int(one[1], 16), one[2] or "", one[3] or "", one[4] or "0")
            for one in self.CALL.finditer(output)
        ]


class _Gdb(_Native):
    """It stops one thread for about a second."""

    SETTINGS = ("set auto-load off", "set debuginfod enabled off", "set width 0")
    SHORT = ("set print frame-arguments none", "set filename-display absolute")
    COUNTER = re.compile(r"^\$1 = 0x([0-9a-f]+)", re.M)
    CALL = re.compile(r"#\d+ +(?:0x([0-9a-f]+) in )?(.*?) \(.*\)(?: at (.*):(\d+)| from .*)?$", re.M)

    @property
    def words(self) -> tuple[str, ...]:
        before = [word for one in (*self.SETTINGS, *self.SHORT) for word in ("-iex", one)]
        return ("-nx", "-batch", *before, "-p", str(self.thread.number), "-ex", "p/x $pc", "-ex", "bt 256")

    def calls(self, output: str) -> list[Call]:
        calls = []
        counter = self.COUNTER.search(output)
        if not counter:
            return []
        address = int(counter[1], 16)
        for one in self.CALL.finditer(output, counter.end()):
            address = int(one[1], 16) if one[1] else address  # an inlined function has that of the one before
            calls.append(self._call(address, one[2], one[3] or "", one[4] or "0"))
        return calls


def _reading(thread: Thread) -> Reading | None:
    """How the stack of a thread can be read; None if there is no tool for it."""
    maps = ""
    with suppress(OSError, UnicodeDecodeError):
        maps = Path(f"/proc/{thread.pid}/maps").read_text()
    for kind, name in _tools(bool(PYTHON.search(maps))):
        if tool := _tool(name):
            return kind(thread, tool, maps)
    return None


def _tools(python: bool) -> Iterator[tuple[type[Reading], str]]:
    if python:
        yield _PySpy, "py-spy"
    else:
        yield _EuStack, "eu-stack"
        yield _Gdb, "gdb"


def _tool(name: str) -> str | None:
    """Where a tool is: on the PATH, or next to our interpreter."""
    return shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))
