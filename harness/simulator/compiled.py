"""Three decorators that compile the simulator's kernels.

``step`` compiles a function for other compiled functions only. ``hot`` compiles it into each of
its callers, for the steps of every event and every context switch. ``entry`` compiles a
function that Python calls, with all that it calls. None of them holds the interpreter lock, checks
divisions or counts references: the caller keeps the arrays alive, so atomic counting would gain nothing.
None counts an index from the end of an array: an index below 0 is a fault.

With NUMBA_DISABLE_JIT=1 all three leave the function as it is.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import llvmlite.binding as llvm
import numba
from numba.core import codegen, types
from numba.np import arrayobj

from harness.simulator import cache

setattr(numba.config, "CACHE_DIR", str(cache.directory()))  # noqa: B010 - unknown to type checkers

PLAIN = bool(getattr(numba.config, "DISABLE_JIT"))  # noqa: B009 - unknown to type checkers
"""Whether functions stay as they are."""

F = TypeVar("F", bound=Callable[..., Any])

ENTRY: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
INNER: dict[str, Any] = {**ENTRY, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Without wrappers for calls from Python and C, which take longer to compile than the rest."""


_names: dict[str, bool] = {}
"""Whether a function is compiled for others only."""


def step(function: F) -> F:
    """Compile ``function`` for use in other compiled functions.

    It says that it is not inlined: else it inherits that from the first ``hot`` function that calls it.
    """
    _note(function, for_others=True)
    return cast(F, _once(numba.njit(function, forceinline=False, **INNER)))


def hot(function: F) -> F:
    """Compile ``function`` into each of its callers."""
    _note(function, for_others=True)
    return cast(F, _once(numba.njit(function, forceinline=True, **INNER)))


def entry(function: F) -> F:
    """Compile ``function`` for a call from Python, or load what an earlier run compiled."""
    _note(function, for_others=False)
    return cast(F, numba.njit(function, cache=True, **ENTRY))


def _note(function: Callable[..., Any], *, for_others: bool) -> None:
    """Remember for whom ``function`` is compiled; numba's libraries know its name only."""
    name = function.__qualname__
    if _names.setdefault(name, for_others) != for_others:
        raise ValueError(f"{name}: a function that Python calls has the name of one that it does not call")


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


def _finalize(library: Any) -> None:
    """Optimise code, and turn it into machine code, only where Python calls it.

    Numba does both for each function, together with all that it calls, which takes more than half of the time
    for the kernel of the process level. Here a function that is compiled for others only hands its code on as
    it is. In what Python calls, functions are private, so that no other copy takes their place.
    """
    for_others = _names.get(library.name)
    if for_others is None:
        _plain_finalize(library)
        return
    called = dict.fromkeys(library._linking_libraries)
    for other in called:
        library._reload_init.update(other._reload_init)
        library._final_module.link_in(other._get_module_for_linking(), preserve=True)
    whole = library._final_module
    for function in whole.functions:
        if not function.is_declaration and function.linkage == llvm.Linkage.external and for_others:
            function.linkage = "linkonce_odr"
        elif function.linkage == llvm.Linkage.linkonce_odr and not for_others:
            function.linkage = "internal"
    if for_others:
        library._shared_module = whole
        library._final_module = _environments(whole)
    else:
        library._optimize_final_module()
    library._final_module.verify()
    library._finalize_final_module()


def _environments(whole: Any) -> Any:
    """A module with nothing but the variables of ``whole`` that numba sets for each function."""
    names = [variable.name for variable in whole.global_variables if "NumbaEnv" in variable.name]
    lines = [f'target triple = "{whole.triple}"', *(f'@"{name}" = common global i64 0' for name in names)]
    module = llvm.parse_assembly("\n".join(lines))
    module.name = whole.name
    return module


_plain_finalize: Any = codegen.CPUCodeLibrary.finalize
setattr(codegen.CPUCodeLibrary, "finalize", _finalize)  # noqa: B010 - unknown to type checkers


def _index(context: Any, builder: Any, kind: types.Integer, index: Any, size: Any) -> Any:
    """An index as it is, in functions that count no references; numba compares each with 0 before its use."""
    if context.enable_nrt:
        return _plain_index(context, builder, kind, index, size)
    return context.cast(builder, index, kind, types.intp)


_plain_index: Any = arrayobj.fix_integer_index
setattr(arrayobj, "fix_integer_index", _index)  # noqa: B010 - unknown to type checkers
