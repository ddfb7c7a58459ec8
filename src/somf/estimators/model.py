"""What all methods of an estimator share: its parameters, what it has learned, and its file."""

import os
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from somf.data import Channels, ObservedSource, Offsets, Source
from somf.data.sources.centred import CentredSource
from somf.distributed import Alone, Communicator
from somf.distributed.connection import communicator_for
from somf.errors import (
    MissingFileError,
    MissingStateError,
    ParameterError,
)
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
)
from somf.estimators.opening import (
    check_features,
    open_samples,
)
from somf.estimators.quality import (
    OfSmallData,
)
from somf.persistence import modelfile
from somf.training.callbacks import Callback
from somf.training.checkpoint import Checkpoint
from somf.training.config import TrainingConfig
from somf.typing import Array, History

Ranks: TypeAlias = Literal["share", "own", "off"]
"""What a process does that is one of several: share X, bring its own rows, or work alone."""


class Model(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The parameters of a factorization, and what it has learned."""

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
        tol: float = 1e-4,
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

    @property
    def has_state(self) -> bool:
        """Whether the model has the state from which `partial_fit` continues."""
        return hasattr(self, "_state")

    def _requested_config(self) -> TrainingConfig:
        """Return the parameters after a check; λ may still have to be found."""
        names = Model._get_param_names()
        return check_params({name: getattr(self, name) for name in names})

    def _config(self) -> TrainingConfig:
        """Return the parameters after a check, with λ and surrogate of the fit if it chose them."""
        request = self._requested_config()
        if request.has_open_alpha and hasattr(self, "alpha_"):
            request = request.with_alpha(self.alpha_)
        return request.with_surrogate(self._state.remembers) if self.has_state else request

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

    def _communicator(self, ranks: str) -> Communicator:
        """Return the communicator of the ranks that work together with this process."""
        if ranks not in get_args(Ranks):
            options = " or ".join(map(repr, get_args(Ranks)))
            raise ParameterError("ranks", f"be {options}", ranks)
        return Alone() if ranks == "off" else communicator_for(self._requested_config().device)

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
