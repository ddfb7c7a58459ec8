"""Codes of samples on a fixed dictionary, and their objective."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from somf.data import Loader, ObservedSource, Source, loader_for
from somf.distributed import ALONE, Communicator
from somf.errors import ScaleError
from somf.kernels import Kernels, kernels_for
from somf.kernels.cpu.threads import threads
from somf.kernels.host import to_host
from somf.kernels.observed import Batch, atom_costs, known_weights, quadratics
from somf.penalties import AtomBall, CodePenalty
from somf.typing import Array, Ints


@dataclass(frozen=True)
class Pursuit:
    """Codes by orthogonal matching pursuit, rather than by a penalty.

    Attributes
    ----------
    max_atoms : int
        Atoms of a sample, at most.
    max_error : float
        No more atoms are added once ‖x − Dα‖ is not larger.
    """

    max_atoms: int
    max_error: float


@dataclass(frozen=True)
class CodedChunk:
    """Some samples and their codes.

    Attributes
    ----------
    X : array, csc_array or Observed of shape (b, p)
    code : array of shape (b, k)
        Both are on the device.
    objective : ndarray of shape (b,)
        ½‖x − Dα‖² + λΩ(α) of every sample, on the host.
    """

    X: Batch
    code: Array
    objective: Array


class Coder:
    """Codes samples on a fixed dictionary, a chunk at a time.

    Parameters
    ----------
    kernels : Kernels
    D : array of shape (p, k)
        On the device.
    penalty : CodePenalty
    tol : float
        Codes are solved to a duality gap of at most `tol` times their objective, or to the
        resolution of the floating type.
    pursuit : Pursuit, optional
        If given, codes are those of a pursuit; the penalty does not count.
    atom_alpha : float
        ρ: every known entry adds ρ‖d_f‖², with the row d_f of D, to the objective of its sample.
    per_entry : bool
        Whether λ counts for every known entry of a sample, rather than once.
    """

    def __init__(
        self,
        kernels: Kernels,
        D: Array,
        penalty: CodePenalty,
        tol: float,
        pursuit: Pursuit | None = None,
        atom_alpha: float = 0.0,
        per_entry: bool = False,
    ) -> None:
        self.kernels, self.D, self.penalty, self.tol = kernels, D, penalty, tol
        self.pursuit, self.atom_alpha, self.per_entry = pursuit, atom_alpha, per_entry
        self.rows = (slice(0, len(D)),)
        self.G = kernels.gram(D, self.rows)

    def code(self, X: Batch) -> tuple[Array, Array]:
        """Return the codes of a chunk.

        Parameters
        ----------
        X : ndarray, csc_array or Observed of shape (b, p)

        Returns
        -------
        code : ndarray of shape (b, k)
        objective : ndarray of shape (b,)
            ½‖x − Dα‖² + λΩ(α) of every sample; without the penalty, those of a pursuit.

        Raises
        ------
        ScaleError
            If an objective overflows.
        """
        divides = self.per_entry and self.pursuit is None
        grams, beta, sq_norm = quadratics(
            self.kernels, X, self.D, self.rows, lambda: self.G[None], divides
        )
        if self.pursuit is not None:
            return self._pursued(self.pursuit, *map(to_host, (grams, beta, sq_norm)))
        code = self.kernels.zeros((X.shape[0], self.G.shape[0]), self.G)
        objective, gap = self.kernels.solve_codes(
            grams, beta, sq_norm, self.penalty, self.tol, code
        )
        objective, gap, sq_norm = to_host(objective), to_host(gap), to_host(sq_norm)
        if not np.isfinite(objective).all():
            raise ScaleError(
                "The objective overflows", objective.dtype, "X is too large. Scale it down."
            )
        resolution = 100 * np.finfo(gap.dtype).eps * sq_norm
        n_open = int(np.count_nonzero(gap > self.tol * objective + resolution))
        if n_open:
            warnings.warn(
                f"{n_open} of {len(code)} codes did not reach a relative duality gap of "
                f"{self.tol:g}. A larger tol or alpha will help.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if self.per_entry:
            objective = objective * to_host(known_weights(self.kernels, X, self.D))
        if self.atom_alpha > 0:
            costs = atom_costs(self.kernels, X, self.D, self.atom_alpha)
            objective = objective + to_host(costs)
        return code, objective

    def _pursued(
        self, pursuit: Pursuit, grams: Array, beta: Array, sq_norm: Array
    ) -> tuple[Array, Array]:
        """Return codes of a pursuit, and half of the squared errors; the host computes them."""
        from somf.kernels.cpu.pursuit import pursue  # Numba is slow to import

        code = pursue(grams, beta, sq_norm, pursuit.max_atoms, pursuit.max_error)
        # At a least squares solution ‖x − Dα‖² = ‖x‖² − αᵀβ.
        squares = np.maximum(sq_norm - (code * beta).sum(axis=1), 0)
        on_device: Any = self.kernels.to_device(code)
        return on_device, squares / 2

    def with_penalty(self, penalty: CodePenalty | None) -> "Coder":
        """Return a coder on the same atoms with another penalty; None is that of this one."""
        if penalty is None or penalty == self.penalty:
            return self
        parts = self.kernels, self.D, penalty, self.tol
        return Coder(*parts, None, self.atom_alpha, self.per_entry)

    def on_device(self, numbers: Array) -> Array:
        """Return numbers of the host on the device, in the type of the dictionary."""
        dtype = to_host(self.D[:0]).dtype
        on_device: Any = self.kernels.to_device(numbers.astype(dtype))
        return on_device  # type: ignore[no-any-return] # an array of the device

    def chunks(self, loader: Loader, ids: Ints, entries_per_row: int = 0) -> Iterator[CodedChunk]:
        """Yield the given samples with their codes, in order, a bounded number at a time.

        Parameters
        ----------
        loader : Loader
        ids : ndarray of int
        entries_per_row : int
            Entries that the caller is going to hold for every sample, besides its code.
        """
        k = len(self.G)
        has_own_grams = isinstance(loader.source, ObservedSource)
        per_row = max(k * k if has_own_grams else k, entries_per_row)
        for X in loader.chunks(ids, per_row):
            yield CodedChunk(X, *self.code(X))

    def objective(self, loader: Loader, ids: Ints, communicator: Communicator = ALONE) -> float:
        """Return the mean objective of the given samples of all ranks."""
        return mean_objective(self.chunks(loader, ids), communicator)


@dataclass(frozen=True)
class LearnedDictionary:
    """Atoms, and how to code samples on them.

    Attributes
    ----------
    components : ndarray of shape (k, p)
    penalty : CodePenalty
    ball : AtomBall
    device : {"cpu", "cuda"}
    n_threads : int or None
    atom_alpha : float
    per_entry : bool
    """

    components: Array
    penalty: CodePenalty
    ball: AtomBall
    device: str
    n_threads: int | None
    atom_alpha: float = 0.0
    per_entry: bool = False

    @contextmanager
    def coder(self, tol: float, pursuit: Pursuit | None = None) -> Iterator[Coder]:
        """Give a coder, with all threads and the memory of the device, while the context lasts."""
        kernels = kernels_for(self.device)
        with threads(self.n_threads), kernels.explain_out_of_memory():
            D = kernels.to_device(np.ascontiguousarray(self.components.T))
            yield Coder(kernels, D, self.penalty, tol, pursuit, self.atom_alpha, self.per_entry)

    def loader(self, source: Source) -> Loader:
        """Return the loader that brings samples to the device."""
        return loader_for(self.device, source, self.components.dtype)


def mean_objective(
    chunks: Iterable[CodedChunk],
    communicator: Communicator = ALONE,
    sample_weight: Array | None = None,
) -> float:
    """Return the mean objective of all samples, of all ranks.

    Parameters
    ----------
    chunks : iterable of CodedChunk
    communicator : Communicator
    sample_weight : ndarray of shape (n,), optional
        How much each sample counts.
    """
    total, total_weight = 0.0, 0.0
    for chunk, part in with_weights(chunks, sample_weight):
        objective = chunk.objective.astype(np.float64)
        total += float(objective.sum() if part is None else part @ objective)
        total_weight += len(objective) if part is None else float(part.sum())
    total, total_weight = communicator.total(total, total_weight)
    return total / total_weight


def with_weights(
    chunks: Iterable[CodedChunk], sample_weight: Array | None
) -> Iterator[tuple[CodedChunk, Array | None]]:
    """Yield chunks with the weights of their samples; None if all count the same."""
    at = 0
    for chunk in chunks:
        n = len(chunk.objective)
        yield chunk, None if sample_weight is None else sample_weight[at : at + n]
        at += n
