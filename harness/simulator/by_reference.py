"""Pass a named tuple of arrays to compiled functions by reference.

Numba passes a named tuple by value, all its arrays' addresses, shapes and strides one by one. For the State
that is more than a kilobyte in each call, which takes the compiler longer than all the steps' work.
``by_reference`` gives compiled functions one pointer instead. They read its fields as before, and may not
replace them. The fields' addresses and shapes never change, which lets the compiler read each of them once.

With NUMBA_DISABLE_JIT=1 the tuple itself is passed.
"""

# Numba's interface for extensions has no types.
# mypy: disable-error-code="no-untyped-call,untyped-decorator,override"

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model

from harness.simulator.compiled import PLAIN

T = TypeVar("T")


class Reference(types.Type):
    """The type of a pointer to a named tuple."""

    def __init__(self, target: types.NamedTuple) -> None:
        self.target = target
        super().__init__("Reference(" + hashlib.sha256(str(target).encode()).hexdigest()[:16] + ")")


register_model(Reference)(models.OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> types.Type | None:
        fields = reference.target.fields
        return reference.target.types[fields.index(name)] if name in fields else None


@lower_getattr_generic(Reference)
def _field(context: Any, builder: Any, reference: Reference, pointer: ir.Value, name: str) -> ir.Value:
    struct = context.get_value_type(reference.target)
    index = reference.target.fields.index(name)
    address = builder.bitcast(pointer, struct.as_pointer())
    return _load(builder, cgutils.gep_inbounds(builder, address, 0, index), struct.elements[index])


def _load(builder: Any, address: ir.Value, kind: ir.Type) -> ir.Value:
    """What is at ``address`` and never changes, number by number."""
    if not isinstance(kind, ir.Aggregate):
        value = builder.load(address)
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value
    whole = ir.Constant(kind, ir.Undefined)
    for number in range(len(kind)):
        element = cgutils.gep_inbounds(builder, address, 0, number)
        part = _load(builder, element, kind.elements[number])
        whole = builder.insert_value(whole, part, number)
    return whole


def _copy(typing_context: Any, target: types.NamedTuple) -> Any:
    """A pointer to a copy of ``target`` that lives as long as the function that calls this."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        storage = builder.bitcast(cgutils.alloca_once_value(builder, arguments[0]), cgutils.voidptr_t)
        # The compiler must not see where the pointer comes from. Since what it points to never changes, the
        # compiler would take the memory's contents before the copy for it.
        same = ir.FunctionType(cgutils.voidptr_t, [cgutils.voidptr_t])
        return builder.asm(same, "", "=r,0,~{memory}", [storage], side_effect=True)

    return Reference(target)(target), build


def _itself(target: T) -> T:
    return target


by_reference: Callable[[T], T] = _itself if PLAIN else cast(Any, intrinsic(_copy))
"""Its argument for compiled functions, whose calls must end before the caller does."""
