"""The problems that have a name of their own."""

import os
from collections.abc import Iterable
from typing import Any, Literal

from somf.estimators.base import MatrixFactorization
from somf.estimators.config import (
    Center,
    CodeEstimator,
    Device,
    InitialAtoms,
    MaskKind,
    MissingEntries,
    SurrogateKind,
)
from somf.estimators.parameters import describe_parameters
from somf.training.callbacks import Callback
from somf.training.checkpoint import Checkpoint
from somf.typing import Array


@describe_parameters
class DictionaryLearning(MatrixFactorization):
    """Sparse codes on dense atoms: ℓ1 penalty on codes, atoms in the ℓ2 ball.

    Examples
    --------
    >>> import numpy as np
    >>> from somf import DictionaryLearning
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> model = DictionaryLearning(10, alpha=1.0, reduction=2, random_state=0).fit(X)
    >>> model.components_.shape
    (10, 30)
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        alpha: float | Literal["auto"] = 0.1,
        code_density: float = 0.1,
        transform_alpha: float | Literal["auto"] = "auto",
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
        super().__init__(
            n_components,
            alpha=alpha,
            code_density=code_density,
            transform_alpha=transform_alpha,
            l1_ratio=1.0,
            atom_l1_ratio=0.0,
            reduction=reduction,
            code_estimator=code_estimator,
            masks=masks,
            surrogate=surrogate,
            learning_rate=learning_rate,
            batch_size=batch_size,
            n_epochs=n_epochs,
            tol=tol,
            patience=patience,
            init=init,
            missing=missing,
            center=center,
            normalize=normalize,
            positive_code=positive_code,
            positive_atoms=positive_atoms,
            code_tol=code_tol,
            record_every=record_every,
            device=device,
            n_threads=n_threads,
            dtype=dtype,
            callbacks=callbacks,
            checkpoint=checkpoint,
            verbose=verbose,
            random_state=random_state,
        )


@describe_parameters
class SparsePCA(MatrixFactorization):
    """Dense codes on sparse atoms: squared ℓ2 penalty on codes, atoms in the ℓ1 ball.

    Parameters
    ----------
    alpha : float or "auto"
        Weight λ of the penalty on codes. The larger it is, the sparser are the atoms; the scale of
        X does not matter. With ``"auto"`` it is found before the fit, on a part of the data, so
        that atoms have the density `atom_density`.
    atom_density : float
        The fraction, in (0, 1), of the entries of atoms that shall not be zero, where `alpha` is
        ``"auto"``. The density of a fit is usually within 15 % of it; a miss of more than a quarter
        is worth a `SparsityWarning`.
    transform_alpha : float or "auto"
        λ of the codes that `transform` returns. The penalty that makes atoms sparse shrinks codes,
        so ``"auto"`` is a hundredth of the λ of the fit (or all of it, where entries are unknown).

    Examples
    --------
    >>> import numpy as np
    >>> from somf import SparsePCA
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> model = SparsePCA(10, reduction=2, random_state=0).fit(X)
    >>> bool((model.components_ == 0).any())
    True
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        alpha: float | Literal["auto"] = "auto",
        atom_density: float = 0.1,
        transform_alpha: float | Literal["auto"] = "auto",
        reduction: float | Literal["auto"] = "auto",
        code_estimator: CodeEstimator = "auto",
        masks: MaskKind = "blocks",
        surrogate: SurrogateKind = "auto",
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
        super().__init__(
            n_components,
            alpha=alpha,
            atom_density=atom_density,
            transform_alpha=transform_alpha,
            l1_ratio=0.0,
            atom_l1_ratio=1.0,
            reduction=reduction,
            code_estimator=code_estimator,
            masks=masks,
            surrogate=surrogate,
            learning_rate=learning_rate,
            batch_size=batch_size,
            n_epochs=n_epochs,
            tol=tol,
            patience=patience,
            init=init,
            missing=missing,
            center=center,
            normalize=normalize,
            positive_code=positive_code,
            positive_atoms=positive_atoms,
            code_tol=code_tol,
            record_every=record_every,
            device=device,
            n_threads=n_threads,
            dtype=dtype,
            callbacks=callbacks,
            checkpoint=checkpoint,
            verbose=verbose,
            random_state=random_state,
        )


@describe_parameters
class NMF(MatrixFactorization):
    """Non-negative codes on non-negative atoms, with or without an ℓ1 penalty on codes.

    Atoms are in the ℓ2 ball, which is no restriction without a penalty.

    Parameters
    ----------
    alpha : float or "auto"
        Weight λ of the ℓ1 penalty on codes; 0 is plain NMF. It is on the scale of ‖x‖: with samples
        of unit norm, values from 1 on give empty codes. With ``"auto"`` it is found before the fit,
        on a part of the data, so that codes have the density `code_density`.

    Examples
    --------
    >>> import numpy as np
    >>> from somf import NMF
    >>> X = np.random.default_rng(0).uniform(size=(200, 30))
    >>> model = NMF(10, reduction=2, random_state=0).fit(X)
    >>> bool((model.components_ >= 0).all())
    True
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        alpha: float | Literal["auto"] = 0.0,
        code_density: float = 0.1,
        transform_alpha: float | Literal["auto"] = "auto",
        reduction: float | Literal["auto"] = "auto",
        code_estimator: CodeEstimator = "auto",
        masks: MaskKind = "blocks",
        surrogate: SurrogateKind = "online",
        learning_rate: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        n_epochs: int = 100,
        tol: float = 1e-4,
        patience: int = 3,
        init: InitialAtoms | Array = "auto",
        missing: MissingEntries = "error",
        center: Center = "none",
        normalize: bool = False,
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
        super().__init__(
            n_components,
            alpha=alpha,
            code_density=code_density,
            transform_alpha=transform_alpha,
            l1_ratio=1.0,
            atom_l1_ratio=0.0,
            reduction=reduction,
            code_estimator=code_estimator,
            masks=masks,
            surrogate=surrogate,
            learning_rate=learning_rate,
            batch_size=batch_size,
            n_epochs=n_epochs,
            tol=tol,
            patience=patience,
            init=init,
            missing=missing,
            center=center,
            normalize=normalize,
            positive_code=True,
            positive_atoms=True,
            code_tol=code_tol,
            record_every=record_every,
            device=device,
            n_threads=n_threads,
            dtype=dtype,
            callbacks=callbacks,
            checkpoint=checkpoint,
            verbose=verbose,
            random_state=random_state,
        )
