"""What an iteration needs of its samples before it can solve their codes, in one region."""

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.norms import square_share, square_sparse_share
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.products import (
    PER_BLAS_OPERATION,
    add_up,
    by_rows,
    correlate_share,
    correlate_sparse_share,
    csc,
)
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.threads import threads_for
from somf.typing import Array, Matrix, Slices


def observe(X: Matrix, D: Array, rows: Slices) -> tuple[Array, Array]:
    """See `Kernels.observe`."""
    b, k = X.shape[0], D.shape[1]
    D = by_rows(D)
    is_dense = isinstance(X, np.ndarray)
    per_operation = PER_BLAS_OPERATION if is_dense else 1.0
    threads = threads_for(per_operation * 2.0 * b * k * count_rows(rows))
    pieces, edges = shares(rows, threads.count)
    parts = threads.buffer("beta", (threads.count, b, k), D.dtype)
    squares = np.zeros((threads.count, 1, b), D.dtype)
    beta = np.empty((b, k), dtype=D.dtype)
    of_threads = D, pieces, edges, parts, squares, beta
    if is_dense:
        _observe(threads.count, by_rows(X), *of_threads)
    else:
        _observe_sparse(threads.count, *csc(X), *of_threads)
    sq_norm: Array = squares[0, 0]
    return beta, sq_norm


@region
def _observe(
    launcher: int,
    X: Array,
    D: Array,
    pieces: Array,
    edges: Array,
    parts: Array,
    squares: Array,
    beta: Array,
) -> None:
    in_parallel(_observe_share, launcher, len(parts), X, D, pieces, edges, parts, squares)
    add_up(launcher, parts, beta)
    add_up(launcher, squares, squares[0])


@inner
def _observe_share(
    t: int, X: Array, D: Array, pieces: Array, edges: Array, parts: Array, squares: Array
) -> None:
    correlate_share(t, X, D, pieces, edges, parts)
    square_share(t, X, pieces, edges, squares)


@region
def _observe_sparse(
    launcher: int,
    indptr: Array,
    indices: Array,
    data: Array,
    D: Array,
    pieces: Array,
    edges: Array,
    parts: Array,
    squares: Array,
    beta: Array,
) -> None:
    in_parallel(
        _observe_sparse_share,
        launcher,
        len(parts),
        indptr,
        indices,
        data,
        D,
        pieces,
        edges,
        parts,
        squares,
    )
    add_up(launcher, parts, beta)
    add_up(launcher, squares, squares[0])


@inner
def _observe_sparse_share(
    t: int,
    indptr: Array,
    indices: Array,
    data: Array,
    D: Array,
    pieces: Array,
    edges: Array,
    parts: Array,
    squares: Array,
) -> None:
    correlate_sparse_share(t, indptr, indices, data, D, pieces, edges, parts)
    square_sparse_share(t, indptr, indices, data, pieces, edges, squares)
