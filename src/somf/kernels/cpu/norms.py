"""Squared norms of samples and norms of atoms on the CPU, features divided among threads."""

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.products import add_up, csc
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.threads import threads_for
from somf.penalties import AtomBall
from somf.typing import Array, Matrix, Slices


def squared_norms(X: Matrix, rows: Slices) -> Array:
    """See `Kernels.squared_norms`."""
    threads = threads_for(2.0 * X.shape[0] * count_rows(rows))
    pieces, edges = shares(rows, threads.count)
    parts = np.zeros((threads.count, 1, X.shape[0]), dtype=X.dtype)
    if isinstance(X, np.ndarray):
        _square(threads.count, X, pieces, edges, parts)
    else:
        _square_sparse(threads.count, *csc(X), pieces, edges, parts)
    total: Array = parts[0, 0]
    return total


@region
def _square(launcher: int, X: Array, pieces: Array, edges: Array, parts: Array) -> None:
    """Write the sums of every thread, and in the place of the first their total."""
    in_parallel(square_share, launcher, len(parts), X, pieces, edges, parts)
    add_up(launcher, parts, parts[0])


@inner
def square_share(t: int, X: Array, pieces: Array, edges: Array, parts: Array) -> None:
    """Write the squared norms of samples over the features of a thread."""
    for i in range(len(X)):
        row_total = X.dtype.type(0)
        for n in range(edges[t], edges[t + 1]):
            row = X[i, pieces[n, 0] : pieces[n, 1]]
            for j in range(len(row)):
                row_total += row[j] * row[j]
        parts[t, 0, i] = row_total


@region
def _square_sparse(
    launcher: int,
    indptr: Array,
    indices: Array,
    data: Array,
    pieces: Array,
    edges: Array,
    parts: Array,
) -> None:
    in_parallel(
        square_sparse_share, launcher, len(parts), indptr, indices, data, pieces, edges, parts
    )
    add_up(launcher, parts, parts[0])


@inner
def square_sparse_share(
    t: int, indptr: Array, indices: Array, data: Array, pieces: Array, edges: Array, parts: Array
) -> None:
    """Add the squared norms of sparse samples over the features of a thread."""
    for n in range(edges[t], edges[t + 1]):
        for entry in range(indptr[pieces[n, 0]], indptr[pieces[n, 1]]):
            parts[t, 0, indices[entry]] += data[entry] * data[entry]


def atom_norms(D: Array, rows: Slices, ball: AtomBall) -> Array:
    """See `Kernels.atom_norms`."""
    threads = threads_for(4.0 * D.shape[1] * count_rows(rows))
    pieces, edges = shares(rows, threads.count)
    parts = np.zeros((threads.count, len(rows), D.shape[1]))
    norms = np.empty(parts.shape[1:], D.dtype)
    _atom_norms(threads.count, D, pieces, edges, ball.l1_ratio, parts, norms)
    return norms


@region
def _atom_norms(
    launcher: int, D: Array, pieces: Array, edges: Array, mu: float, parts: Array, norms: Array
) -> None:
    in_parallel(_atom_norms_share, launcher, len(parts), D, pieces, edges, mu, parts)
    add_up(launcher, parts, parts[0])
    for run in range(len(norms)):
        for j in range(norms.shape[1]):
            norms[run, j] = parts[0, run, j]


@inner
def _atom_norms_share(
    t: int, D: Array, pieces: Array, edges: Array, mu: float, parts: Array
) -> None:
    for n in range(edges[t], edges[t + 1]):
        totals = parts[t, pieces[n, 3]]
        for row in range(pieces[n, 0], pieces[n, 1]):
            for j in range(D.shape[1]):
                entry = D[row, j]
                totals[j] += mu * abs(entry) + (1 - mu) * entry * entry
