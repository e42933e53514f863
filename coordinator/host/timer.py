"""An alarm on CLOCK_MONOTONIC for selectors, exact to the microsecond.

The timeout of epoll counts milliseconds, a tenth of a short slot.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


_libc = ctypes.CDLL(None, use_errno=True)


class Alarm:
    """A timer descriptor that turns readable at a given time."""

    def __init__(self) -> None:
        self._fd = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def fileno(self) -> int:
        return int(self._fd)

    def set(self, at_ns: int | None) -> None:
        """Ring at ``at_ns`` of time.monotonic_ns(), at once if that time is past; None: never."""
        # A value of zero would disarm the timer.
        seconds, nanoseconds = (0, 0) if at_ns is None else divmod(max(1, at_ns), 10**9)
        value = _Itimerspec(_Timespec(0, 0), _Timespec(seconds, nanoseconds))
        if _libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(value), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def acknowledge(self) -> None:
        """Make the descriptor unreadable again after it rang."""
        with suppress(BlockingIOError):
            os.read(self._fd, 8)

    def close(self) -> None:
        os.close(self._fd)
