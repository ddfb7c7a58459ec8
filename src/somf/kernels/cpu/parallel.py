"""A parallel loop for compiled functions that takes little time to compile.

Numba compiles every loop over ``prange`` as a function of its own, together with all that the loop
calls, once more for the function around it, and all of it again for a single thread. That took more
than half of the seconds of a first fit. Here one loop over ``prange`` serves all kernels: its body
is a function that it knows by its address.
"""

from typing import Any

from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from somf.kernels.cpu.jit import ONLY_PRANGE, jit

INTEGER = ir.IntType(types.intp.bitwidth)
"""An integer as wide as an address."""

BODY = ir.FunctionType(ir.VoidType(), [INTEGER, INTEGER])
"""The body of the loop. It takes the number of the iteration and the address of its arguments."""

LOOP_TYPES = (types.intp, types.intp, types.intp)
"""The types of the arguments of `_loop`."""


SERIAL = 0
"""The launcher of a loop that the calling thread runs alone."""


@intrinsic
def _call(typing_context: Any, body: Any, i: Any, arguments: Any) -> Any:  # noqa: ARG001 (types)
    """Call the body of a loop, which is given by its address."""

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        body, i, arguments = values
        builder.call(builder.inttoptr(body, BODY.as_pointer()), [i, arguments])
        return context.get_dummy_value()

    return types.void(*LOOP_TYPES), generate


def _loop(body: int, arguments: int, count: int) -> None:
    """Call a body `count` times; Numba's threads share the calls."""
    for i in prange(count):
        _call(body, i, arguments)


def launcher() -> int:
    """Return the address of the loop that Numba's threads share, after it has started them.

    Raises
    ------
    ValueError
        If Numba finds no threading layer.
    """
    loop: Any = jit(_loop, parallel=ONLY_PRANGE)
    loop.compile(LOOP_TYPES)
    compiled = loop.overloads[LOOP_TYPES]
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


@intrinsic
def in_parallel(
    typing_context: Any,
    body: Any,
    launcher: Any,  # noqa: ARG001 (the types of values that only compiled code has)
    count: Any,  # noqa: ARG001 (likewise)
    *arguments: Any,
) -> Any:
    """Call ``body(i, *arguments)`` for i from 0 to ``count − 1``; for compiled functions only.

    Parameters
    ----------
    body : compiled function
        Returns nothing. Calls with different i must not write to the same memory.
    launcher : int
        What `launcher` has returned, or `SERIAL`.
    count : int
    *arguments : object

    Raises
    ------
    MemoryError
        If a call has failed, which can have no other reason in code that checks no bounds.
    """
    call = body.get_call_type(typing_context, (types.intp, *arguments), {})

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        _, launcher, count, packed = values
        owned = cgutils.unpack_tuple(builder, packed)
        borrowed = [
            _borrowed(context, builder, kind, value)
            for kind, value in zip(arguments, owned, strict=True)
        ]
        memory, failed = _store(builder, borrowed)
        function = _body_function(context, builder.module, body, call, memory.type.pointee)
        address = builder.ptrtoint(memory, INTEGER)
        is_serial = builder.icmp_signed("==", launcher, INTEGER(SERIAL))
        with builder.if_else(is_serial) as (serial, shared):
            with serial, cgutils.for_range(builder, count) as loop:
                builder.call(function, [loop.index, address])
            with shared:
                loop_type = context.call_conv.get_function_type(types.void, LOOP_TYPES)
                target = builder.inttoptr(launcher, loop_type.as_pointer())
                body_and_arguments = [builder.ptrtoint(function, INTEGER), address]
                context.call_conv.call_function(
                    builder, target, types.void, LOOP_TYPES, [*body_and_arguments, count]
                )
        with builder.if_then(cgutils.is_true(builder, builder.load(failed)), likely=False):
            context.call_conv.return_user_exc(builder, MemoryError, ("a kernel has failed",))
        return context.get_dummy_value()

    return types.void(body, types.intp, types.intp, types.StarArgTuple(arguments)), generate


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return an argument without the counters of references that its arrays have.

    The calling function holds the arrays as long as the loop runs. Each slice of an array would
    count itself in and out, and threads would wait for each other at every count.
    """
    if isinstance(kind, types.Array):
        array = make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        items = zip(kind, cgutils.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(
            builder, kind, [_borrowed(context, builder, *item) for item in items]
        )
    return value


def _store(builder: Any, values: list[Any]) -> tuple[Any, Any]:
    """Store arguments on the stack, and after them a flag that a call has failed.

    Returns
    -------
    memory, flag : llvmlite.ir.Value
        Pointers to all of it, and to the flag.
    """
    struct = ir.LiteralStructType([*(value.type for value in values), INTEGER])
    memory = cgutils.alloca_once(builder, struct)
    for n, value in enumerate([*values, INTEGER(0)]):
        builder.store(value, cgutils.gep_inbounds(builder, memory, 0, n))
    return memory, cgutils.gep_inbounds(builder, memory, 0, len(values))


def _body_function(context: Any, module: Any, body: Any, call: Any, struct: Any) -> Any:
    """Return a function of type `BODY` that loads the arguments and calls a compiled function."""
    compiled = body.dispatcher.overloads[call.args]
    context.add_linking_libs([compiled.library])
    function = ir.Function(module, BODY, name=module.get_unique_name("somf_body"))
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    memory = builder.inttoptr(function.args[1], struct.as_pointer())
    *at_arguments, at_flag = (
        cgutils.gep_inbounds(builder, memory, 0, n) for n in range(len(struct.elements))
    )
    values = [function.args[0], *(builder.load(at) for at in at_arguments)]
    target = context.declare_function(module, compiled.fndesc)
    status, _ = context.call_conv.call_function(
        builder, target, call.return_type, call.args, values
    )
    with builder.if_then(status.is_error, likely=False):
        builder.store(INTEGER(1), at_flag)
    builder.ret_void()
    return function
