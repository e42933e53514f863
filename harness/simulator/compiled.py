"""Three decorators that compile the simulator's kernels, by the rules of :mod:`harness.simulator.target`.

``step`` compiles a function for other compiled functions only. ``hot`` compiles it into each of
its callers: a leaf, which calls no other ``hot`` function, or one of the measured exceptions in
``tests/harness/simulator/test_hot.py``. ``entry`` compiles a
function that Python calls, with all that it calls. None of them holds the interpreter lock, checks
divisions or counts references. None counts an index from the end of an array: an index below 0 is a fault.

With NUMBA_DISABLE_JIT=1 all three leave the function as it is.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from harness.simulator.target import jit

PLAIN = bool(getattr(numba.config, "DISABLE_JIT"))  # noqa: B009 - unknown to type checkers
"""Whether functions stay as they are."""

F = TypeVar("F", bound=Callable[..., Any])

INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Without wrappers for calls from Python and C, which take longer to compile than the rest."""


def step(function: F) -> F:
    """Compile ``function`` for use in other compiled functions.

    It says that it is not inlined: else it inherits that from the first ``hot`` function that calls it.
    """
    return cast(F, jit(function, forceinline=False, **INNER))


def hot(function: F) -> F:
    """Compile ``function`` into each of its callers."""
    return cast(F, jit(function, forceinline=True, **INNER))


def entry(function: F) -> F:
    """Compile ``function`` for a call from Python, or load what an earlier run compiled."""
    return cast(F, jit(function, cache=True))
