"""Ends simulations on other threads, whose results are not awaited any more."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

_interrupted = np.zeros(1, dtype=np.int64)
"""1 if simulations are to end. Compiled code, which raises nothing, reads it at every event."""


class InterruptedSimulationError(Exception):
    """A simulation has ended because its caller was interrupted."""


def interrupt() -> None:
    """Terminate all simulations of this process within a second."""
    _interrupted[0] = 1


def check() -> None:
    """Raises InterruptedSimulationError if simulations are to end."""
    if _interrupted[0]:
        raise InterruptedSimulationError


def heeding(kernel: Callable[..., T], *arguments: Any) -> T:
    """The result of a kernel, whose last argument is an array that gets a 1 when it is to end.

    Raises:
        InterruptedSimulationError: if it has ended before its time.
    """
    result = kernel(*arguments, _interrupted)
    check()
    return result


@contextmanager
def interruptible() -> Iterator[None]:
    """Allow new simulations at the end of the block; all simulations in it must be over by then."""
    try:
        yield
    finally:
        _interrupted[0] = 0
