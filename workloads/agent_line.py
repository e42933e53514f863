"""A process's connection to the agent of its node: the process registers and learns when to begin.

Every rank imports this module, so it imports little, and only from the standard library.

Ranks read the run's clock as CLOCK_MONOTONIC plus an offset, which the agent keeps up to date in a file that
they map. In a run on the driver's host only, both clocks are the same, and there is no such file.
"""

import json
import mmap
import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic_ns
from typing import Any, NamedTuple

NAME = "clock"
WORD_BYTES = 8


def offset_word(folder: Path) -> memoryview:
    """A new word in the run directory ``folder``, 0 at first; its agent writes the offset in ns there."""
    with (folder / NAME).open("xb+") as file:
        file.write(bytes(WORD_BYTES))
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), WORD_BYTES)).cast("q")


class RunClock:
    """Reads the run's clock on the node whose agent has the run directory ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._ahead_ns = memoryview(bytes(WORD_BYTES)).cast("q")
        if (folder / NAME).exists():
            with (folder / NAME).open("rb") as file:
                word = mmap.mmap(file.fileno(), WORD_BYTES, prot=mmap.PROT_READ)
            self._ahead_ns = memoryview(word).cast("q")

    def now_ns(self) -> int:
        return monotonic_ns() + self._ahead_ns[0]


VERSION = 1  # version of all messages between agents and ranks
AGENT_S = 30.0  # how long to wait for the agent of this node to come up


ANYWHERE = -1  # in place of a core: the rank stays where it is


class StartOrder(NamedTuple):
    """How a process begins: its core, and the launched ranks that take part in their new order, or none."""

    core: int
    ranks: tuple[int, ...] = ()


class AgentLine:
    """One JSON object a line, both ways."""

    def __init__(self, path: str, job: int, rank: int) -> None:
        self._folder = Path(path).parent
        self._socket = _connected(path)
        self._heard = b""
        self._cores: list[int] | None = None
        self.tell("hello", version=VERSION, job=job, rank=rank)

    def tell(self, kind: str, **values: Any) -> None:
        self._socket.sendall(json.dumps({"type": kind, **values}).encode() + b"\n")

    def begin(self) -> StartOrder | None:
        """Report ready, sleep until the start, and bind; returns None if the workload is over before."""
        self.tell("ready")
        message = self._expect("start", "leave")
        if message["type"] == "leave":
            return None
        start = StartOrder(message["processor"], tuple(message["ranks"]))
        os.sched_setaffinity(0, message["cores"])
        time.sleep(max(0.0, (message["at_ns"] - time.monotonic_ns()) / 1e9))
        return start

    def wish(self) -> list[int] | None:
        """The cores that the agent has given a malleable job since the last call; None without any."""
        while select.select([self._socket], [], [], 0)[0]:
            self._listen()
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            self._take(json.loads(line), "resize")
        cores = self._cores
        self._cores = None
        return cores

    def evolve(self, processes: int) -> None:
        self.tell("parallelism", processes=processes)

    def observe(self, peers: Sequence[int]) -> None:
        self.tell("traffic", peers=peers)

    def clock(self) -> Callable[[], int]:
        return RunClock(self._folder).now_ns

    def leave(self, record: dict[str, Any]) -> None:
        """Send the record and sleep until the workload is over, or the driver wants this job to make room."""
        self.tell("record", record=record)
        self._expect("leave")

    def _expect(self, *kinds: str) -> dict[str, Any]:
        while True:
            while b"\n" not in self._heard:
                self._listen()
            line, _, self._heard = self._heard.partition(b"\n")
            message: dict[str, Any] = json.loads(line)
            if self._take(message, *kinds):
                return message

    def _take(self, message: dict[str, Any], *kinds: str) -> bool:
        """Whether ``message`` is of one of ``kinds``; keeps new cores, which may come at any time."""
        if message["type"] == "resize":
            self._cores = message["cores"]
        elif message["type"] not in kinds:
            raise ConnectionError(f"the agent said {message['type']!r} instead of {kinds[0]!r}")
        return message["type"] in kinds

    def _listen(self) -> None:
        data = self._socket.recv(4096)
        if not data:
            raise ConnectionError("the agent went away")
        self._heard += data


def _connected(path: str) -> socket.socket:
    """A connection to the agent, which may come up later than the process."""
    deadline = time.monotonic() + AGENT_S
    while True:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.connect(path)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            line.close()
            if time.monotonic() > deadline:
                raise ConnectionError(f"no agent has come to {path} in {AGENT_S:g} s") from error
            time.sleep(0.01)
        else:
            return line
