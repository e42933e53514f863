"""The keeper of a run: the process that holds its lock, by a name with which others can ask for it."""

from __future__ import annotations

import os

from coordinator.host import identity

KEEPER = "LOCKSTEP_KEEPER"
"""Variable that names the keeper to every process of a run."""


def name() -> str:
    """The name of this process."""
    return identity.name(os.getpid())


def lives(keeper: str) -> bool | None:
    """Whether the process of that name lives; None if that cannot be known from here."""
    known = identity.meant(keeper)
    if known is None:
        return None
    pid, start = known
    found = identity.stat(pid)
    return found is not None and found.start == start and found.state not in "ZX"
