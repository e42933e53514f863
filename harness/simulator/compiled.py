"""Three decorators that compile the simulator's kernels.

``step`` compiles a function for other compiled functions only. ``hot`` compiles it into each of
its callers, for the steps of every event and every context switch: any other call passes the
State by value, more than a kilobyte, which takes longer than most steps. ``entry`` compiles a
function that Python calls. None of them holds the interpreter lock, checks divisions or counts
references: the caller keeps the arrays alive, so atomic counting would gain nothing.

With NUMBA_DISABLE_JIT=1 all three leave the function as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from harness.simulator import cache

setattr(numba.config, "CACHE_DIR", str(cache.directory()))  # noqa: B010 - unknown to type checkers

F = TypeVar("F", bound=Callable[..., Any])

ENTRY: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
INNER: dict[str, Any] = {**ENTRY, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Without wrappers for calls from Python and C, which take longer to compile than the rest."""


def step(function: F) -> F:
    """Compile ``function`` for use in other compiled functions."""
    return cast(F, numba.njit(function, **INNER))


def hot(function: F) -> F:
    """Compile ``function`` into each of its callers."""
    return cast(F, numba.njit(function, forceinline=True, **INNER))


def entry(function: F) -> F:
    """Compile ``function`` for a call from Python, or load what an earlier run compiled."""
    return cast(F, numba.njit(function, cache=True, **ENTRY))
