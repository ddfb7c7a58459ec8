"""Products of pairs of entries on the CPU: Gram matrices of samples, whose entries have weights.

A symmetric matrix is kept as its upper triangle, row after row (see `somf.kernels.pairs`).
"""

import numpy as np
import scipy.sparse as sp

from somf.kernels.cpu.blas import add_product
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.products import add_rows, by_rows
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows
from somf.kernels.cpu.threads import threads_for
from somf.kernels.pairs import n_pairs
from somf.typing import Array, Ints, Matrix, Slices

FEATURES_AT_ONCE = 256
"""Features whose pairs are in the cache of a core at the same time."""

SAMPLES_AT_ONCE = 64
"""Samples whose Gram matrices a thread adds to by one product."""

WIDTH = 8
"""Numbers that are computed at once."""


def pairs(A: Array, weights: Array | None) -> Array:
    """See `Kernels.pairs`."""
    m, k = A.shape
    weights = np.ones(m, dtype=A.dtype) if weights is None else weights
    found = np.empty((m, n_pairs(k)), dtype=A.dtype)
    threads = threads_for(float(found.size))
    _pairs(threads.count, by_rows(A), weights, threads.count, found)
    return found


@region
def _pairs(launcher: int, A: Array, weights: Array, n_parts: int, found: Array) -> None:
    in_parallel(_pairs_share, launcher, n_parts, A, weights, n_parts, found)


@inner
def _pairs_share(t: int, A: Array, weights: Array, n_parts: int, found: Array) -> None:
    padded = np.zeros(A.shape[1] + WIDTH, A.dtype)
    row = np.empty(found.shape[1] + WIDTH, A.dtype)
    for i in range(len(A) * t // n_parts, len(A) * (t + 1) // n_parts):
        _write_pairs(A[i], weights[i], padded, row)
        for q in range(found.shape[1]):
            found[i, q] = row[q]


@inner
def _write_pairs(a: Array, weight: float, padded: Array, row: Array) -> None:
    """Set the beginning of `row` to the upper triangle of weight · aaᵀ.

    Rows of the triangle are written in steps of known length, beyond their end; the next row
    overwrites that. `padded` is a buffer with zeros at its end.
    """
    at, k = 0, len(a)
    for i in range(k):
        padded[i] = a[i]
    for i in range(k):
        scaled, a_rest, rest = weight * a[i], padded[i:], row[at:]
        for j in range(0, k - i, WIDTH):
            source, target = a_rest[j : j + WIDTH], rest[j : j + WIDTH]
            for n in range(WIDTH):
                target[n] = scaled * source[n]
        at += k - i


def weighted_grams(weights: Matrix, D: Array, rows: Slices) -> Array:
    """See `Kernels.weighted_grams`."""
    b, k = weights.shape[0], D.shape[1]
    m, q, D = n_pairs(k), count_rows(rows), by_rows(D)
    grams = np.empty((b, k, k), dtype=D.dtype)
    threads = threads_for(float(b) * m * q)
    packed = threads.buffer("weighted grams", (b, m), D.dtype)
    if isinstance(weights, np.ndarray):
        packed[:] = 0
        for s in rows:
            for start in range(s.start, s.stop, FEATURES_AT_ONCE):
                part = slice(start, min(start + FEATURES_AT_ONCE, s.stop))
                table = threads.buffer("pairs", (part.stop - start, m), D.dtype)
                _add_grams(threads.count, by_rows(weights[:, part]), D[part], table, packed)
    else:
        known = _by_sample(weights, rows)
        table = threads.buffer("triangles", (q, m), D.dtype)
        at = 0
        for s in rows:
            end = at + s.stop - s.start
            _fill(threads.count, D[s], threads.count, table[at:end])
            at = end
        _add_grams_sparse(threads.count, *known, table, threads.count, packed)
    _unpack(threads.count, packed, threads.count, grams)
    return grams


def _by_sample(X: sp.csc_array, rows: Slices) -> tuple[Ints, Ints, Array]:
    """Return the entries of some features, sample by sample, features counted from the first."""
    edges = np.array([(s.start, s.stop) for s in rows], dtype=np.int64)
    indptr = np.zeros(X.shape[0] + 1, dtype=np.int64)
    count = sum(int(X.indptr[stop] - X.indptr[start]) for start, stop in edges)
    indices, data = np.empty(count, dtype=np.int64), np.empty(count, dtype=X.dtype)
    _turn(1, X.indptr, X.indices, X.data, edges, indptr, indices, data)
    return indptr, indices, data


@region
def _turn(
    _: int,
    by_feature: Ints,
    samples: Ints,
    values: Array,
    edges: Ints,
    indptr: Ints,
    indices: Ints,
    data: Array,
) -> None:
    """Sort entries by sample; `indptr` begins as zeros."""
    for n in range(len(edges)):
        for entry in range(by_feature[edges[n, 0]], by_feature[edges[n, 1]]):
            indptr[samples[entry] + 1] += 1
    for i in range(1, len(indptr)):
        indptr[i] += indptr[i - 1]
    feature, places = 0, indptr[:-1].copy()
    for n in range(len(edges)):
        for f in range(edges[n, 0], edges[n, 1]):
            for entry in range(by_feature[f], by_feature[f + 1]):
                place = places[samples[entry]]
                indices[place], data[place] = feature, values[entry]
                places[samples[entry]] += 1
            feature += 1


@region
def _fill(launcher: int, D: Array, n_parts: int, table: Array) -> None:
    """Write the pairs of features."""
    in_parallel(_fill_share, launcher, n_parts, D, n_parts, table)


@inner
def _fill_share(t: int, D: Array, n_parts: int, table: Array) -> None:
    _pairs_share(t, D, np.ones(len(D), D.dtype), n_parts, table)


@region
def _add_grams(launcher: int, weights: Array, D: Array, table: Array, packed: Array) -> None:
    """Add the Gram matrices over some features, threads sharing the samples."""
    _pairs_share(0, D, np.ones(len(D), D.dtype), 1, table)
    n_parts = max(1, len(packed) // SAMPLES_AT_ONCE)
    in_parallel(_add_grams_share, launcher, n_parts, weights, table, n_parts, packed)


@inner
def _add_grams_share(t: int, weights: Array, table: Array, n_parts: int, packed: Array) -> None:
    start, stop = len(packed) * t // n_parts, len(packed) * (t + 1) // n_parts
    add_product(weights[start:stop], False, table, 1.0, packed[start:stop])


@region
def _add_grams_sparse(
    launcher: int,
    indptr: Ints,
    indices: Ints,
    data: Array,
    table: Array,
    n_parts: int,
    packed: Array,
) -> None:
    """Set the Gram matrices of all samples, which threads share."""
    in_parallel(
        _add_grams_sparse_share, launcher, n_parts, indptr, indices, data, table, n_parts, packed
    )


@inner
def _add_grams_sparse_share(
    t: int, indptr: Ints, indices: Ints, data: Array, table: Array, n_parts: int, packed: Array
) -> None:
    for i in range(t, len(packed), n_parts):
        for q in range(packed.shape[1]):
            packed[i, q] = 0
        add_rows(indptr[i], indptr[i + 1], indices, data, table, packed[i])


@region
def _unpack(launcher: int, packed: Array, n_parts: int, grams: Array) -> None:
    """Set symmetric matrices to their upper triangles."""
    in_parallel(_unpack_share, launcher, n_parts, packed, n_parts, grams)


@inner
def _unpack_share(t: int, packed: Array, n_parts: int, grams: Array) -> None:
    k = grams.shape[1]
    for i in range(t, len(grams), n_parts):
        at = 0
        for a in range(k):
            for c in range(a, k):
                grams[i, a, c] = packed[i, at + c - a]
                grams[i, c, a] = packed[i, at + c - a]
            at += k - a
