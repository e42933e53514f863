"""A process's line to the agent of its node, by which it announces itself and learns when to begin.

Only the standard library is imported, and little of it: every rank of every job does this.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

VERSION = 1

AGENT_S = 30.0
"""How long to wait for the agent of this node to come up."""


class Agent:
    """One JSON object a line, both ways.

    Raises:
        ConnectionError: when the agent has gone, or does not come; the process cannot go on without it.
    """

    def __init__(self, path: str, job: int, rank: int) -> None:
        self._socket = _connected(path)
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self.tell("hello", version=VERSION, job=job, rank=rank)

    def tell(self, kind: str, **values: Any) -> None:
        """Send a message."""
        self._socket.sendall(json.dumps({"type": kind, **values}).encode() + b"\n")

    def begin(self) -> int | None:
        """Say that all is ready, sleep until the start, and begin on its core; returns the core.

        None if the workload is over and this job has not begun.
        """
        self.tell("ready")
        message = self._expect("start", "leave")
        if message["type"] == "leave":
            return None
        core: int = message["processor"]
        os.sched_setaffinity(0, {core})
        time.sleep(max(0.0, (message["at_ns"] - time.monotonic_ns()) / 1e9))
        return core

    def leave(self, record: dict[str, Any]) -> None:
        """Hand in the record and sleep until the workload is over."""
        self.tell("record", record=record)
        self._expect("leave")

    def _expect(self, *kinds: str) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            raise ConnectionError(f"the agent went away before saying {kinds[0]!r}")
        message: dict[str, Any] = json.loads(line)
        if message["type"] not in kinds:
            raise ConnectionError(f"the agent said {message['type']!r} instead of {kinds[0]!r}")
        return message


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
