"""Launchers that wait for children that have ended, as MPICH's sometimes does for a killed proxy."""

from __future__ import annotations

from coordinator.host import identity
from coordinator.host.processes import children

BEREFT_NS = 10_000_000_000
"""A launcher without a living child for this long has lost it, and may wait for it for ever."""

LOST_NS = 3_000_000_000
"""The same after its first living child was seen: starting one may take longer than ending without one."""


class Bereft:
    """Notices that a launcher waits for children that have ended.

    Args:
        parent: whether it certainly starts children.
    """

    def __init__(self, *, parent: bool = True) -> None:
        self._patience_ns = BEREFT_NS if parent else None
        self._alone_ns: int | None = None

    def look(self, pid: int, now_ns: int) -> bool:
        """Whether process ``pid`` has been without a living child for too long; to be asked now and then."""
        if any(map(_lives, children(pid))):
            self._patience_ns, self._alone_ns = LOST_NS, None
            return False
        if self._alone_ns is None:
            self._alone_ns = now_ns
        return self._patience_ns is not None and now_ns - self._alone_ns >= self._patience_ns


def _lives(pid: int) -> bool:
    process = identity.stat(pid)
    return process is not None and process.state not in "ZX"
