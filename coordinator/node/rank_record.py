"""The records of ranks as the agent passes them on."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from coordinator.host.clock import Clock
from coordinator.node.roster import Peer
from coordinator.wire.protocol import FLAW
from workloads.record import FOREIGN, flaw

OWN_BYTES = 1 << 20
"""Every record that a program leaves in a file is shorter."""


def in_run_time(record: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    """A rank's record with times by the run's clock; an invalid one becomes FLAW with the reason."""
    if why := flaw(record):
        return {FLAW: why}
    times = (key for key in ("start_ns", "finish_ns") if key in record)
    return {**record, **{key: clock.run_ns(record[key]) for key in times}}


def of_program(peer: Peer, folder: Path, clock: Clock) -> dict[str, Any]:
    """The record of a rank that became a program: when and where it ran, its processor time, its counts."""
    assert peer.program is not None and peer.time is not None
    record = {
        "job": peer.job,
        "rank": peer.rank,
        "host": socket.gethostname(),
        "pid": peer.process.pid,
        "processor": peer.program.processor,
        "start_ns": peer.program.start_ns,
        "finish_ns": clock.read_ns(),
        **peer.time.record(),
    }
    try:
        return in_run_time(_own(folder, peer.rank) | record, clock)
    except ValueError as error:
        return {FLAW: str(error)}


def _own(folder: Path, rank: int) -> dict[str, Any]:
    """The counts that the last program of a rank has left; empty if it has left none."""
    path = folder
    try:
        found = folder.glob(f"rank-{rank}-*.json")
        path = max(found, key=lambda path: path.lstat().st_mtime_ns, default=folder)
        # It may be a pipe: do not wait for its writer.
        with FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            own = json.loads(file.read(OWN_BYTES) or b"")
    except OSError:
        return {}
    except (ValueError, RecursionError):
        own = None
    if not isinstance(own, dict):
        raise ValueError(f"{path.name} is no JSON object")
    return {key: own[key] for key in FOREIGN if key in own}
