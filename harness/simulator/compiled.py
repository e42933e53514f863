"""Three decorators that compile the simulator's kernels.

``step`` compiles a function for other compiled functions only. ``hot`` compiles it into each of
its callers, for the steps of every event and every context switch. ``entry`` compiles a
function that Python calls. None of them holds the interpreter lock, checks divisions or counts
references: the caller keeps the arrays alive, so atomic counting would gain nothing.

With NUMBA_DISABLE_JIT=1 all three leave the function as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import types

from harness.simulator import cache

setattr(numba.config, "CACHE_DIR", str(cache.directory()))  # noqa: B010 - unknown to type checkers

PLAIN = bool(getattr(numba.config, "DISABLE_JIT"))  # noqa: B009 - unknown to type checkers
"""Whether functions stay as they are."""

F = TypeVar("F", bound=Callable[..., Any])

ENTRY: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
INNER: dict[str, Any] = {**ENTRY, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Without wrappers for calls from Python and C, which take longer to compile than the rest."""


def step(function: F) -> F:
    """Compile ``function`` for use in other compiled functions.

    It says that it is not inlined: else it inherits that from the first ``hot`` function that calls it.
    """
    return cast(F, _once(numba.njit(function, forceinline=False, **INNER)))


def hot(function: F) -> F:
    """Compile ``function`` into each of its callers."""
    return cast(F, _once(numba.njit(function, forceinline=True, **INNER)))


def entry(function: F) -> F:
    """Compile ``function`` for a call from Python, or load what an earlier run compiled."""
    return cast(F, numba.njit(function, cache=True, **ENTRY))


def _once(dispatcher: Any) -> Any:
    """Let the compiler widen whole numbers to 64 bits in calls of ``dispatcher``.

    Else it would compile the function, and all that it calls, once for each constant and each width.
    """
    if PLAIN:
        return dispatcher
    resolve = dispatcher.get_call_template

    def resolve_widened(arguments: tuple[types.Type, ...], keywords: dict[str, types.Type]) -> Any:
        return resolve(tuple(map(_widened, arguments)), keywords)

    dispatcher.get_call_template = resolve_widened
    return dispatcher


def _widened(argument: types.Type) -> types.Type:
    literal = isinstance(argument, types.IntegerLiteral)
    return types.int64 if literal or isinstance(argument, types.Integer) else argument
