"""How many descriptors driver and agent may have: as many as the user's hard limit allows.

Processes that they start get the former limit: some programs go through all descriptors that they might have.
"""

from __future__ import annotations

import resource
from contextlib import suppress

RESERVE = 64
"""Descriptors that are kept from others while anybody may connect."""

_AT_START = resource.getrlimit(resource.RLIMIT_NOFILE)


def allow(reserve: int = 0) -> None:
    """Let this process open as many files as it may, but for a reserve, if the limit is not tight anyway."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most - reserve if most >= 4 * reserve else most, most))


def as_at_start(pid: int) -> None:
    """Give a process that we have just started the limit that we have been started with."""
    with suppress(OSError):  # it has ended
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _AT_START)
