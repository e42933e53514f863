"""What an agent must know to begin, and how it is handed over.

It contains the node's secret key, so it travels in the environment, which only the user's
own processes can read, or in a file of mode 0600; never on a command line.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coordinator import protocol
from coordinator.link import Keys
from coordinator.protocol import ProtocolError
from coordinator.workload import LEASE_S
from workloads.validation import InputError

VARIABLE = "LOCKSTEP_AGENT"


@dataclass(frozen=True)
class Setup:
    """What an agent must know.

    Attributes:
        directory: path of the run directory, the same on every node.
        endpoint: where the driver listens.
        driver_key: the driver's public key.
        keys: the node's own.
        mechanism: its name; None if the policy stops nothing.
        local: "other" or "rr", the class of the ranks under the local scheduler.
        same_clock: whether the node is the driver's own, so that their clocks are one.
        lease_s: how long the agent goes on without the driver.
        driver: descriptor of a handle on the driver (a pidfd), inherited from it; None on other hosts.
    """

    directory: str
    endpoint: str
    driver_key: str
    keys: Keys
    mechanism: str | None
    local: str = "other"
    same_clock: bool = True
    lease_s: float = LEASE_S
    driver: int | None = None

    def encode(self) -> str:
        """As text."""
        return json.dumps({"version": protocol.VERSION, **asdict(self)})

    @classmethod
    def decode(cls, text: str) -> Setup:
        """The inverse of ``encode``.

        Raises:
            ProtocolError: for a set-up of another version, or none.
        """
        try:
            document: dict[str, Any] = json.loads(text)
            if document.pop("version", None) != protocol.VERSION:
                raise ProtocolError(f"the agent's set-up is not of version {protocol.VERSION}")
            return cls(**{**document, "keys": Keys(**document["keys"])})
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ProtocolError(f"this is not an agent's set-up: {error}") from error

    def write(self, path: Path) -> None:
        """Into a new file that only its owner can read."""
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.encode())


def find(path: Path | None = None) -> Setup:
    """The set-up in the file, or without one that in the environment, from where it is removed.

    Raises:
        InputError: if there is none, or others may read the file.
        ProtocolError: if it is of another version.
    """
    if path is None:
        text = os.environ.pop(VARIABLE, None)
        if text is None:
            remedy = "name the file that a driver wrote for this node"
            raise InputError(VARIABLE, None, "an agent needs the set-up that its driver made", remedy)
        return Setup.decode(text)
    try:
        found = path.stat()
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise InputError("FILE", str(path), "holds a key and must be yours alone", f"chmod 600 {path}")
        return Setup.decode(path.read_text())
    except OSError as error:
        raise InputError("FILE", str(path), f"cannot be read: {error.strerror}", "name another") from error
