"""Ends simulations on other threads, whose results nobody waits for any more."""

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
    """Allow new simulations at the end of the block; all simulations in it must be over by then."""
    try:
        yield
    finally:
        _interrupted.clear()
