"""Orthogonal matching pursuit on the CPU, samples divided among threads.

A code grows one atom at a time: the one that explains most of the residual on its own. All
coefficients are then those of least squares on the atoms so far. With β = Dᵀx and G = DᵀD, the
correlations of the residual are β − Gα, so that features are never touched again; the Cholesky
factor of G on the support grows by a row with every atom (Rubinstein et al., 2008).
"""

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.threads import threads_for
from somf.typing import Array

WORK_PER_ENTRY = 4.0
"""Operations per entry of a code and atom of its support, roughly, by which threads are chosen."""

DEPENDENT = 1e-7
"""An atom of which less than this fraction (of its squared norm) is new explains nothing more."""


def pursue(
    grams: Array, beta: Array, sq_norm: Array, max_atoms: int, max_sq_error: Array, code: Array
) -> Array:
    """Find codes with few atoms; see `somf.kernels.reference.pursue`."""
    sq_error = np.empty_like(sq_norm)
    b, k = beta.shape
    n_threads = threads_for(WORK_PER_ENTRY * b * k * max_atoms).count
    _pursue(
        n_threads, grams, beta, sq_norm, max_atoms, max_sq_error, min(n_threads, b), code, sq_error
    )
    return sq_error


@region
def _pursue(
    launcher: int,
    grams: Array,
    beta: Array,
    sq_norm: Array,
    max_atoms: int,
    max_sq_error: Array,
    n_parts: int,
    code: Array,
    sq_error: Array,
) -> None:
    in_parallel(
        _pursue_share,
        launcher,
        n_parts,
        grams,
        beta,
        sq_norm,
        max_atoms,
        max_sq_error,
        n_parts,
        code,
        sq_error,
    )


@inner
def _pursue_share(
    t: int,
    grams: Array,
    beta: Array,
    sq_norm: Array,
    max_atoms: int,
    max_sq_error: Array,
    n_parts: int,
    code: Array,
    sq_error: Array,
) -> None:
    k = beta.shape[1]
    support, right_side = np.empty(max_atoms, np.int64), np.empty(max_atoms)
    gamma, pull = np.empty(max_atoms), np.empty(k)
    factor = np.empty((max_atoms, max_atoms))
    for i in range(t, len(code), n_parts):
        G = grams[min(i, len(grams) - 1)]
        for j in range(k):
            code[i, j] = 0
            pull[j] = beta[i, j]
        error, n = float(sq_norm[i]), 0
        while n < max_atoms and error > max_sq_error[i]:
            best = _best_atom(G, pull, support, n)
            if best < 0 or not _extend(G, best, support, n, factor):
                break
            right_side[n] = beta[i, best]
            support[n] = best
            n += 1
            _solve(factor, right_side, n, gamma)
            error = float(sq_norm[i])
            for s in range(n):
                error -= gamma[s] * right_side[s]
            for j in range(k):
                pull[j] = beta[i, j]
            for s in range(n):
                for j in range(k):
                    pull[j] -= gamma[s] * G[support[s], j]
        for s in range(n):
            code[i, support[s]] = gamma[s]
        sq_error[i] = max(error, 0.0)


@inner
def _best_atom(G: Array, pull: Array, support: Array, n: int) -> int:
    """Return the atom that explains most of the residual, or −1 if no other one explains any."""
    for s in range(n):
        pull[support[s]] = 0.0
    best, most = -1, 0.0
    for j in range(len(pull)):
        if G[j, j] > 0 and pull[j] * pull[j] / G[j, j] > most:
            best, most = j, pull[j] * pull[j] / G[j, j]
    return best


@inner
def _extend(G: Array, atom: int, support: Array, n: int, factor: Array) -> bool:
    """Add the row of an atom to the Cholesky factor; return False if it depends on the others."""
    left = float(G[atom, atom])
    for r in range(n):
        entry = float(G[atom, support[r]])
        for s in range(r):
            entry -= factor[n, s] * factor[r, s]
        factor[n, r] = entry / factor[r, r]
        left -= factor[n, r] * factor[n, r]
    if left <= DEPENDENT * G[atom, atom]:
        return False
    factor[n, n] = np.sqrt(left)
    return True


@inner
def _solve(factor: Array, right_side: Array, n: int, gamma: Array) -> None:
    """Solve L Lᵀ γ = β on the support; γ is overwritten."""
    for r in range(n):
        entry = right_side[r]
        for s in range(r):
            entry -= factor[r, s] * gamma[s]
        gamma[r] = entry / factor[r, r]
    for back in range(n):
        r = n - 1 - back
        entry = gamma[r]
        for s in range(r + 1, n):
            entry -= factor[s, r] * gamma[s]
        gamma[r] = entry / factor[r, r]
