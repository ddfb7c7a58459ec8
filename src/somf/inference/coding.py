"""Codes of samples on a fixed dictionary, and their objective."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from somf.data import Loader, Source, loader_for
from somf.distributed import ALONE, Communicator
from somf.errors import ScaleError
from somf.kernels import Kernels, kernels_for
from somf.kernels.cpu.threads import threads
from somf.kernels.host import to_host
from somf.penalties import AtomBall, CodePenalty
from somf.typing import Array, Ints, Matrix


@dataclass(frozen=True)
class CodedChunk:
    """Some samples and their codes.

    Attributes
    ----------
    X : array or csc_array of shape (b, p)
    code : array of shape (b, k)
        Both are on the device.
    objective : ndarray of shape (b,)
        ½‖x − Dα‖² + λΩ(α) of every sample, on the host.
    """

    X: Matrix
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
    """

    def __init__(self, kernels: Kernels, D: Array, penalty: CodePenalty, tol: float) -> None:
        self.kernels, self.D, self.penalty, self.tol = kernels, D, penalty, tol
        self.rows = (slice(0, len(D)),)
        self.G = kernels.gram(D, self.rows)

    def code(self, X: Matrix) -> tuple[Array, Array]:
        """Return the codes of a chunk.

        Parameters
        ----------
        X : ndarray or csc_array of shape (b, p)

        Returns
        -------
        code : ndarray of shape (b, k)
        objective : ndarray of shape (b,)
            ½‖x − Dα‖² + λΩ(α) of every sample.

        Raises
        ------
        ScaleError
            If an objective overflows.
        """
        beta = self.kernels.correlate(X, self.D, self.rows)
        sq_norm = self.kernels.squared_norms(X, self.rows)
        code = self.kernels.zeros((X.shape[0], self.G.shape[0]), self.G)
        objective, gap = self.kernels.solve_codes(
            self.G[None], beta, sq_norm, self.penalty, self.tol, code
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
        return code, objective

    def chunks(self, loader: Loader, ids: Ints) -> Iterator[CodedChunk]:
        """Yield the given samples with their codes, in order, a bounded number at a time."""
        for X in loader.chunks(ids, len(self.G)):
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
    """

    components: Array
    penalty: CodePenalty
    ball: AtomBall
    device: str
    n_threads: int | None

    @contextmanager
    def coder(self, tol: float) -> Iterator[Coder]:
        """Give a coder, with all threads and the memory of the device, while the context lasts."""
        kernels = kernels_for(self.device)
        with threads(self.n_threads), kernels.explain_out_of_memory():
            D = kernels.to_device(np.ascontiguousarray(self.components.T))
            yield Coder(kernels, D, self.penalty, tol)

    def loader(self, source: Source) -> Loader:
        """Return the loader that brings samples to the device."""
        return loader_for(self.device, source, self.components.dtype)


def mean_objective(chunks: Iterable[CodedChunk], communicator: Communicator = ALONE) -> float:
    """Return the mean objective of all samples, of all ranks."""
    total, n_samples = 0.0, 0
    for chunk in chunks:
        total += float(chunk.objective.sum(dtype=np.float64))
        n_samples += len(chunk.objective)
    total, n_all = communicator.total(total, n_samples)
    return total / n_all
