"""The records that ranks of programs with two-phase waits send when they end."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.host import identity

LARGEST_RECORD_BYTES = 65536
CREDENTIALS_BYTES = socket.CMSG_SPACE(struct.calcsize("3i"))


def start_without_signals(thread: threading.Thread) -> None:
    """Start a thread that handles no signals: a thread that waits for one with sigwaitinfo would miss it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class RankListener:
    """Takes the records that ranks on this host send when they end.

    Its socket is in no file system, so that it leaves nothing behind. Every user of the host can send
    to it, but the listener ignores the datagrams of other users.
    """

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._name = f"lockstep-{os.urandom(16).hex()}-{identity.boot()}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(f"\0{self._name}")
        self._thread = threading.Thread(target=self._take, daemon=True)

    @property
    def variables(self) -> dict[str, str]:
        return {"LOCKSTEP_LISTENER": self._name}

    def __enter__(self) -> RankListener:
        start_without_signals(self._thread)
        return self

    def __exit__(self, *ignored: object) -> None:
        """Take the records sent so far, and no more."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(b"", f"\0{self._name}")
        self._thread.join()
        self._socket.close()

    def _take(self) -> None:
        while True:
            datagram, ancillary, _, _ = self._socket.recvmsg(LARGEST_RECORD_BYTES, CREDENTIALS_BYTES)
            sender = [struct.unpack("3i", data) for *_, data in ancillary]
            if not sender or sender[0][1] != os.getuid():
                continue
            if datagram:
                self.records.append(json.loads(datagram))
            elif sender[0][0] == os.getpid():
                return


def summed(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The records of ranks, summed up: ranks, waits, and processor time."""
    kinds = [waits for record in records for waits in record["waits"].values()]
    blocked = sum(waits["blocked"] for waits in kinds)
    return {
        "ranks": len(records),
        "waits": blocked + sum(waits["spun"] for waits in kinds),
        "blocked": blocked,
        "rechecks": sum(record["rechecks"] for record in records),
        "cpu_s": sum(record["cpu_ns"] for record in records) / 1e9,
        "given_back_s": sum(record["asleep_ns"] for record in records) / 1e9,
    }
