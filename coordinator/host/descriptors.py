"""The limit of descriptors of driver and agent: the user's hard limit.

Processes that they start get the former limit, because some programs loop over all possible descriptors.
"""

from __future__ import annotations

import resource
from contextlib import suppress

RESERVE = 64
"""Descriptors that connections cannot use while anybody may connect."""

_AT_START = resource.getrlimit(resource.RLIMIT_NOFILE)


def allow(reserve: int = 0) -> None:
    """Raise the limit of this process to the hard limit, less ``reserve`` unless the limit is too tight."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most - reserve if most >= 4 * reserve else most, most))


def as_at_start(pid: int) -> None:
    """Give a process that we have just started the limit with which we started."""
    with suppress(OSError):  # it has ended
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _AT_START)
