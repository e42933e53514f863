"""An event loop over files and one alarm."""

import ctypes
import os
import selectors
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from typing import Any, NamedTuple

from coordinator.host.processes import Process

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
        self._at_ns: int | None = None
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def fileno(self) -> int:
        return int(self._fd)

    def set(self, at_ns: int | None) -> None:
        """Ring at ``at_ns`` of time.monotonic_ns(), at once if that time is past; None: never."""
        if at_ns == self._at_ns:
            return
        self._at_ns = at_ns
        # A value of zero would disarm the timer.
        seconds, nanoseconds = (0, 0) if at_ns is None else divmod(max(1, at_ns), 10**9)
        value = _Itimerspec(_Timespec(0, 0), _Timespec(seconds, nanoseconds))
        if _libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(value), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def acknowledge(self) -> None:
        """Make the descriptor unreadable again after it rang."""
        self._at_ns = None
        with suppress(BlockingIOError):
            os.read(self._fd, 8)

    def close(self) -> None:
        os.close(self._fd)


LEAD_UP_NS = 8_000
LEAD_DOWN_NS = 2_000
MOST_LEAD_NS = 200_000
"""How much earlier ``Loop.wait_exactly`` sets its alarm: more after it was late, less after it was not."""


class _Callbacks(NamedTuple):
    on_input: Callable[[], None]
    on_room: Callable[[], None] | None


class Loop:
    """Calls back for every watched file that is readable, or writable."""

    def __init__(self) -> None:
        self._selector = selectors.EpollSelector()
        self._ending = set[Process]()
        self._alarm = Alarm()
        self._lead_ns = 0
        self.watch(self._alarm, self._alarm.acknowledge)

    def fileno(self) -> int:
        """A descriptor that is readable when ``catch_up`` has something to do."""
        return self._selector.fileno()

    def watch(self, file: Any, on_input: Callable[[], None] = lambda: None) -> None:
        """Call back whenever ``file`` is readable; without a callback only wake up."""
        self._selector.register(file, selectors.EVENT_READ, _Callbacks(on_input, None))

    def watch_end(self, handle: Process, on_end: Callable[[], None]) -> None:
        """Call back once, at the end of a process; the loop closes it then, or when it is closed."""

        def ended() -> None:
            self.unwatch(handle)
            self._ending.remove(handle)
            handle.close()
            on_end()

        self._ending.add(handle)
        self.watch(handle, ended)

    def watch_room(self, file: Any, on_room: Callable[[], None] | None) -> None:
        """Also call back whenever a watched file is writable; None: no longer."""
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if on_room else 0)
        callbacks: _Callbacks = self._selector.get_key(file).data
        self._selector.modify(file, mask, callbacks._replace(on_room=on_room))

    def unwatch(self, file: Any) -> None:
        self._selector.unregister(file)

    def wait(self, until_ns: int) -> None:
        """Sleep until a callback is due or until this time of CLOCK_MONOTONIC; run due callbacks."""
        self._alarm.set(until_ns)
        self._call_back(None)

    def wait_exactly(self, until_ns: int) -> None:
        """As ``wait``, but it wakes up earlier by as much as it has been late, and spins for the rest."""
        early_ns = until_ns - self._lead_ns
        self.wait(early_ns)
        now_ns = monotonic_ns()
        if now_ns < early_ns:
            return
        step_ns = LEAD_UP_NS if now_ns > until_ns else -LEAD_DOWN_NS
        self._lead_ns = min(max(0, self._lead_ns + step_ns), MOST_LEAD_NS)
        while monotonic_ns() < until_ns:
            pass

    def catch_up(self) -> None:
        self._call_back(0.0)

    def _call_back(self, timeout_s: float | None) -> None:
        for key, events in self._selector.select(timeout_s):
            if events & selectors.EVENT_WRITE and key.data.on_room:
                key.data.on_room()
            if events & selectors.EVENT_READ:
                key.data.on_input()

    def close(self) -> None:
        self._selector.close()
        self._alarm.close()
        for handle in self._ending:
            handle.close()
