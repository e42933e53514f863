"""SIGINT and SIGTERM that wait until it is safe to follow them."""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """While entered, SIGINT and SIGTERM are only noted; they take effect on leaving.

    Leaving raises KeyboardInterrupt for SIGINT and SystemExit(128 + 15) for SIGTERM, after
    the former handlers are restored. A descriptor turns readable when a signal comes, so a
    selector notices it. Off the main thread, where Python handles no signals, it does
    nothing.
    """

    def __init__(self) -> None:
        self.caught: signal.Signals | None = None
        self._ours, self._its = socket.socketpair()
        self._ours.setblocking(False)
        self._its.setblocking(False)
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._former_descriptor = signal.set_wakeup_fd(self._its.fileno(), warn_on_full_buffer=False)
            self._former = {signum: signal.signal(signum, self._note) for signum in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._former:
            for signum, handler in self._former.items():
                signal.signal(signum, handler)
            signal.set_wakeup_fd(self._former_descriptor)
        self._ours.close()
        self._its.close()
        if self.caught == signal.SIGINT:
            raise KeyboardInterrupt
        if self.caught == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)

    def fileno(self) -> int:
        """The descriptor that turns readable."""
        return self._ours.fileno()

    def acknowledge(self) -> None:
        """Take note; ``caught`` tells which signal it was."""
        with suppress(BlockingIOError):
            self._ours.recv(4096)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.caught = self.caught or signal.Signals(signum)
