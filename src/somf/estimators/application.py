"""What a model that has learned a dictionary does with samples."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from somf.data import Source
from somf.data.sources.normalized import NormalizedSource
from somf.distributed import Alone, Communicator
from somf.errors import (
    ParameterError,
)
from somf.estimators.applying import coding, on_scale_of, rows_of_rank
from somf.estimators.arguments import check_pursuit, check_weights
from somf.estimators.config import (
    check_tolerance,
)
from somf.estimators.model import Model, Ranks
from somf.estimators.sparsity import CodeCounts, warn_about_codes
from somf.inference.coding import (
    CodedChunk,
    Coder,
    LearnedDictionary,
    Pursuit,
    mean_objective,
    with_weights,
)
from somf.inference.imputation import filled_in
from somf.inference.measurement import Measurement, measure
from somf.inference.output import codes_into
from somf.inference.shared_output import codes_on_ranks, edges_of_codes
from somf.inference.stationarity import Gradient
from somf.inference.variance import Variance
from somf.kernels.host import to_host
from somf.typing import Array, Ints

CODE_TOL = 1e-6
"""Default relative duality gap of the codes that are returned to the user."""

GAP_TOL = 1e-12
"""Default relative duality gap of the codes behind a stationarity gap."""


class AppliedModel(Model):
    """Codes of samples, what they stand for, and measures of how well."""

    def transform(
        self,
        X: Any,
        out: Any = None,
        *,
        max_atoms: int | None = None,
        max_error: float | None = None,
        weights: Any = None,
        sparse: bool = False,
        ranks: Ranks = "off",
    ) -> Any:
        """Return the codes of samples on the learned atoms, computed and written in chunks.

        Parameters
        ----------
        X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
        out : array-like of shape (n_samples, n_components) or path-like, optional
            Where to write the codes: an array, a memory map, anything else that takes slices of
            rows; or a file, ``.npy`` or ``.zarr`` (``.npz`` for sparse codes), which must not exist
            yet, and appears under its name when it is complete.
        max_atoms : int, optional
            If given, or `max_error`, codes are those of orthogonal matching pursuit, and `alpha`
            does not count: atoms are added one by one, up to this number for a sample.
        max_error : float, optional
            No more atoms are added once ‖x − Dα‖ is not larger, such as 1.1 σ √p for samples with
            noise of standard deviation σ. With `normalize`, x is the sample of unit norm.
        weights : array-like, sparse matrix, path or Source of shape (n_samples, n_features), \
                optional
            How much each entry of X counts; see `fit`.
        sparse : bool, default=False
            Whether to return a CSR array, so that codes with few non-zeros take little memory.
        ranks : {"off", "share", "own"}, default="off"
            Whether several processes (see `fit`) share the work, and all of them call this method:
            ``"share"`` writes one file, `out`, which all of them must be able to write to, or
            returns all codes to all of them; with ``"own"`` each has the codes of its own X.

        Returns
        -------
        codes : ndarray or csr_array of shape (n_samples, n_components)
            Solved to a relative duality gap of 1e-6, or to the limits of the floating type; or
            those of the pursuit. What was given as `out`, or, for a file, the memory map or Zarr
            array that it is.
        """
        source = self._source(X, weights)
        pursuit, counts = self._pursuit(max_atoms, max_error), CodeCounts()
        shape, dtype = (source.shape[0], len(self.components_)), self.components_.dtype
        communicator = Alone() if ranks == "own" else self._communicator(ranks)
        edges = edges_of_codes(*shape, communicator.size)
        own = np.arange(*edges[communicator.rank : communicator.rank + 2])
        if isinstance(source, NormalizedSource):
            source.remember_norms()
        with (
            communicator.reporting(),
            self._coding(source, CODE_TOL, own, for_user=True, pursuit=pursuit) as (_, chunks),
            codes_on_ranks(out, shape, dtype, sparse, communicator, edges) as codes,
        ):
            for code in counts.counted(on_scale_of(source, chunks, own)):
                codes.append(code)
        if pursuit is None and communicator.size == 1:
            warn_about_codes(counts, self._config(), self.components_, source, of_transform=True)
        return codes.rows

    def impute(self, X: Any, out: Any = None, *, weights: Any = None) -> Any:
        """Return X with its unknown entries filled in, computed and written in chunks.

        Parameters
        ----------
        X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
            With unknown entries as `missing` says.
        out : array-like of shape (n_samples, n_features) or path-like, optional
            Where to write the result; see `transform`.
        weights : optional
            How much each entry of X counts; see `fit`.

        Returns
        -------
        filled : ndarray of shape (n_samples, n_features)
            Known entries as they are; unknown ones from the codes of what is known, and from all
            offsets with ``center="both"``. For a file, what `transform` returns for one.
        """
        if self.missing == "error":
            raise ParameterError("missing", "be 'nan' or 'absent' to impute", self.missing)
        source = self._source(X, weights)
        dtype = np.result_type(source.dtype, self.components_.dtype)
        with (
            self._coding(source, CODE_TOL, entries_per_row=source.shape[1]) as (_, chunks),
            codes_into(out, source.shape, dtype, sparse=False) as filled,
        ):
            at = 0
            for chunk in chunks:
                ids = np.arange(at, at + len(chunk.objective))
                predicted = to_host(chunk.code) @ self.components_
                filled.append(filled_in(source, ids, predicted.astype(dtype, copy=False)))
                at += len(ids)
        return filled.rows

    def inverse_transform(self, X: Any) -> Array:
        """Return the samples that codes stand for, ``X @ components_``.

        The means of features are added with ``center="features"``; with ``center="both"`` their
        offsets, while those of samples are not known from codes (see `impute`).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_components)
            Codes.

        Returns
        -------
        samples : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        codes = X if sp.issparse(X) else np.asarray(X)
        if codes.ndim != 2 or codes.shape[1] != len(self.components_):
            rule = f"have shape (n_samples, {len(self.components_)})"
            raise ParameterError("codes", rule, X, got=str(codes.shape))
        samples = np.asarray(codes @ self.components_)
        if hasattr(self, "offsets_"):
            samples += self.offsets_.astype(samples.dtype)
        return samples

    def objective(
        self,
        X: Any,
        *,
        sample_weight: Any = None,
        weights: Any = None,
        tol: float = CODE_TOL,
        ranks: Ranks = "off",
    ) -> float:
        """Return the mean over samples of min_α ½‖x − Dα‖² + λΩ(α), over entries that are known.

        Parameters
        ----------
        X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
        sample_weight, weights : optional
            How much samples, and entries of X, count; see `fit`. The mean is a weighted one.
        tol : float
            Relative duality gap to which codes are solved; the result is too large by at most
            this fraction (or by the resolution of the floating type).
        ranks : {"off", "share", "own"}, default="off"
            Whether several processes (see `fit`) share the work, and all of them call this method.

        Returns
        -------
        objective : float
            Of the samples of all ranks, the same on each of them.
        """
        with self._coding_on_ranks(X, tol, ranks, weights, sample_weight) as coding:
            _, chunks, communicator, counts = coding
            return mean_objective(chunks, communicator, counts)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002 (scikit-learn)
        """Return minus the objective: higher is better.

        Parameters
        ----------
        X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        score : float
        """
        return -self.objective(X)

    def explained_variance(
        self, X: Any, *, weights: Any = None, max_atoms: int | None = None
    ) -> float:
        """Return one less Σ‖x − Dα‖² / Σ‖x − x̄‖², with the codes of `transform`.

        1 is perfect, and the mean x̄ as the reconstruction of all samples has 0. The score for a
        search over `alpha` is this with `max_atoms` (see `somf.scoring.ExplainedVariance`).

        Parameters
        ----------
        X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
        weights : optional
            How much each entry of X counts; see `fit`.
        max_atoms : int, optional
            Atoms that each sample may use, chosen by orthogonal matching pursuit; see `transform`.

        Returns
        -------
        explained_variance : float
        """
        source = self._source(X, weights)
        pursuit = self._pursuit(max_atoms, None)
        with self._coding(source, CODE_TOL, for_user=True, pursuit=pursuit) as (coder, chunks):
            variance = Variance(coder)
            for chunk in chunks:
                variance.add(chunk)
        return variance.explained

    def stationarity_gap(
        self,
        X: Any,
        *,
        sample_weight: Any = None,
        weights: Any = None,
        tol: float = GAP_TOL,
        ranks: Ranks = "off",
    ) -> float:
        """Certify the dictionary: return max ⟨∇f̄(D), D − D'⟩ over all dictionaries D' allowed.

        To first order, no dictionary is better than this one by more than that. It is zero at
        stationary points of the objective on X, which is what the paper's theorem promises.

        Parameters
        ----------
        X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
            The data that the dictionary was learned from.
        sample_weight, weights : optional
            How much samples, and entries of X, counted; see `fit`.
        tol : float
            Relative duality gap to which codes are solved. The gradient, and so the result, is
            accurate to about its square root.
        ranks : {"off", "share", "own"}, default="off"
            Whether several processes (see `fit`) share the work, and all of them call this method.

        Returns
        -------
        gap : float
            Of the samples of all ranks, the same on each of them.
        """
        with self._coding_on_ranks(X, tol, ranks, weights, sample_weight) as coding:
            coder, chunks, communicator, counts = coding
            gradient = Gradient(coder)
            for chunk, part in with_weights(chunks, counts):
                gradient.add(chunk, None if part is None else coder.on_device(part))
            gradient.add_ranks(communicator)
            return gradient.stationarity_gap(self._config().ball)

    def measure(self, X: Any, *, weights: Any = None, with_gap: bool = True) -> Measurement:
        """Measure objective, density, use of atoms and stationarity gap in one pass over samples.

        Density, usage and explained variance are those of the codes that `transform` returns.

        Parameters
        ----------
        X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
        weights : optional
            How much each entry of X counts; see `fit`.
        with_gap : bool, default=True
            Whether to measure the stationarity gap, for which codes are solved more precisely.

        Returns
        -------
        measurement : Measurement
            With `objective`, `stationarity_gap`, `density`, `usage`, `n_unused` and more.
        """
        source, tol = self._source(X, weights), GAP_TOL if with_gap else CODE_TOL
        with self._coding(source, tol) as (coder, chunks):
            config = self._config()
            return measure(coder, chunks, config.ball, with_gap, config.transform_penalty)

    def _pursuit(self, max_atoms: Any, max_error: Any) -> Pursuit | None:
        """Return how codes are pursued, if they are; see `transform`."""
        pursuit = check_pursuit(max_atoms, max_error, len(self.components_))
        if pursuit is not None and self._config().penalty.positive:
            rule = "not be given, nor max_error, for non-negative codes"
            raise ParameterError("max_atoms", rule, max_atoms)
        return pursuit

    @contextmanager
    def _coding_on_ranks(
        self, X: Any, tol: float, ranks: str, weights: Any, sample_weight: Any
    ) -> Iterator[tuple[Coder, Iterator[CodedChunk], Communicator, Array | None]]:
        """Give a coder, the samples of this rank coded by it, the communicator, and weights."""
        source, communicator = self._source(X, weights), self._communicator(ranks)
        counts = check_weights(sample_weight, source.shape[0])
        with communicator.reporting():
            own = rows_of_rank(source, ranks == "own", communicator)
            with self._coding(source, tol, own) as (coder, chunks):
                yield coder, chunks, communicator, None if counts is None else counts[own]

    def _coding(
        self,
        source: Source,
        tol: float,
        ids: Ints | None = None,
        entries_per_row: int = 0,
        for_user: bool = False,
        pursuit: Pursuit | None = None,
        is_shown: bool = True,
    ) -> AbstractContextManager[tuple[Coder, Iterator[CodedChunk]]]:
        """Give a coder, and samples of a source coded by it; see `coding`.

        Codes are those of the objective, or those of `transform`, which are for the user.
        """
        config = self._config()
        learned = LearnedDictionary(
            self.components_,
            config.transform_penalty if for_user else config.penalty,
            config.ball,
            config.device,
            config.n_threads,
            config.atom_alpha,
            config.per_entry,
        )
        return coding(
            learned,
            source,
            check_tolerance(tol),
            ids,
            entries_per_row=entries_per_row,
            verbose=config.verbose if is_shown else 0,
            pursuit=pursuit,
        )
