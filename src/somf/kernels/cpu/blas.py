"""Matrix products inside compiled functions, by SciPy's BLAS, on the thread that calls them.

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

It does so on processors with AVX-512. Products in tiles of that size take 5 to 40 % less time there
than in one call, whatever their size, and AᵀA takes half of the time; elsewhere they take longer.
"""

TILE_ROWS, TILE_COLUMNS, TILE_DEPTH = 64, 64, 240
"""A tile of a product, of less than 100³ operations."""

GRAM_ROWS = 32
"""Rows of AᵀA that are computed at once: less of what is below the diagonal, in vain."""


def _external(routine: str, n_arguments: int) -> Any:
    """Give compiled code a name for a BLAS routine; Numba can cache what goes by a name."""
    address = get_cython_function_address("scipy.linalg.cython_blas", routine)
    llvmlite.binding.add_symbol(f"somf_{routine}", address)
    return types.ExternalFunction(f"somf_{routine}", types.void(*[types.intp] * n_arguments))


# α op(A) op(B) + β C, and α AAᵀ + β C, in single and double precision
_sgemm, _dgemm = _external("sgemm", 13), _external("dgemm", 13)
_ssyrk, _dsyrk = _external("ssyrk", 10), _external("dsyrk", 10)


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
    (m, n), q = C.shape, len(B)
    rows, columns, depth = m, n, max(q, 1)
    if HAS_SMALL_KERNELS and m * n * q > TILE_ROWS * TILE_COLUMNS * TILE_DEPTH:
        rows, columns, depth = TILE_ROWS, TILE_COLUMNS, TILE_DEPTH
    for i in range(0, m, rows):
        for j in range(0, n, columns):
            factor = beta
            for at in range(0, max(q, 1), depth):
                B_tile = B[at : at + depth, j : j + columns]
                C_tile = C[i : i + rows, j : j + columns]
                if transpose_A:
                    A_tile = A[at : at + depth, i : i + rows]
                else:
                    A_tile = A[i : i + rows, at : at + depth]
                _gemm(A_tile, transpose_A, B_tile, factor, C_tile)
                factor = 1.0


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
    for i in range(0, len(C), GRAM_ROWS):
        add_product(A[:, i : i + GRAM_ROWS], True, A[:, i:], beta, C[i : i + GRAM_ROWS, i:])


def _gemm(A: Array, transpose_A: bool, B: Array, beta: float, C: Array) -> None:
    """Do what `add_product` does in one call of BLAS."""
    raise NotImplementedError("only compiled functions can call this")  # the overload is called


@overload(_gemm)
def _gemm_of_types(A: Any, transpose_A: Any, B: Any, beta: Any, C: Any) -> Any:  # noqa: ARG001 (types)
    if not A.dtype == B.dtype == C.dtype:
        raise TypingError(f"factors and product must have one type, got {A}, {B} and {C}")
    gemm = _sgemm if C.dtype == types.float32 else _dgemm

    def call(A: Any, transpose_A: Any, B: Any, beta: Any, C: Any) -> Any:
        # BLAS has matrices by columns: its Cᵀ = Bᵀ op(A)ᵀ is C by rows.
        sizes = np.empty(6, np.int32)
        sizes[0], sizes[1], sizes[2] = C.shape[1], C.shape[0], B.shape[0]
        # The distance between rows; of a single row it may be anything.
        sizes[3] = max(B.strides[0] // B.itemsize, B.shape[1], 1)
        sizes[4] = max(A.strides[0] // A.itemsize, A.shape[1], 1)
        sizes[5] = max(C.strides[0] // C.itemsize, C.shape[1], 1)
        transposed = np.empty(2, np.uint8)
        transposed[0] = 78  # N
        transposed[1] = 84 if transpose_A else 78  # T or N
        factors = np.empty(2, C.dtype)
        factors[0], factors[1] = 1, beta
        size, flag, factor = sizes.ctypes.data, transposed.ctypes.data, factors.ctypes.data
        gemm(
            flag,
            flag + 1,
            size,
            size + 4,
            size + 8,
            factor,
            B.ctypes.data,
            size + 12,
            A.ctypes.data,
            size + 16,
            factor + factors.itemsize,
            C.ctypes.data,
            size + 20,
        )
        # Numba frees an array after its last use, and an address is none.
        sizes[0], transposed[0], factors[0] = 0, 0, 0

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
        letters[0], letters[1] = 76, 78  # L (above the diagonal, by rows) and N
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
