"""A target of numba's for the simulator's kernels, by its interface for extensions.

Numba translates for targets: a processor, a graphics card. This one is the processor, with other rules for
the functions of this project, and for no other function of the process:

    one optimisation   Numba optimises each function together with all that it calls, and makes machine code
                       of both, although only the outermost is called. Here a function that Python cannot
                       call is handed on as it is, and optimised once, with the one that Python calls.
    one version        Whole numbers are 64 bits wide in calls. Else numba compiles a function, and all that
                       it calls, once for each constant and each width.
    plain indices      None counts from the end of an array; numba compares each index with 0 before its use.
    no counting        of references, and no check of divisors: the caller keeps the arrays alive.
    a cache            in a directory of our own.
"""

# Numba's interface for extensions has few types.
# mypy: disable-error-code="no-untyped-call,misc,override,attr-defined"

import functools
import hashlib
import operator
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import llvmlite.binding as llvm
import numba
from numba.core import caching, codegen, cpu, registry, types
from numba.core.runtime import rtsys
from numba.core.target_extension import (
    CPU,
    dispatcher_registry,
    jit_registry,
    target_override,
    target_registry,
)
from numba.core.typing import arraydecl, templates
from numba.core.typing.context import Context

from harness.simulator import cache

NAME = "lockstep"
DIRECTORY = cache.directory()


class Target(CPU):
    """The token by which numba knows the target."""


target_registry[NAME] = Target


class _Library(codegen.JITCodeLibrary):
    """The code of one function, and the libraries of all that it calls, directly or not."""

    has_wrapper = False
    """Whether Python can call the function."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.called: dict[Any, None] = {}

    def add_linking_library(self, library: Any) -> None:
        # Callers come first: the linker leaves out what nothing before has called.
        self.called |= {library: None} | getattr(library, "called", {})

    def finalize(self) -> None:
        if self.has_wrapper:
            for library in self.called:
                super().add_linking_library(library)
            super().finalize()
        self._finalized = True

    def _optimize_final_module(self) -> None:
        """Optimise, once all but the outermost function are private: interfaces of others must be kept."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.linkonce_odr:
                function.linkage = "internal"
        super()._optimize_final_module()


class _Codegen(codegen.JITCPUCodegen):
    _library_class = _Library

    def set_env(self, env_name: str, env: Any) -> None:
        """What a function needs of Python, if it is machine code."""
        if self._engine.is_symbol_defined(env_name):
            super().set_env(env_name, env)


class _Context(cpu.CPUContext):
    """How functions become code."""

    def init(self) -> None:
        super().init()
        self._internal_codegen = _Codegen("numba.exec")

    def load_additional_registries(self) -> None:
        rtsys.initialize(
            registry.cpu_target.target_context
        )  # the first context that comes gives all its library
        super().load_additional_registries()

    def create_cpython_wrapper(self, library: _Library, *arguments: Any, **named: Any) -> None:
        library.has_wrapper = True
        super().create_cpython_wrapper(library, *arguments, **named)


_registry = templates.Registry()


class _Indexing(templates.AbstractTemplate):
    """Indices without a sign, which cannot count from the end."""

    metadata = {"target": NAME}  # noqa: RUF012 - numba's name

    def generic(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Any:
        array, index, *value = args
        if isinstance(array, types.Buffer):
            index = _unsigned(index)
        return super().generic((array, index, *value), kws)


@_registry.register_global(operator.getitem)
class _GetItem(_Indexing, arraydecl.GetItemBuffer):
    pass


@_registry.register_global(operator.setitem)
class _SetItem(_Indexing, arraydecl.SetItemBuffer):
    pass


def _unsigned(index: Any) -> Any:
    if isinstance(index, types.BaseTuple):
        return types.BaseTuple.from_types(tuple(_unsigned(each) for each in index))
    return types.uintp if isinstance(index, types.Integer) else index


class _Typing(Context):
    """Which types functions have."""

    def load_additional_registries(self) -> None:
        super().load_additional_registries()
        self._load_builtins()
        self.install_registry(_registry)


class _Options(cpu.CPUTargetOptions):
    def finalize(self, flags: Any, options: dict[str, Any]) -> None:
        flags.nrt = False
        flags.release_gil = True
        flags.error_model = "numpy"
        super().finalize(flags, options)


class _Description(registry.CPUTarget):
    options = _Options

    @functools.cached_property
    def typing_context(self) -> _Typing:
        return _Typing()

    @functools.cached_property
    def target_context(self) -> _Context:
        return _Context(self.typing_context, NAME)


class _Locator(caching._CacheLocator):
    """Where the machine code of a function that Python calls is kept, and of which text it is."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self.function = function
        self._py_file = file  # numba names it where it says that a function cannot be kept

    def get_cache_path(self) -> str:
        return str(DIRECTORY / Path(self._py_file).parent.name)

    def get_source_stamp(self) -> str:
        return hashlib.sha256(Path(self._py_file).read_bytes()).hexdigest()

    def get_disambiguator(self) -> str:
        return str(self.function.__code__.co_firstlineno)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Self:
        return cls(function, file)


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012 - numba's name


class _Cache(caching.FunctionCache):
    """What cannot be read is compiled again, and what cannot be written is not kept."""

    _impl_class = _Impl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # of a damaged file, reading can raise anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)


class _Dispatcher(registry.CPUDispatcher):
    """A function, and its compiled versions."""

    targetdescr = _Description(NAME)

    def compile(self, sig: Any) -> Any:
        with target_override(NAME):
            return super().compile(sig)

    def enable_caching(self) -> None:
        self._cache = _Cache(self.py_func)

    def get_call_template(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Any:
        return super().get_call_template(tuple(map(_widened, args)), kws)


def _widened(argument: Any) -> Any:
    return types.int64 if isinstance(argument, types.Integer) else argument


jit = functools.partial(numba.jit, _target=NAME)
"""Numba's decorator, for this target."""

dispatcher_registry[Target] = _Dispatcher
jit_registry[Target] = jit
