"""Products of pairs of entries on the CPU: Gram matrices of samples, whose entries have weights.

A symmetric matrix is kept as its upper triangle, row after row (see `somf.kernels.pairs`).
"""

import numpy as np
import scipy.sparse as sp

from somf.kernels.cpu.blas import add_product
from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.products import by_rows, clear
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
    grams = np.empty((weights.shape[0], D.shape[1], D.shape[1]), dtype=D.dtype)
    if isinstance(weights, np.ndarray):
        _grams_of_all(weights, by_rows(D), rows, grams)
    else:
        _grams_of_few(weights, D, rows, grams)
    return grams


def _grams_of_all(weights: Array, D: Array, rows: Slices, grams: Array) -> None:
    """Set Gram matrices where most entries have weights: weights times pairs of features."""
    b, m = len(grams), n_pairs(D.shape[1])
    threads = threads_for(float(b) * m * count_rows(rows))
    packed = threads.buffer("weighted grams", (b, m), D.dtype)
    packed[:] = 0
    for s in rows:
        for start in range(s.start, s.stop, FEATURES_AT_ONCE):
            part = slice(start, min(start + FEATURES_AT_ONCE, s.stop))
            table = threads.buffer("pairs", (part.stop - start, m), D.dtype)
            _add_grams(threads.count, by_rows(weights[:, part]), D[part], table, packed)
    _unpack(threads.count, packed, threads.count, grams)


def _grams_of_few(weights: sp.csc_array, D: Array, rows: Slices, grams: Array) -> None:
    """Set Gram matrices where few entries have weights: for each sample, a product of its rows."""
    indptr, indices, data = _by_sample(weights, rows)
    most, k = int(np.diff(indptr).max(initial=0)), D.shape[1]
    threads = threads_for(2.0 * len(data) * k * k)
    D_s = np.concatenate([D[s] for s in rows]) if len(rows) > 1 else D[rows[0]]
    known = threads.buffer("known rows", (threads.count, 2, most, k), D.dtype)
    _set_grams(threads.count, indptr, indices, data, D_s, known, grams)


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
def _set_grams(
    launcher: int, indptr: Ints, indices: Ints, data: Array, D: Array, known: Array, grams: Array
) -> None:
    """Set the Gram matrices of all samples, which threads share; `known` is a buffer for each."""
    in_parallel(_set_grams_share, launcher, len(known), indptr, indices, data, D, known, grams)


@inner
def _set_grams_share(
    t: int, indptr: Ints, indices: Ints, data: Array, D: Array, known: Array, grams: Array
) -> None:
    for i in range(t, len(grams), len(known)):
        start, count = indptr[i], indptr[i + 1] - indptr[i]
        own, weighted = known[t, 0, :count], known[t, 1, :count]
        for n in range(count):
            weight, d = data[start + n], D[indices[start + n]]
            for j in range(len(d)):
                own[n, j] = d[j]
                weighted[n, j] = weight * d[j]
        if count > 0:
            add_product(weighted, True, own, 0.0, grams[i])
        else:
            clear(grams[i])


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
