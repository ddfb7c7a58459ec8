"""Words of memory by which threads or processes wait for each other, in compiled functions."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WORD = ir.IntType(64)
"""A word."""

BYTES = 8
"""Of a word."""


@intrinsic
def load(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 (types)
    """Return a word that other threads or processes write, and what they have written before it."""

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:  # noqa: ARG001
        pointer = builder.inttoptr(values[0], WORD.as_pointer())
        return builder.load_atomic(pointer, "acquire", BYTES)

    return types.int64(types.intp), generate


@intrinsic
def store(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001 (types)
    """Write a word that other threads or processes read, after all that was written before."""

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], WORD.as_pointer())
        builder.store_atomic(values[1], pointer, "release", BYTES)
        return context.get_dummy_value()

    return types.void(types.intp, types.int64), generate


@intrinsic
def replace(typing_context: Any, address: Any, old: Any, new: Any) -> Any:  # noqa: ARG001 (types)
    """Replace a word, if it has not changed; return whether it was replaced."""

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:  # noqa: ARG001
        pointer = builder.inttoptr(values[0], WORD.as_pointer())
        found = builder.cmpxchg(pointer, values[1], values[2], "acq_rel", "acquire")
        return builder.extract_value(found, 1)

    return types.boolean(types.intp, types.int64, types.int64), generate
