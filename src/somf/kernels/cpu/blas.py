"""Matrix products inside compiled functions, by SciPy's BLAS, on the thread that calls them.

Linear systems likewise, by its LAPACK.

NumPy's ``np.dot`` inside Numba needs contiguous arrays and makes a new result. The BLAS routine
itself takes rows with any distance between them and adds to an existing result, so that no slice of
a minibatch has to be copied.
"""

from typing import Any

import llvmlite.binding
import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import get_cython_function_address, overload

from somf.kernels.cpu.jit import inner
from somf.typing import Array

HAS_SMALL_KERNELS = llvmlite.binding.get_host_cpu_features().get("avx512f", False)
"""Whether OpenBLAS multiplies matrices of up to 100³ operations without copying them before.

It does so on processors with AVX-512. There, products of any size take 5 to 40 % less time in tiles
of that size than in one call, and AᵀA takes half of the time. Other processors take longer.
"""

TILE_ROWS, TILE_COLUMNS, TILE_DEPTH = 64, 64, 240
"""A tile of a product, of less than 100³ operations."""

N, T = 78, 84
"""The letters that tell BLAS to take a matrix as it is, or transposed."""

Place = tuple[int, int]
"""Where a matrix is: its address, and the distance of its rows, in entries."""

GRAM_ROWS = 32
"""Rows of AᵀA that are computed at once: less of what is below the diagonal, in vain."""


LOWER = 76
"""The letter for the part at and below the diagonal, which is at and above it by rows."""


def _external(routine: str, n_arguments: int, library: str = "blas") -> Any:
    """Give compiled code a name for a routine; Numba can cache what goes by a name."""
    address = get_cython_function_address(f"scipy.linalg.cython_{library}", routine)
    llvmlite.binding.add_symbol(f"somf_{routine}", address)
    return types.ExternalFunction(f"somf_{routine}", types.void(*[types.intp] * n_arguments))


# α op(A) op(B) + β C, and α AAᵀ + β C, in single and double precision
_sgemm, _dgemm = _external("sgemm", 13), _external("dgemm", 13)
_ssyrk, _dsyrk = _external("ssyrk", 10), _external("dsyrk", 10)
# the solution of positive definite systems
_sposv, _dposv = _external("sposv", 8, "lapack"), _external("dposv", 8, "lapack")


@inner
def add_product(A: Array, transpose_A: bool, B: Array, beta: float, C: Array) -> None:
    """Do C ← beta C + op(A) B, with op(A) = A or Aᵀ; for compiled functions only.

    Parameters
    ----------
    A : ndarray of shape (m, q), or (q, m) if it is transposed
    transpose_A : bool
    B : ndarray of shape (q, n)
    beta : float
        With 0, what is in C does not matter.
    C : ndarray of shape (m, n), overwritten
        The entries of a row follow one another in all three arrays; rows may be apart.
    """
    size = (C.shape[0], C.shape[1], len(B))
    _multiply(one_of(A, B, C), place_of(A), transpose_A, place_of(B), beta, place_of(C), size)


@inner
def add_gram(A: Array, beta: float, C: Array) -> None:
    """Do C ← beta C + AᵀA on and above the diagonal; for compiled functions only.

    Parameters
    ----------
    A : ndarray of shape (q, m)
    beta : float
    C : ndarray of shape (m, m), overwritten
        What is below the diagonal does not matter, and is not the result; see `mirror`.
    """
    if not HAS_SMALL_KERNELS:
        _syrk(A, beta, C)
        return
    one, m = one_of(A, A, C), len(C)
    (at_A, row_A), (at_C, row_C) = place_of(A), place_of(C)
    for i in range(0, m, GRAM_ROWS):
        columns = (at_A + i * A.itemsize, row_A)
        rows = (at_C + i * (row_C + 1) * C.itemsize, row_C)
        _multiply(one, columns, True, columns, beta, rows, (min(GRAM_ROWS, m - i), m - i, len(A)))


def one_of(A: Array, B: Array, C: Array) -> float:
    """Return 1 as a number of the type of matrices, which must have the same."""
    raise NotImplementedError("only compiled functions can call this")  # the overload is called


@overload(one_of)
def _one_of_type(A: Any, B: Any, C: Any) -> Any:
    if not A.dtype == B.dtype == C.dtype:
        raise TypingError(f"factors and product must have one type, got {A}, {B} and {C}")

    def one(A: Any, B: Any, C: Any) -> Any:  # noqa: ARG001 (types)
        return C.dtype.type(1)

    return one


@inner
def place_of(A: Array) -> Place:
    """Return the address of a matrix, and the distance of its rows, in entries.

    The distance between rows may be anything if there is a single one.
    """
    return int(np.int64(A.ctypes.data)), max(A.strides[0] // A.itemsize, A.shape[1], 1)


@inner
def _multiply(
    one: float,
    A: Place,
    transpose_A: bool,
    B: Place,
    beta: float,
    C: Place,
    size: tuple[int, int, int],
) -> None:
    """Do what `add_product` does, in tiles where that is faster.

    Matrices are given by their places, so that Numba compiles this function once for each type of
    numbers, and not for each layout of arrays.

    Parameters
    ----------
    one : float
        1, of the type of the numbers.
    A : Place
    transpose_A : bool
    B : Place
    beta : float
    C : Place
    size : tuple (m, n, q)
    """
    m, n, q = size
    rows, columns, depth = max(m, 1), max(n, 1), max(q, 1)
    if HAS_SMALL_KERNELS and m * n * q > TILE_ROWS * TILE_COLUMNS * TILE_DEPTH:
        rows, columns, depth = TILE_ROWS, TILE_COLUMNS, TILE_DEPTH
    # BLAS has matrices by columns: its Cᵀ = Bᵀ op(A)ᵀ is C by rows.
    sizes, letters, factors = np.empty(6, np.int32), np.empty(2, np.uint8), np.empty(2, type(one))
    sizes[3], sizes[4], sizes[5] = B[1], A[1], C[1]
    letters[0], letters[1] = N, T if transpose_A else N
    numbers = sizes.ctypes.data, letters.ctypes.data, factors.ctypes.data
    for i in range(0, m, rows):
        for j in range(0, n, columns):
            for at in range(0, max(q, 1), depth):
                sizes[0], sizes[1] = min(columns, n - j), min(rows, m - i)
                sizes[2] = min(depth, q - at)
                factors[0], factors[1] = 1, beta if at == 0 else 1
                first = at * A[1] + i if transpose_A else i * A[1] + at
                at_A = A[0] + first * factors.itemsize
                at_B = B[0] + (at * B[1] + j) * factors.itemsize
                at_C = C[0] + (i * C[1] + j) * factors.itemsize
                _gemm(one, numbers, factors.itemsize, at_A, at_B, at_C)
    # Numba frees an array after its last use, and an address is none.
    sizes[0], letters[0], factors[0] = 0, 0, 0


def _gemm(
    one: float, numbers: tuple[int, int, int], itemsize: int, at_A: int, at_B: int, at_C: int
) -> None:
    """Multiply matrices at some addresses by one call of BLAS."""
    raise NotImplementedError("only compiled functions can call this")  # the overload is called


@overload(_gemm)
def _gemm_of_type(one: Any, numbers: Any, itemsize: Any, at_A: Any, at_B: Any, at_C: Any) -> Any:  # noqa: ARG001 (types)
    gemm = _sgemm if one == types.float32 else _dgemm

    def call(one: Any, numbers: Any, itemsize: Any, at_A: Any, at_B: Any, at_C: Any) -> Any:  # noqa: ARG001 (its type)
        size, letter, factor = numbers
        gemm(
            letter,
            letter + 1,
            size,
            size + 4,
            size + 8,
            factor,
            at_B,
            size + 12,
            at_A,
            size + 16,
            factor + itemsize,
            at_C,
            size + 20,
        )

    return call


def _syrk(A: Array, beta: float, C: Array) -> None:
    """Do what `add_gram` does in one call of BLAS."""
    raise NotImplementedError("only compiled functions can call this")  # the overload is called


@overload(_syrk)
def _syrk_of_types(A: Any, beta: Any, C: Any) -> Any:  # noqa: ARG001 (types)
    if not A.dtype == C.dtype:
        raise TypingError(f"factor and product must have one type, got {A} and {C}")
    syrk = _ssyrk if C.dtype == types.float32 else _dsyrk

    def call(A: Any, beta: Any, C: Any) -> Any:
        sizes = np.empty(4, np.int32)
        sizes[0], sizes[1] = A.shape[1], A.shape[0]
        sizes[2] = max(A.strides[0] // A.itemsize, A.shape[1], 1)
        sizes[3] = max(C.strides[0] // C.itemsize, C.shape[1], 1)
        letters = np.empty(2, np.uint8)
        letters[0], letters[1] = LOWER, N
        factors = np.empty(2, C.dtype)
        factors[0], factors[1] = 1, beta
        size, letter, factor = sizes.ctypes.data, letters.ctypes.data, factors.ctypes.data
        syrk(
            letter,
            letter + 1,
            size,
            size + 4,
            factor,
            A.ctypes.data,
            size + 8,
            factor + factors.itemsize,
            C.ctypes.data,
            size + 12,
        )
        sizes[0], letters[0], factors[0] = 0, 0, 0  # as above

    return call


@inner
def mirror(C: Array) -> None:
    """Copy what is above the diagonal below it."""
    for i in range(len(C)):
        for j in range(i):
            C[i, j] = C[j, i]


def solve_positive(A: Array, X: Array) -> bool:
    """Set X to the solution of YA = X; for compiled functions only.

    Parameters
    ----------
    A : ndarray of shape (k, k), overwritten
        Positive definite, and thus symmetric. What is below the diagonal does not matter.
    X : ndarray of shape (m, k), overwritten
        Of the same type. Both are contiguous.

    Returns
    -------
    is_solved : bool
        False if A is not positive definite.
    """
    raise NotImplementedError("only compiled functions can call this")  # the overload is called


@overload(solve_positive)
def _solve_positive_of_types(A: Any, X: Any) -> Any:
    if not A.dtype == X.dtype:
        raise TypingError(f"both must have one type, got {A} and {X}")
    posv = _sposv if A.dtype == types.float32 else _dposv

    def call(A: Any, X: Any) -> Any:
        sizes, letter = np.empty(3, np.int32), np.empty(1, np.uint8)
        sizes[0], sizes[1], letter[0] = len(A), len(X), LOWER
        size, at_A = sizes.ctypes.data, A.ctypes.data
        posv(letter.ctypes.data, size, size + 4, at_A, size, X.ctypes.data, size, size + 8)
        is_solved = sizes[2] == 0
        sizes[0], letter[0] = 0, 0  # as above
        return is_solved

    return call
