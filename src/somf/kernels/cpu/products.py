"""Matrix products and sums over features on the CPU, rows divided among threads."""

import numpy as np
import scipy.sparse as sp

from somf.kernels.cpu.blas import add_gram, add_product, mirror
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import SERIAL, in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.threads import threads_for
from somf.typing import Array, Matrix, Slices

PER_BLAS_OPERATION = 0.25
"""What an operation of BLAS counts where threads are chosen: plain loops do one in that time."""

MANY_ENTRIES = 2**15
"""Numbers, in the results of all threads, from which on the threads share the sum, too."""


def correlate(X: Matrix, D: Array, rows: Slices) -> Array:
    """See `Kernels.correlate`."""
    b, k = X.shape[0], D.shape[1]
    D = by_rows(D)
    is_dense = isinstance(X, np.ndarray)
    per_operation = PER_BLAS_OPERATION if is_dense else 1.0
    threads = threads_for(per_operation * 2.0 * b * k * count_rows(rows))
    pieces, edges = shares(rows, threads.count)
    parts = threads.buffer("beta", (threads.count, b, k), D.dtype)
    beta = np.empty((b, k), dtype=D.dtype)
    if is_dense:
        _correlate(threads.count, by_rows(X), D, pieces, edges, parts, beta)
    else:
        _correlate_sparse(threads.count, *csc(X), D, pieces, edges, parts, beta)
    return beta


@region
def _correlate(
    launcher: int, X: Array, D: Array, pieces: Array, edges: Array, parts: Array, beta: Array
) -> None:
    in_parallel(correlate_share, launcher, len(parts), X, D, pieces, edges, parts)
    add_up(launcher, parts, beta)


@inner
def correlate_share(t: int, X: Array, D: Array, pieces: Array, edges: Array, parts: Array) -> None:
    """Write X D over the features of a thread."""
    factor = 0.0
    for n in range(edges[t], edges[t + 1]):
        start, stop = pieces[n, 0], pieces[n, 1]
        add_product(X[:, start:stop], False, D[start:stop], factor, parts[t])
        factor = 1.0
    if factor == 0.0:
        clear(parts[t])


@inner
def clear(part: Array) -> None:
    """Set a matrix to zero."""
    for i in range(len(part)):
        for j in range(part.shape[1]):
            part[i, j] = 0


def sum_parts(parts: Array) -> Array:
    """See `Kernels.sum_parts`."""
    threads = threads_for(parts.size)
    total = threads.buffer("sum of parts", parts.shape[1:], parts.dtype)
    _sum_parts(threads.count, parts, total)
    return total


@region
def _sum_parts(launcher: int, parts: Array, total: Array) -> None:
    add_up(launcher, parts, total)


@inner
def add_up(launcher: int, parts: Array, total: Array) -> None:
    """Set `total` to the sum of `parts`, in their order: rounding is reproducible."""
    is_large = parts.size >= MANY_ENTRIES
    in_parallel(_sum_row, launcher if is_large else SERIAL, len(total), parts, total)


@inner
def _sum_row(i: int, parts: Array, total: Array) -> None:
    for j in range(total.shape[1]):
        total[i, j] = parts[0, i, j]
    for t in range(1, len(parts)):
        for j in range(total.shape[1]):
            total[i, j] += parts[t, i, j]


@region
def _correlate_sparse(
    launcher: int,
    indptr: Array,
    indices: Array,
    data: Array,
    D: Array,
    pieces: Array,
    edges: Array,
    parts: Array,
    beta: Array,
) -> None:
    in_parallel(
        correlate_sparse_share,
        launcher,
        len(parts),
        indptr,
        indices,
        data,
        D,
        pieces,
        edges,
        parts,
    )
    add_up(launcher, parts, beta)


@inner
def correlate_sparse_share(
    t: int,
    indptr: Array,
    indices: Array,
    data: Array,
    D: Array,
    pieces: Array,
    edges: Array,
    parts: Array,
) -> None:
    """Write X D of sparse samples over the features of a thread."""
    clear(parts[t])
    for n in range(edges[t], edges[t + 1]):
        for feature in range(pieces[n, 0], pieces[n, 1]):
            for entry in range(indptr[feature], indptr[feature + 1]):
                sample, value = indices[entry], data[entry]
                for j in range(D.shape[1]):
                    parts[t, sample, j] += value * D[feature, j]


def gram(D: Array, rows: Slices) -> Array:
    """See `Kernels.gram`."""
    k, D = D.shape[1], by_rows(D)
    threads = threads_for(PER_BLAS_OPERATION * 2.0 * k * k * count_rows(rows))
    pieces, edges = shares(rows, threads.count)
    parts = threads.buffer("gram", (threads.count, k, k), D.dtype)
    G = np.empty((k, k), dtype=D.dtype)
    _gram(threads.count, D, pieces, edges, parts, G)
    return G


@region
def _gram(launcher: int, D: Array, pieces: Array, edges: Array, parts: Array, G: Array) -> None:
    in_parallel(_gram_share, launcher, len(parts), D, pieces, edges, parts)
    add_up(launcher, parts, G)
    mirror(G)


@inner
def _gram_share(t: int, D: Array, pieces: Array, edges: Array, parts: Array) -> None:
    factor = 0.0
    for n in range(edges[t], edges[t + 1]):
        add_gram(D[pieces[n, 0] : pieces[n, 1]], factor, parts[t])
        factor = 1.0
    if factor == 0.0:
        clear(parts[t])


def combine(weights: Array, grams: Array) -> Array:
    """See `Kernels.combine`."""
    m, (R, k, _) = len(weights), grams.shape
    if m == R == 1:
        return grams if weights[0, 0] == 1 else np.asarray(weights[0, 0] * grams)
    combined = np.empty((m, k * k), dtype=grams.dtype)
    threads = threads_for(PER_BLAS_OPERATION * 2.0 * m * grams.size)
    weights = np.ascontiguousarray(weights)
    _combine(threads.count, weights, grams.reshape(R, k * k), threads.count, combined)
    return combined.reshape(m, k, k)


@region
def _combine(launcher: int, weights: Array, grams: Array, n_parts: int, combined: Array) -> None:
    in_parallel(_combine_share, launcher, n_parts, weights, grams, n_parts, combined)


@inner
def _combine_share(t: int, weights: Array, grams: Array, n_parts: int, combined: Array) -> None:
    n_columns = grams.shape[1]
    start, stop = n_columns * t // n_parts, n_columns * (t + 1) // n_parts
    if stop > start:
        add_product(weights, False, grams[:, start:stop], 0.0, combined[:, start:stop])


def accumulate(B: Array, X: Matrix, code: Array, decay: float, rows: Slices | None = None) -> None:
    """See `Kernels.accumulate`."""
    rows = (slice(0, len(B)),) if rows is None else rows
    is_dense = isinstance(X, np.ndarray)
    per_operation = PER_BLAS_OPERATION if is_dense else 1.0
    threads = threads_for(per_operation * 2.0 * len(code) * B.shape[1] * count_rows(rows))
    pieces, edges = shares(rows, threads.count)
    code = by_rows(code)
    if is_dense:
        _accumulate(threads.count, B, by_rows(X), code, decay, pieces, edges)
    else:
        _accumulate_sparse(threads.count, B, *csc(X), code, decay, pieces, edges)


@region
def _accumulate(
    launcher: int,
    B: Array,
    X: Array,
    code: Array,
    decay: float,
    pieces: Array,
    edges: Array,
) -> None:
    in_parallel(_accumulate_share, launcher, len(edges) - 1, B, X, code, decay, pieces, edges)


@inner
def _accumulate_share(
    t: int, B: Array, X: Array, code: Array, decay: float, pieces: Array, edges: Array
) -> None:
    for n in range(edges[t], edges[t + 1]):
        start, stop = pieces[n, 0], pieces[n, 1]
        add_product(X[:, start:stop], True, code, decay, B[start:stop])


@region
def _accumulate_sparse(
    launcher: int,
    B: Array,
    indptr: Array,
    indices: Array,
    data: Array,
    code: Array,
    decay: float,
    pieces: Array,
    edges: Array,
) -> None:
    in_parallel(
        _accumulate_sparse_share,
        launcher,
        len(edges) - 1,
        B,
        indptr,
        indices,
        data,
        code,
        decay,
        pieces,
        edges,
    )


@inner
def _accumulate_sparse_share(
    t: int,
    B: Array,
    indptr: Array,
    indices: Array,
    data: Array,
    code: Array,
    decay: float,
    pieces: Array,
    edges: Array,
) -> None:
    factor = B.dtype.type(decay)
    for n in range(edges[t], edges[t + 1]):
        for feature in range(pieces[n, 0], pieces[n, 1]):
            if factor != 1:
                for j in range(code.shape[1]):
                    B[feature, j] *= factor
            _add_rows(indptr[feature], indptr[feature + 1], indices, data, code, B[feature])


@inner
def _add_rows(start: int, stop: int, indices: Array, data: Array, rows: Array, out: Array) -> None:
    """Add Σ data · rows[indices] of some entries to a vector.

    Four entries at once: what is in the vector is read and written less often.
    """
    entry = start
    while entry + 4 <= stop:
        a, b, c, d = data[entry], data[entry + 1], data[entry + 2], data[entry + 3]
        of_a, of_b = rows[indices[entry]], rows[indices[entry + 1]]
        of_c, of_d = rows[indices[entry + 2]], rows[indices[entry + 3]]
        for j in range(len(out)):
            out[j] += a * of_a[j] + b * of_b[j] + c * of_c[j] + d * of_d[j]
        entry += 4
    while entry < stop:
        value, of_entry = data[entry], rows[indices[entry]]
        for j in range(len(out)):
            out[j] += value * of_entry[j]
        entry += 1


def by_rows(A: Array) -> Array:
    """Return a matrix in which the entries of a row follow one another, as BLAS needs it here."""
    if A.flags.c_contiguous:
        return A
    is_by_rows = A.strides[1] == A.itemsize and A.strides[0] >= A.shape[1] * A.itemsize
    return A if is_by_rows else np.ascontiguousarray(A)


def csc(X: sp.csc_array) -> tuple[Array, Array, Array]:
    """Return the arrays that a sparse matrix is made of."""
    return X.indptr, X.indices, X.data
