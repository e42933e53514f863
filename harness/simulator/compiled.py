"""How the simulator's kernels are compiled.

Every kernel is a plain function under one of two decorators. ``step`` compiles it so that
it holds no Python lock, checks no division and counts no references: kernels only look at
arrays that their caller keeps alive, so counting (atomic, per array and call) would buy
nothing. ``hot`` also asks for inlining, for the steps of every event.

With NUMBA_DISABLE_JIT=1 both leave the function as it is, and all of it runs in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def step(function: F) -> F:
    """Compile ``function`` at its first call."""
    return cast(F, numba.njit(function, **OPTIONS))


def hot(function: F) -> F:
    """Compile ``function`` into each of its callers."""
    return cast(F, numba.njit(function, forceinline=True, **OPTIONS))
