"""Deferred handling of signals from the user and the terminal."""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
SUSPENDING = signal.SIGTSTP


class Interrupt:
    """A context that notes signals that end or suspend us; they take effect on exit.

    On exit it restores the former handlers. Then it raises KeyboardInterrupt for SIGINT and SystemExit(128 +
    its number) for the others of ENDING; for SIGTSTP (Ctrl-Z) it stops this process and returns once the
    process continues. Ignored signals stay ignored. A descriptor turns readable when a signal comes, so that
    a selector notices it. Outside the main thread, where Python handles no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.caught: signal.Signals | None = None
        self._ours, self._its = socket.socketpair()
        self._ours.setblocking(False)
        self._its.setblocking(False)
        self._former: dict[signal.Signals, Any] = {}

    @property
    def reason(self) -> str:
        """The caught signal in words; empty without one."""
        if self.caught == SUSPENDING:
            return "suspended from the terminal (SIGTSTP), which ends the run in progress"
        return "interrupted" if self.caught else ""

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._former_descriptor = signal.set_wakeup_fd(self._its.fileno(), warn_on_full_buffer=False)
            for signum in (*ENDING, SUSPENDING):
                if signal.getsignal(signum) is not signal.SIG_IGN:
                    self._former[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *ignored: object) -> None:
        if threading.current_thread() is threading.main_thread():
            for signum, handler in self._former.items():
                signal.signal(signum, handler)
            signal.set_wakeup_fd(self._former_descriptor)
        self._ours.close()
        self._its.close()
        if self.caught == signal.SIGINT:
            raise KeyboardInterrupt
        if self.caught in ENDING:
            raise SystemExit(128 + self.caught)
        if self.caught == SUSPENDING:
            signal.raise_signal(SUSPENDING)

    def fileno(self) -> int:
        return self._ours.fileno()

    def acknowledge(self) -> None:
        """Make the descriptor unreadable again; ``caught`` holds the signal."""
        with suppress(BlockingIOError):
            self._ours.recv(4096)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.caught in (None, SUSPENDING):
            self.caught = signal.Signals(signum)
