"""The signal to simulations on other threads that nobody waits for them any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_interrupted = threading.Event()


class InterruptedSimulationError(Exception):
    """A simulation has ended because its caller was interrupted."""


def interrupt() -> None:
    """End all simulations of this process within a second."""
    _interrupted.set()


def check() -> None:
    """Raises InterruptedSimulationError if simulations are to end."""
    if _interrupted.is_set():
        raise InterruptedSimulationError


@contextmanager
def interruptible() -> Iterator[None]:
    """At its end simulations can begin again; those before are over by then."""
    try:
        yield
    finally:
        _interrupted.clear()
