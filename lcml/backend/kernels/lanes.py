"""Vector types for numba: LANES numbers, or MANY_LANES, one per example, that the compiler keeps in registers.

Left to itself numba keeps such rows in memory and guards every loop over them against overlap, which costs the passes
two thirds of their speed. Machines whose registers are narrower take several of them for one vector.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 32
"""Examples worked on together: two AVX-512 registers of float32, or more of other kinds."""

MANY_LANES = 4 * LANES
"""Examples of a longer vector, for kernels that read a program: one reading of it serves more of them."""

STREAM_BYTES = 64
"""`stream` needs addresses that are multiples of this: a cache line."""


class Vector(types.Type):
    """So many numbers of one type."""

    def __init__(self, dtype: Any, lanes: int = LANES) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"Vector({dtype}, {lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), kind.lanes)
        )


def _instruction(typed: Callable[..., Any]) -> Any:
    """numba.extending.intrinsic, whose own type says nothing of what the instruction takes."""
    return intrinsic(typed)


def _place(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """The address of array[index], without a check."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


def _load(lanes: int) -> Any:
    def typed(typing_context: Any, array: Any, index: Any) -> Any:
        kind = Vector(array.dtype, lanes)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = _place(context, builder, signature.args[0], *arguments)
            value = builder.load(builder.bitcast(place, context.get_value_type(kind).as_pointer()))
            value.align = array.dtype.bitwidth // 8
            return value

        return kind(array, types.intp), generate

    return _instruction(typed)


load, load_many = _load(LANES), _load(MANY_LANES)  # array[index : index + LANES] of a flat array, or MANY_LANES


@_instruction
def store(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """array[index : index + lanes of the vector] = vector."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], *arguments[:2])
        kind = context.get_value_type(vector)
        builder.store(arguments[2], builder.bitcast(place, kind.as_pointer())).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@_instruction
def stream(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """As `store`, past the caches: what is written is not read first and evicts nothing. In order with other threads'
    reads once a lock is taken or released, as between the interpreter's threads."""
    size = STREAM_BYTES * 8 // array.dtype.bitwidth

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        for first in range(0, LANES, size):  # line by line: the compiler takes a vector of several apart into numbers
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), size), list(range(first, first + size)))
            line = builder.shuffle_vector(arguments[2], arguments[2], lanes)
            index = builder.add(arguments[1], arguments[1].type(first))
            place = _place(context, builder, signature.args[0], arguments[0], index)
            instruction = builder.store(line, builder.bitcast(place, line.type.as_pointer()), align=STREAM_BYTES)
            instruction.set_metadata("nontemporal", builder.module.add_metadata([cgutils.int32_t(1)]))
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


def _spread(lanes: int) -> Any:
    def typed(typing_context: Any, array: Any, index: Any) -> Any:
        kind = Vector(array.dtype, lanes)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = builder.load(_place(context, builder, signature.args[0], *arguments))
            empty = ir.Constant(context.get_value_type(kind), ir.Undefined)
            first = builder.insert_element(empty, value, cgutils.int32_t(0))
            return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))

        return kind(array, types.intp), generate

    return _instruction(typed)


spread, spread_many = _spread(LANES), _spread(MANY_LANES)  # array[index] in every lane


def _arithmetic(name: str) -> Any:
    def typed(typing_context: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(*arguments, flags=("contract",))  # a multiply and an add may become one

        return left(left, right), generate

    return _instruction(typed)


add, multiply, divide = _arithmetic("fadd"), _arithmetic("fmul"), _arithmetic("fdiv")
