"""`MatrixFactorization`: how it learns."""

import warnings
from contextlib import suppress
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from somf.algorithm.state import State
from somf.data import ObservedSource, Source
from somf.distributed import Communicator
from somf.errors import (
    ParameterError,
    ScaleError,
    SparsityWarning,
)
from somf.estimators.application import CODE_TOL, AppliedModel
from somf.estimators.arguments import check_ids, check_weights
from somf.estimators.model import Ranks
from somf.estimators.opening import (
    adopt_features,
    as_stored,
    check_features,
    for_source,
    geometry_of,
)
from somf.estimators.parameters import describe_parameters
from somf.estimators.quality import (
    ENTRIES_PER_SAMPLE,
    adopt_quality,
    forget_quality,
    is_cheap,
)
from somf.estimators.sparsity import CodeCounts, warn_about_atoms, warn_about_codes
from somf.inference.measurement import measure
from somf.persistence.provenance import provenance_of
from somf.training import fitting
from somf.training.config import TrainingConfig
from somf.training.identity import FitIdentity, file_stamp, fingerprint
from somf.typing import Array, History


@describe_parameters
class MatrixFactorization(AppliedModel):
    """Subsampled online matrix factorization: X ≈ ``codes @ components_``.

    Minimises over atoms d in the ball μ‖d‖₁ + (1−μ)‖d‖₂² ≤ 1 the mean over samples of
    min_α ½‖x − Dα‖² + λ(ν‖α‖₁ + (1−ν)‖α‖₂²).

    Examples
    --------
    >>> import numpy as np
    >>> from somf import MatrixFactorization
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> model = MatrixFactorization(10, alpha=0.5, reduction=2, random_state=0).fit(X)
    >>> model.transform(X).shape
    (200, 10)
    """

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 (scikit-learn)
        *,
        sample_weight: Any = None,
        weights: Any = None,
        validation: Any = None,
        ranks: Ranks = "share",
    ) -> Self:
        """Learn the dictionary of a data set, from scratch or from a `checkpoint`.

        Parameters
        ----------
        X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
            Also any object with `shape`, `dtype` and slices of rows, such as an h5py dataset, a
            pattern of paths and a list of paths (see `somf.data.open_source`).
            Never copied as a whole; a minibatch is read, converted and checked when it is needed.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts for the atoms: two copies of a sample count like one of
            weight 2, and samples of weight zero are left out. Initial atoms, ``alpha="auto"`` and
            `tol` look at all others in the same way. By default all count the same.
        weights : array-like, sparse matrix, path or Source of shape (n_samples, n_features), \
                optional
            How much each entry of X counts, such as one over its variance. Those of a sparse X
            (with ``missing="absent"``) must have the same entries stored. Other validation data has
            no weights.
        validation : float or array-like, sparse matrix, path or Source, optional
            Data on which the objective is measured for `history_`: a fraction of the samples of
            X, which are then not learned from, or other samples.
        ranks : {"share", "own", "off"}, default="share"
            What to do in a process that torchrun, SLURM or the program has started as one of
            several: share X, so that each reads a part of its rows; take X as the rows of this
            process alone, of which others have others; or fit alone. Otherwise without effect.

        Returns
        -------
        self : object

        Notes
        -----
        After Ctrl-C without a `checkpoint`, the model keeps what it has learned until the end of
        the iteration; a second Ctrl-C ends the fit at once, and the model stays what it was.
        """
        config = self._requested_config()
        source, X = self._opened(X, weights)
        if validation is not None and not isinstance(validation, Real):
            validation = self._opened(validation)[0]
        counts = check_weights(sample_weight, source.shape[0])
        communicator = self._communicator(ranks)
        with communicator.reporting():
            return self._fit(config, source, X, validation, communicator, ranks == "own", counts)

    def _fit(
        self,
        config: TrainingConfig,
        source: Source,
        X: Any,
        validation: Any,
        communicator: Communicator,
        own_rows: bool,
        sample_weight: Array | None,
    ) -> Self:
        adopt_features(named := BaseEstimator(), X, source)  # checks names early
        config = for_source(config, source)
        seed, names = self._draw_seed(), getattr(named, "feature_names_in_", None)
        identify = partial(self._identity, source, validation, seed, names, sample_weight)

        def adopt(learned: fitting.Fit) -> None:
            adopt_features(self, X, source)
            self._adopt(learned.config, learned.state, learned.history)
            self.provenance_ = provenance_of(source.files)
            self._adopt_geometry(geometry_of(source))

        learned = fitting.fit(
            config,
            source,
            validation,
            seed,
            identify,
            communicator,
            own_rows,
            sample_weight,
            keep=adopt,
        )
        adopt(learned)
        if communicator.size == 1:
            self._warn_about(learned, config.atom_density, source)
            self._measure_fit(source)
        return self

    def _measure_fit(self, source: Source) -> None:
        """Set the attributes that take a further pass over X, if it costs little."""
        if not is_cheap(source, self.n_components, self.n_samples_seen_):
            return
        with warnings.catch_warnings(), suppress(ScaleError):  # neither is an error of the fit
            warnings.simplefilter("ignore", ConvergenceWarning)
            with self._coding(
                source, CODE_TOL, None, ENTRIES_PER_SAMPLE, for_user=True, is_shown=False
            ) as coded:
                adopt_quality(self, measure(*coded, self._config().ball, with_gap=False))

    def _warn_about(self, learned: fitting.Fit, atom_density: float | None, source: Source) -> None:
        """Warn if codes, or atoms, are not as sparse as they are meant to be."""
        if atom_density is not None:
            warn_about_atoms(atom_density, self.alpha_, self.components_)
        elif isinstance(self.alpha, Real):
            counts = CodeCounts.of(learned.last_code)
            warn_about_codes(counts, learned.config, self.components_, source)

    def _identity(
        self,
        source: Source,
        validation: Any,
        seed: int,
        names: Array | None,
        sample_weight: Array | None,
    ) -> FitIdentity:
        """Return what is fitted to which data, to be compared with a checkpoint."""
        source, validation = as_stored(source), as_stored(validation)
        data = fingerprint(source, is_shuffled=True)
        if isinstance(source, ObservedSource) and source.weights is not None:
            data["weights"] = fingerprint(source.weights)["content of sampled rows"]
        if sample_weight is not None:
            data["sample_weight"] = fingerprint(sample_weight[:, None])["content of sampled rows"]
        return FitIdentity(
            kind=type(self).__name__,
            params=self.get_params(deep=False),
            seed=seed if isinstance(self.random_state, Integral) else None,
            feature_names=names,
            patches=geometry_of(source),
            channels=source.channels,
            data=data,
            validation=fingerprint(validation),
            files={"X": file_stamp(source), "validation": file_stamp(validation)},
        )

    def partial_fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 (scikit-learn)
        sample_ids: Any = None,
        *,
        sample_weight: Any = None,
        weights: Any = None,
    ) -> Self:
        """Continue to learn with some more samples, in minibatches of `batch_size`.

        Parameters
        ----------
        X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
        y : None
            Ignored.
        sample_ids : array-like of int of shape (n_samples,), optional
            Names of the samples, by which they are recognised when they come again; `fit` uses row
            numbers. Samples without a name count as new and are not remembered.
        sample_weight, weights : optional
            How much samples, and entries of X, count; see `fit`. A sample that comes again, by its
            name, must have the weights that it had.

        Returns
        -------
        self : object

        Notes
        -----
        Each minibatch is read, checked and learned from before the next one. If one of them cannot
        be read or is not finite, or Ctrl-C is pressed, the model keeps what it has learned from the
        minibatches before it; `n_samples_seen_` counts their samples.
        """
        is_first = not self.has_state
        config = self._requested_config() if is_first else self._config()
        source, X = self._opened(X, weights)
        counts = check_weights(sample_weight, source.shape[0])
        config = for_source(config, source)
        if hasattr(self, "components_"):
            check_features(self, X)
            self._check_can_continue(config)
            if config.has_weights != self._fitted_config.has_weights:
                rule = "be given in all calls or in none, unless missing is 'nan' or 'absent'"
                raise ParameterError(
                    "weights", rule, weights, "Call fit to start again.", got="another"
                )
        ids = None if sample_ids is None else check_ids(sample_ids, source.shape[0])

        def adopt(config: TrainingConfig, state: State) -> None:
            if is_first:
                adopt_features(self, X, source)
                self._adopt_geometry(geometry_of(source))
            self._adopt(config, state, getattr(self, "history_", {}))

        seed, state = (self._draw_seed(), None) if is_first else (self._state.seed, self._state)
        learned = fitting.partial_fit(config, source, ids, seed, state, adopt, counts)
        if is_first:
            self._warn_about(learned, None, source)
        return self

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _adopt(self, config: TrainingConfig, state: State, history: History) -> None:
        """Take over what a fit has learned; until here nothing of the estimator has changed.

        The state stays on its device, so that `partial_fit` need not move it there again.
        """
        forget_quality(self)
        self._fitted_config, self._state = config, state
        self.components_ = state.components
        self._adopt_offsets(state.offsets)
        self.alpha_ = config.penalty.alpha
        self.n_iter_ = state.n_iter
        self.n_samples_seen_ = state.n_samples_seen
        self.history_ = history

    def _adopt_offsets(self, offsets: Array | None) -> None:
        """Take over the offsets of features, if there are any."""
        if offsets is not None and offsets.size:
            self.offsets_ = offsets
        elif hasattr(self, "offsets_"):
            del self.offsets_  # it is that of an earlier fit

    def _adopt_geometry(self, patches: dict[str, Any] | None) -> None:
        """Take over how samples were cut out of an image, if they were."""
        for name in ("patches_", "patch_shape_"):
            if hasattr(self, name):
                delattr(self, name)  # it is that of an earlier fit
        if patches is not None:
            self.patches_ = patches
            size, image = patches["patch_size"], patches["images"][0]
            self.patch_shape_ = (*size, *image["shape"][len(size) :])

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return the codes of the samples of the fit; see `fit` and `transform`.

        Parameters
        ----------
        X : array-like, sparse matrix, path or Source of shape (n_samples, n_features)
        y : None
            Ignored.
        **fit_params : object
            For `fit`; `weights` also for `transform`.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_components)
        """
        self.fit(X, y, **fit_params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SparsityWarning)  # the fit has warned
            return self.transform(X, weights=fit_params.get("weights"))
