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
from workloads.record import COUNTED, flaw

OWN_BYTES = 1 << 20
"""No record that a program leaves in a file is as long."""


def in_run_time(record: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    """A rank's record with its times by the run's clock; only the reason if it is no record."""
    if why := flaw(record):
        return {FLAW: why}
    times = (key for key in ("start_ns", "finish_ns") if key in record)
    return {**record, **{key: clock.run_ns(record[key]) for key in times}}


def of_program(peer: Peer, path: Path, clock: Clock) -> dict[str, Any]:
    """The record of a rank that became a program: when and where it ran, and what it counted itself.

    Args:
        peer: the rank.
        path: the file in which the program may have left its counts.
        clock: of the run; the program has just ended.
    """
    assert peer.program is not None
    record = {
        "job": peer.job,
        "rank": peer.rank,
        "host": socket.gethostname(),
        "pid": peer.process.pid,
        "processor": peer.program.processor,
        "start_ns": peer.program.start_ns,
        "finish_ns": clock.read_ns(),
    }
    try:
        return in_run_time(_own(path) | record, clock)
    except ValueError as error:
        return {FLAW: str(error)}


def _own(path: Path) -> dict[str, Any]:
    """What a program has counted in a file; nothing without one.

    Raises:
        ValueError: if the file holds anything else.
    """
    try:
        # It may be a pipe, whose writer nobody waits for.
        with FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            own = json.loads(file.read(OWN_BYTES) or b"")
    except OSError:
        return {}
    except (ValueError, RecursionError):
        own = None
    if not isinstance(own, dict):
        raise ValueError(f"{path.name} is no JSON object")
    return {key: own[key] for key in COUNTED if key in own}
