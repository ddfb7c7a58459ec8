"""Matrix products and sums over features on the CPU, with the rows divided among workers."""

import numpy as np

from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.threads import pool_for
from somf.penalties import AtomBall
from somf.typing import Array, Matrix, Slices

MAX_CHUNK_ROWS = 2048
"""Rows of B that are updated at once, few enough to stay in the cache."""


def correlate(X: Matrix, D: Array, rows: Slices) -> Array:
    """See `Kernels.correlate`."""
    pool = pool_for(2 * X.shape[0] * D.size)

    def work(worker: int) -> Array:
        beta = np.zeros((X.shape[0], D.shape[1]), dtype=D.dtype)
        for s in pool.static_chunks(rows, worker):
            if isinstance(X, np.ndarray):
                beta += X[:, s] @ D[s]
            else:
                _correlate_columns(X.indptr, X.indices, X.data, D, s.start, s.stop, beta)
        return beta

    return np.asarray(sum(pool.run(work)))


@jit
def _correlate_columns(
    indptr: Array, indices: Array, data: Array, D: Array, start: int, stop: int, beta: Array
) -> None:
    """Add X D over the features from `start` to `stop` to `beta`, which is overwritten."""
    for feature in range(start, stop):
        for entry in range(indptr[feature], indptr[feature + 1]):
            sample, value = indices[entry], data[entry]
            for j in range(D.shape[1]):
                beta[sample, j] += value * D[feature, j]


def gram(D: Array, rows: Slices) -> Array:
    """See `Kernels.gram`."""
    pool = pool_for(D.size * D.shape[1])

    def work(worker: int) -> Array:
        G = np.zeros((D.shape[1], D.shape[1]), dtype=D.dtype)
        for s in pool.static_chunks(rows, worker):
            G += D[s].T @ D[s]
        return G

    return np.asarray(sum(pool.run(work)))


def combine(weights: Array, grams: Array) -> Array:
    """See `Kernels.combine`."""
    m, (R, k, _) = len(weights), grams.shape
    combined = np.empty((m, k * k), dtype=grams.dtype)
    pool = pool_for(2 * m * grams.size)

    def work(worker: int) -> None:
        for s in pool.static_chunks((slice(0, m),), worker):
            np.matmul(weights[s], grams.reshape(R, k * k), out=combined[s])

    pool.run(work)
    return combined.reshape(m, k, k)


def squared_norms(X: Matrix, rows: Slices) -> Array:
    """See `Kernels.squared_norms`."""
    pool = pool_for(2 * X.shape[0] * sum(s.stop - s.start for s in rows))

    def work(worker: int) -> Array:
        total = np.zeros(X.shape[0], dtype=X.dtype)
        for s in pool.static_chunks(rows, worker):
            if isinstance(X, np.ndarray):
                total += (X[:, None, s] @ X[:, s, None]).ravel()  # faster than einsum
            else:
                _square_columns(X.indptr, X.indices, X.data, s.start, s.stop, total)
        return total

    return np.asarray(sum(pool.run(work)))


@jit
def _square_columns(
    indptr: Array, indices: Array, data: Array, start: int, stop: int, total: Array
) -> None:
    """Add x² over the features from `start` to `stop` to `total`, which is overwritten."""
    for entry in range(indptr[start], indptr[stop]):
        total[indices[entry]] += data[entry] * data[entry]


def accumulate(B: Array, X: Matrix, code: Array, decay: float) -> None:
    """See `Kernels.accumulate`."""
    pool = pool_for(2 * len(code) * B.size)
    chunks = pool.dynamic_chunks(len(B), MAX_CHUNK_ROWS)

    def work(worker: int) -> None:
        for s in chunks:
            if isinstance(X, np.ndarray):
                product = pool.buffer(worker, "product", B[s].shape, B.dtype)
                np.matmul(X[:, s].T, code, out=product)
                _scale_and_add(B[s], decay, product)
            else:
                _accumulate_columns(X.indptr, X.indices, X.data, code, decay, s.start, s.stop, B)

    pool.run(work)


@jit
def _scale_and_add(B: Array, decay: float, product: Array) -> None:
    """Do B ← decay B + product; `B` is overwritten."""
    factor = B.dtype.type(decay)
    for row in range(len(B)):
        for j in range(B.shape[1]):
            B[row, j] = factor * B[row, j] + product[row, j]


@jit
def _accumulate_columns(
    indptr: Array,
    indices: Array,
    data: Array,
    code: Array,
    decay: float,
    start: int,
    stop: int,
    B: Array,
) -> None:
    """Do B ← decay B + Xᵀ code on the rows of B from `start` to `stop`; `B` is overwritten."""
    for feature in range(start, stop):
        for j in range(code.shape[1]):
            B[feature, j] *= decay
        for entry in range(indptr[feature], indptr[feature + 1]):
            sample, value = indices[entry], data[entry]
            for j in range(code.shape[1]):
                B[feature, j] += value * code[sample, j]


def atom_norms(D: Array, rows: Slices, ball: AtomBall) -> Array:
    """See `Kernels.atom_norms`."""
    pool = pool_for(4 * D.size)

    def work(worker: int) -> Array:
        norms = np.zeros(D.shape[1])
        for s in pool.static_chunks(rows, worker):
            _add_norms(D[s], ball.l1_ratio, norms)
        return norms

    return np.asarray(sum(pool.run(work))).astype(D.dtype)


@jit
def _add_norms(D: Array, mu: float, norms: Array) -> None:
    """Add the norm of every column of D to `norms`, which is overwritten."""
    for row in range(len(D)):
        for j in range(D.shape[1]):
            entry = D[row, j]
            norms[j] += mu * abs(entry) + (1 - mu) * entry * entry
