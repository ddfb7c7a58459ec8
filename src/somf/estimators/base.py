"""`MatrixFactorization`: parameters, and methods that hand over to training and inference."""

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from somf.algorithm.state import State
from somf.data import Channels, ObservedSource, Offsets, Source
from somf.data.sources.centred import CentredSource
from somf.data.sources.normalized import NormalizedSource
from somf.distributed import Alone, Communicator
from somf.distributed.connection import communicator_for
from somf.errors import (
    MissingFileError,
    MissingStateError,
    ParameterError,
    ScaleError,
    SparsityWarning,
)
from somf.estimators.applying import coding, on_scale_of, rows_of_rank
from somf.estimators.arguments import check_ids, check_pursuit, check_weights
from somf.estimators.config import (
    AlphaPer,
    Center,
    CodeEstimator,
    Device,
    InitialAtoms,
    MaskKind,
    MissingEntries,
    SurrogateKind,
    check_params,
    check_tolerance,
)
from somf.estimators.opening import (
    adopt_features,
    as_stored,
    check_features,
    for_source,
    geometry_of,
    open_samples,
)
from somf.estimators.parameters import describe_parameters
from somf.estimators.quality import (
    ENTRIES_PER_SAMPLE,
    OfSmallData,
    adopt_quality,
    forget_quality,
    is_cheap,
)
from somf.estimators.sparsity import CodeCounts, warn_about_atoms, warn_about_codes
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
from somf.persistence import modelfile
from somf.persistence.provenance import provenance_of
from somf.training import fitting
from somf.training.callbacks import Callback
from somf.training.checkpoint import Checkpoint
from somf.training.config import TrainingConfig
from somf.training.identity import FitIdentity, file_stamp, fingerprint
from somf.typing import Array, History, Ints

CODE_TOL = 1e-6
"""Default relative duality gap of the codes that are returned to the user."""

Ranks: TypeAlias = Literal["share", "own", "off"]
"""What a process does that is one of several: share X, bring its own rows, or work alone."""

GAP_TOL = 1e-12
"""Default relative duality gap of the codes behind a stationarity gap."""


@describe_parameters
class MatrixFactorization(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
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

    components_: Array
    history_: History
    alpha_: float
    offsets_: Array
    patches_: dict[str, Any]
    channels_: Channels
    provenance_: dict[str, str]
    patch_shape_: tuple[int, ...]
    reconstruction_err_ = OfSmallData()
    explained_variance_ratio_ = OfSmallData()

    def __init__(
        self,
        n_components: int = 100,
        *,
        alpha: float | Literal["auto"] = 0.1,
        alpha_per: AlphaPer = "sample",
        code_density: float = 0.1,
        atom_density: float | None = None,
        transform_alpha: float | Literal["auto"] = "auto",
        l1_ratio: float = 1.0,
        atom_l1_ratio: float = 0.0,
        atom_alpha: float = 0.0,
        reduction: float | Literal["auto"] = "auto",
        code_estimator: CodeEstimator = "auto",
        masks: MaskKind = "blocks",
        surrogate: SurrogateKind = "online",
        learning_rate: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        n_epochs: int = 100,
        tol: float = 2e-4,
        patience: int = 3,
        init: InitialAtoms | Array = "samples",
        missing: MissingEntries = "error",
        center: Center = "none",
        normalize: bool = False,
        positive_code: bool = False,
        positive_atoms: bool = False,
        code_tol: float = 1e-3,
        record_every: int | None = None,
        device: Device = "cpu",
        n_threads: int | None = None,
        dtype: Any = None,
        callbacks: Iterable[Callback] | Callback = (),
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.alpha_per = alpha_per
        self.code_density = code_density
        self.atom_density = atom_density
        self.transform_alpha = transform_alpha
        self.l1_ratio = l1_ratio
        self.atom_l1_ratio = atom_l1_ratio
        self.atom_alpha = atom_alpha
        self.reduction = reduction
        self.code_estimator = code_estimator
        self.masks = masks
        self.surrogate = surrogate
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.tol = tol
        self.patience = patience
        self.init = init
        self.missing = missing
        self.center = center
        self.normalize = normalize
        self.positive_code = positive_code
        self.positive_atoms = positive_atoms
        self.code_tol = code_tol
        self.record_every = record_every
        self.device = device
        self.n_threads = n_threads
        self.dtype = dtype
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    # Learning

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

    def _communicator(self, ranks: str) -> Communicator:
        """Return the communicator of the ranks that work together with this process."""
        if ranks not in get_args(Ranks):
            options = " or ".join(map(repr, get_args(Ranks)))
            raise ParameterError("ranks", f"be {options}", ranks)
        return Alone() if ranks == "off" else communicator_for(self._requested_config().device)

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

    @property
    def has_state(self) -> bool:
        """Whether the model has the state from which `partial_fit` continues."""
        return hasattr(self, "_state")

    def _requested_config(self) -> TrainingConfig:
        """Return the parameters after a check; λ may still have to be found."""
        names = MatrixFactorization._get_param_names()
        return check_params({name: getattr(self, name) for name in names})

    def _config(self) -> TrainingConfig:
        """Return the parameters after a check, with λ and surrogate of the fit if it chose them."""
        request = self._requested_config()
        if request.has_open_alpha and hasattr(self, "alpha_"):
            request = request.with_alpha(self.alpha_)
        return request.with_surrogate(self._state.remembers) if self.has_state else request

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

    def _check_can_continue(self, config: TrainingConfig) -> None:
        if not self.has_state:
            raise MissingStateError(
                "This model was loaded without its state, so it cannot continue to learn. Save it "
                "with save(path, state=True), or call fit."
            )
        if (self.center != "none") != hasattr(self, "offsets_"):
            rule = "stay what it was while learning continues"
            raise ParameterError("center", rule, self.center, "Call fit to start again.")
        for name in ("n_components", "reduction", "masks", "code_estimator", "surrogate", "ball"):
            now, then = getattr(config, name), getattr(self._fitted_config, name)
            if now != then:
                rule = f"stay {then!r} while learning continues"
                raise ParameterError(name, rule, now, "Call fit to start again.")

    # Using what was learned

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

    def _opened(self, X: Any, weights: Any = None) -> tuple[Source, Any]:
        return open_samples(X, weights, self.missing, self.center, self.normalize)

    def _source(self, X: Any, weights: Any = None) -> Source:
        """Return samples for a fitted model as a source, their features checked."""
        check_is_fitted(self)
        source, X = self._opened(X, weights)
        check_features(self, X)
        if isinstance(source, ObservedSource) and hasattr(self, "offsets_"):
            source.offsets = Offsets(self.offsets_)
        elif isinstance(source, CentredSource) and hasattr(self, "offsets_"):
            source.means = self.offsets_
        return source

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

    # Keeping what was learned

    def save(self, path: str | os.PathLike[str], *, state: bool = False) -> None:
        """Write the fitted model to a file that `somf.load` reads.

        Callbacks are not saved, and neither is a `random_state` that is not a number.

        Parameters
        ----------
        path : path-like
        state : bool
            Whether to save also the state that `partial_fit` needs to continue as if the model had
            never been saved. The file is then more than twice as large, and larger still if samples
            are remembered.
        """
        check_is_fitted(self)
        if state and not self.has_state:
            raise MissingStateError(
                "This model was loaded without its state, so it has no state to save."
            )
        if self.n_components != len(self.components_):
            rule = f"be that of the fit, {len(self.components_)}, to save it"
            raise ParameterError("n_components", rule, self.n_components)
        if (self.center != "none") != hasattr(self, "offsets_"):
            raise ParameterError("center", "be that of the fit, to save it", self.center)
        if state:
            self._check_can_continue(self._config().for_features(self.n_features_in_))
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise MissingFileError(
                f"There is no folder {folder!r} to save {os.fspath(path)!r} in. Create it first."
            )
        modelfile.save(
            path,
            modelfile.Model(
                kind=type(self).__name__,
                params=self.get_params(deep=False),
                learned=self._state.on_host() if state else self.components_,
                history=self.history_,
                feature_names=getattr(self, "feature_names_in_", None),
                patches=getattr(self, "patches_", None),
                channels=getattr(self, "channels_", None),
                alpha=self.alpha_,
                n_iter=self.n_iter_,
                n_samples_seen=self.n_samples_seen_,
                offsets=getattr(self, "offsets_", None),
                provenance=getattr(self, "provenance_", None),
                reconstruction_err=getattr(self, "reconstruction_err_", None),
                explained_variance_ratio=getattr(self, "explained_variance_ratio_", None),
            ),
        )

    def __getstate__(self) -> dict[str, Any]:
        content: dict[str, Any] = super().__getstate__()
        if "_state" in content:  # a pickle or a copy is made in the memory of the host
            content = content | {"_state": content["_state"].on_host()}
        return content

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "nan"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
