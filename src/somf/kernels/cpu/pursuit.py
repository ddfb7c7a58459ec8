"""Orthogonal matching pursuit: codes with few atoms, chosen greedily, of many samples."""

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.threads import threads_for
from somf.typing import Array

DEPENDENT = 1e-7
"""The part of ‖d‖² outside the chosen atoms below which an atom is a combination of them."""


def pursue(grams: Array, beta: Array, sq_norm: Array, max_atoms: int, max_error: float) -> Array:
    """Return codes: atoms are added, and the code is refitted, until the error is small enough.

    The next atom is the one that, alone, reduces ‖x − Dα‖ the most. After each, α is the least
    squares solution on the atoms so far.

    Parameters
    ----------
    grams : ndarray of shape (1, k, k) or (b, k, k)
        DᵀD, or that of every sample.
    beta : ndarray of shape (b, k)
        Dᵀx.
    sq_norm : ndarray of shape (b,)
        ‖x‖².
    max_atoms : int
        Atoms of a sample, at most.
    max_error : float
        No more atoms are added once ‖x − Dα‖ is not larger.

    Returns
    -------
    code : ndarray of shape (b, k)
    """
    code, k = np.zeros_like(beta), beta.shape[1]
    n_threads = threads_for(8.0 * len(beta) * max_atoms * k).count
    _pursue_all(n_threads, grams, beta, sq_norm, min(max_atoms, k), max_error**2, code)
    return code


@region
def _pursue_all(
    launcher: int,
    grams: Array,
    beta: Array,
    sq_norm: Array,
    max_atoms: int,
    sq_error: float,
    code: Array,
) -> None:
    n = len(beta)
    in_parallel(_pursue, launcher, n, grams, beta, sq_norm, max_atoms, sq_error, code)


@inner
def _pursue(
    n: int,
    grams: Array,
    beta: Array,
    sq_norm: Array,
    max_atoms: int,
    sq_error: float,
    code: Array,
) -> None:
    """Find the code of a sample.

    With Q an orthonormal basis of the chosen atoms, ``products[i]`` is Dᵀqᵢ, so that the
    correlation of all atoms with the residual loses (qᵢᵀx) Dᵀqᵢ with every new atom. The chosen
    atoms are Q times an upper triangle, whose column j is ``products[:, chosen[j]]``.
    """
    G, k = grams[min(n, len(grams) - 1)], beta.shape[1]
    correlation = beta[n].astype(np.float64)
    products = np.empty((max_atoms, k))
    chosen, lengths = np.empty(max_atoms, np.int64), np.empty(max_atoms)
    left, count = np.float64(sq_norm[n]), 0
    rounding = 1e-12 * left
    while count < max_atoms and left > max(sq_error, rounding):
        best, gain = -1, rounding
        for j in range(k):
            if G[j, j] > 0 and correlation[j] ** 2 > gain * G[j, j]:
                best, gain = j, correlation[j] ** 2 / G[j, j]
        if best < 0:
            break
        product = products[count]
        for j in range(k):
            product[j] = G[best, j]
        rest = product[best]
        for i in range(count):
            weight = products[i, best]
            rest -= weight * weight
            for j in range(k):
                product[j] -= weight * products[i, j]
        if rest <= DEPENDENT * G[best, best]:
            break
        for j in range(k):
            product[j] /= np.sqrt(rest)
        lengths[count] = correlation[best] / np.sqrt(rest)
        for j in range(k):
            correlation[j] -= lengths[count] * product[j]
        left -= lengths[count] ** 2
        chosen[count] = best
        count += 1
    for i in range(count - 1, -1, -1):  # the triangle is solved from below
        value = lengths[i]
        for j in range(i + 1, count):
            value -= products[i, chosen[j]] * code[n, chosen[j]]
        code[n, chosen[i]] = value / products[i, chosen[i]]
