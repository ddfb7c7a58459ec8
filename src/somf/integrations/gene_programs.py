"""Gene programs of cells in memory: factorizations that converge, and usages of given programs."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.data import as_source
from somf.data.checks import check_finite
from somf.errors import ParameterError
from somf.estimators.config import InitialAtoms
from somf.estimators.problems import NMF
from somf.kernels import kernels_for
from somf.kernels.cpu.threads import threads
from somf.penalties import AtomBall, CodePenalty
from somf.randomness import generator
from somf.training.refinement import Refined, refine, squared_norms
from somf.typing import Array, Rows

PENALTY = CodePenalty(0.0, 1.0, True)
"""None, on usages that are not negative."""

BALL = AtomBall(0.0, True)
"""Spectra have norm one, which is no restriction without a penalty."""

ONLINE_CELLS = 5_000
"""Cells that online fits learn from, once each. Three epochs did not lead to better minima."""

FEWEST_STARTS, MOST_STARTS = 3, 12
"""Online fits from different random cells, the best of which is refined. With one, runs end in poor
minima more often, and their programs agree less."""

WORK_PER_START = 1.7e6
"""Cells times programs squared, to which the time of a pass is about proportional, for which there
is one more start: starts take a minor part of the time, and more programs have more minima."""

FIRST_PASSES = 3
"""Passes over these cells before starts are compared the first time; a second comparison comes
after three times as many. Online fits end with some noise, and a poor minimum shows late."""

ONLINE_ENTRIES = 2**26
"""Entries, at most, of these cells as a dense array."""

ONLINE_BATCH = 20
"""Cells of its minibatches. Their noise leads out of poor minima; with 64 cells it did so less."""

ROUGH_TOL = 1e-5
"""Relative improvement of the error per pass at which a refinement on a part of the cells ends."""

TOL = 1e-6
"""The same for all cells. With twice as much, programs of different runs agree less."""

INITS: dict[str, InitialAtoms] = {
    "random": "samples",
    "nndsvd": "nndsvd",
    "nndsvda": "nndsvd",
    "nndsvdar": "nndsvd",
}
"""The initial atoms of somf for those of scikit-learn. From random cells, ten runs agreed more than
from random directions, with about the same errors."""


def factorize(
    X: Any,
    n_components: int,
    *,
    init: str = "random",
    max_iter: int = 1000,
    random_state: int = 0,
    n_threads: int | None = 1,
) -> tuple[Array, Array]:
    """Factorize counts to a stationary point: X ≈ usages spectra, neither of them negative.

    Online fits to some of the cells find good spectra. Passes over these cells, and then over all
    of them, refine the best. The more cells there are, the more such starts are compared.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_cells, n_genes)
        Not negative, in memory.
    n_components : int
        Number of programs, k.
    init : {"random", "nndsvd", "nndsvda", "nndsvdar"}, default="random"
        The spectra before the first iteration: random cells, or parts of singular vectors, which
        hardly differ from run to run.
    max_iter : int, default=1000
        Passes over all cells, at most; usually a few dozen are enough.
    random_state : int, default=0
    n_threads : int or None, default=1
        Threads that compute; None means all cores.

    Returns
    -------
    spectra : ndarray of shape (n_components, n_genes)
        Of norm one, float32.
    usages : ndarray of shape (n_cells, n_components)
    """
    if init not in INITS:
        raise ParameterError("init", f"be one of {sorted(INITS)}", init)
    cells = _in_single_precision(X)
    drawn = _some_cells(cells)
    dense = drawn if isinstance(drawn, np.ndarray) else drawn.toarray()
    starts = [
        _online(dense, n_components, INITS[init], int(seed), n_threads)
        for seed in generator(random_state, "starts").integers(
            2**31, size=_n_starts(cells.shape[0], n_components, init)
        )
    ]
    D = _best(dense, starts, max_iter, n_threads)
    if len(dense) < cells.shape[0]:
        D = _refined(dense, D, ROUGH_TOL, max_iter, n_threads).D
    refined = _refined(cells, D, TOL, max_iter, n_threads)
    return np.ascontiguousarray(refined.D.T), refined.code


def _n_starts(n_cells: int, k: int, init: str) -> int:
    """Return how many online fits are compared."""
    if init != "random":
        return 1  # singular vectors do not depend on the seed
    return max(FEWEST_STARTS, min(round(n_cells * k**2 / WORK_PER_START), MOST_STARTS))


def _online(X: Array, k: int, init: InitialAtoms, seed: int, n_threads: int | None) -> Array:
    """Return the dictionary of an online fit, of shape (n_genes, k)."""
    model = NMF(
        k,
        init=init,
        batch_size=ONLINE_BATCH,
        n_epochs=1,
        tol=0.0,
        n_threads=n_threads,
        random_state=seed,
    ).fit(X)
    return np.ascontiguousarray(model.components_.T)


def _best(X: Array, starts: list[Array], max_passes: int, n_threads: int | None) -> Array:
    """Return the dictionary that refines best: half of the rest leaves after every comparison."""
    n_passes = FIRST_PASSES
    while len(starts) > 1:
        trials = [_refined(X, D, 0.0, min(n_passes, max_passes), n_threads) for D in starts]
        trials.sort(key=lambda trial: trial.objective)
        starts = [trial.D for trial in trials[: len(trials) // 2]]
        n_passes *= 3
    return starts[0]


def _refined(X: Rows, D: Array, tol: float, max_passes: int, n_threads: int | None) -> Refined:
    return refine(X, D, PENALTY, BALL, tol=tol, max_passes=max_passes, n_threads=n_threads)


def usages_of(X: Any, spectra: Any, *, n_threads: int | None = 1) -> Array:
    """Return the non-negative usages that explain cells best by given spectra.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_cells, n_genes)
        In memory; it may also be genes × cells, with usages in the place of spectra.
    spectra : array-like of shape (n_components, n_genes)
        Not negative, of any scale.
    n_threads : int or None, default=1
        Threads that compute; None means all cores.

    Returns
    -------
    usages : ndarray of shape (n_cells, n_components)
        Float64.
    """
    X = X if sp.issparse(X) else np.asarray(X)
    atoms = np.asarray(spectra, dtype=np.float64).T
    sizes = np.linalg.norm(atoms, axis=0)
    sizes[sizes == 0] = 1.0
    atoms = np.ascontiguousarray(atoms / sizes)
    beta = np.ascontiguousarray(X @ atoms)
    usages = np.zeros_like(beta)
    with threads(n_threads):
        kernels_for("cpu").solve_codes(
            (atoms.T @ atoms)[None], beta, squared_norms(X), PENALTY, 0.0, usages
        )
    return np.asarray(usages / sizes)


def _in_single_precision(X: Any) -> Rows:
    """Return counts in single precision; a sparse matrix keeps its index arrays."""
    X = X if sp.issparse(X) else np.asarray(X)
    as_source(X)  # checks that it is a valid matrix of numbers
    if sp.issparse(X):
        rows = sp.csr_array(X)
        data = rows.data.astype(np.float32, copy=False)
        cells = sp.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
    else:
        cells = data = np.ascontiguousarray(X, dtype=np.float32)
    check_finite(cells, data, np.arange(cells.shape[0]), "X", lambda _: None)
    return cells


def _some_cells(X: Rows) -> Rows:
    """Return the cells that online fits learn from, drawn at random.

    They are the same for all seeds. Otherwise runs would start from different data, and agree less
    than runs that have all cells.
    """
    n, p = X.shape
    n_drawn = min(n, ONLINE_CELLS, max(1, ONLINE_ENTRIES // p))
    return X if n_drawn == n else X[generator(0, "cells").permutation(n)[:n_drawn]]
