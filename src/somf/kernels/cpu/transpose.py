"""Transposed copies of matrices, in blocks that fit the registers of a processor.

Written as loops, Numba copies one number at a time, or gathers some from as many cache lines.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from somf.kernels.cpu.blas import Place, one_of, place_of
from somf.kernels.cpu.jit import inner
from somf.typing import Array

BLOCK = 8
"""Rows and columns of a block: a row of single-precision numbers is a vector register."""

Corner = tuple[int, int]
"""The first row and column of a part of a matrix."""


@inner
def transpose(
    A: Array, corner: Corner, out: Array, corner_of_out: Corner, shape: tuple[int, int]
) -> None:
    """Set a part of an array to the transpose of a part of another; for compiled functions only.

    Parameters
    ----------
    A : ndarray
    corner : tuple of int
        The first row and column of the part; slices of arrays take longer to compile.
    out : ndarray, overwritten
        Of the same type. The entries of a row follow one another in both; rows may be apart.
    corner_of_out : tuple of int
    shape : tuple of int
        Rows and columns of the part of A.
    """
    size = A.itemsize
    source, target = _part(place_of(A), corner, size), _part(place_of(out), corner_of_out, size)
    _transpose(one_of(A, A, out), size, source, target, shape)


@inner
def _part(place: Place, corner: Corner, size: int) -> Place:
    """Return where a part of a matrix is, with the distance of rows in bytes."""
    address, row = place
    return address + (corner[0] * row + corner[1]) * size, row * size


@inner
def _transpose(one: float, size: int, A: Place, out: Place, shape: tuple[int, int]) -> None:
    """Transpose a matrix of numbers of some bytes; compiled once for each type of numbers."""
    (m, n), (start, row), (start_of_out, row_of_out) = shape, A, out
    for i in range(0, m, BLOCK):
        for j in range(0, n, BLOCK):
            source = start + i * row + j * size
            target = start_of_out + j * row_of_out + i * size
            if i + BLOCK <= m and j + BLOCK <= n:
                _transpose_block(one, source, row, target, row_of_out)
                continue
            for di in range(min(BLOCK, m - i)):
                for dj in range(min(BLOCK, n - j)):
                    entry = source + di * row + dj * size
                    _copy_number(one, entry, target + dj * row_of_out + di * size)


@intrinsic
def _copy_number(typing_context: Any, one: Any, source: Any, target: Any) -> Any:  # noqa: ARG001 (types)
    """Copy the number at an address to another address."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = context.get_value_type(signature.args[0]).as_pointer()
        number = builder.load(builder.inttoptr(values[1], pointer))
        builder.store(number, builder.inttoptr(values[2], pointer))
        return context.get_dummy_value()

    return types.void(one, types.intp, types.intp), generate


@intrinsic
def _transpose_block(
    typing_context: Any,  # noqa: ARG001 (part of the protocol)
    one: Any,
    source: Any,  # noqa: ARG001 (the types of values that only compiled code has)
    source_row: Any,  # noqa: ARG001 (likewise)
    target: Any,  # noqa: ARG001 (likewise)
    target_row: Any,  # noqa: ARG001 (likewise)
) -> Any:
    """Transpose a block, given the addresses of both, and the bytes from one row to the next.

    After the step with distance d, the bits of d in the numbers of rows and columns have changed
    places: rows whose numbers differ by d have exchanged half of their columns.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.get_value_type(signature.args[0])
        pointer = ir.VectorType(number, BLOCK).as_pointer()
        align = number.get_abi_size(context.target_data)
        _, source, source_row, target, target_row = values

        def place(start: Any, row: Any, i: int) -> Any:
            return builder.inttoptr(builder.add(start, builder.mul(row, row.type(i))), pointer)

        rows = [builder.load(place(source, source_row, i), align=align) for i in range(BLOCK)]
        for distance in (4, 2, 1):
            for i in (i for i in range(BLOCK) if not i & distance):
                pair = rows[i], rows[i + distance]
                rows[i], rows[i + distance] = (
                    _exchange(builder, *pair, distance, takes_first)
                    for takes_first in (True, False)
                )
        for i, row in enumerate(rows):
            builder.store(row, place(target, target_row, i), align=align)
        return context.get_dummy_value()

    return types.void(one, *[types.intp] * 4), generate


def _exchange(builder: Any, a: Any, b: Any, distance: int, is_first: bool) -> Any:
    """Return the new first or second row of a pair, as in `_transpose_block`."""
    lanes = [
        (column if is_first else column ^ distance)
        if not column & distance
        else BLOCK + ((column ^ distance) if is_first else column)
        for column in range(BLOCK)
    ]
    mask = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), lanes)
    return builder.shuffle_vector(a, b, mask)
