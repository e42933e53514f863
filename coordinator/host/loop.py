"""An event loop over files and one alarm."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.host.timer import Alarm


class _Callbacks(NamedTuple):
    on_input: Callable[[], None]
    on_room: Callable[[], None] | None


class Loop:
    """Calls back for every watched file that is readable, or writable."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._alarm = Alarm()
        self.watch(self._alarm, self._alarm.acknowledge)

    def watch(self, file: Any, on_input: Callable[[], None] = lambda: None) -> None:
        """Call back whenever ``file`` is readable; without a callback only wake up."""
        self._selector.register(file, selectors.EVENT_READ, _Callbacks(on_input, None))

    def watch_room(self, file: Any, on_room: Callable[[], None] | None) -> None:
        """Also call back whenever a watched file is writable; None: no longer."""
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if on_room else 0)
        known: _Callbacks = self._selector.get_key(file).data
        self._selector.modify(file, mask, known._replace(on_room=on_room))

    def unwatch(self, file: Any) -> None:
        """Stop watching a file."""
        self._selector.unregister(file)

    def wait(self, until_ns: int) -> None:
        """Sleep until a callback is due or until this time of CLOCK_MONOTONIC; run due callbacks."""
        self._alarm.set(until_ns)
        self._call_back(None)

    def catch_up(self) -> None:
        """Run due callbacks without sleeping."""
        self._call_back(0.0)

    def _call_back(self, timeout_s: float | None) -> None:
        for key, events in self._selector.select(timeout_s):
            if events & selectors.EVENT_WRITE and key.data.on_room:
                key.data.on_room()
            if events & selectors.EVENT_READ:
                key.data.on_input()

    def close(self) -> None:
        """Close the loop's own descriptors."""
        self._selector.close()
        self._alarm.close()
