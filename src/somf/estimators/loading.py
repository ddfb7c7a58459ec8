"""Models read from files."""

import logging
import os
from dataclasses import replace
from typing import get_args

from somf.algorithm.state_check import check_state
from somf.errors import DamagedFileError
from somf.estimators.base import MatrixFactorization
from somf.estimators.config import Device
from somf.estimators.problems import NMF, DictionaryLearning, SparsePCA
from somf.kernels import is_available
from somf.persistence import modelfile

logger = logging.getLogger("somf")

KINDS: dict[str, type[MatrixFactorization]] = {
    kind.__name__: kind for kind in (MatrixFactorization, DictionaryLearning, SparsePCA, NMF)
}
"""The classes of which a file may hold an estimator."""


WITHOUT_EFFECT = {"SparsePCA": ("code_density",)}
"""Parameters of older versions that never had an effect."""


def load(path: str | os.PathLike[str]) -> MatrixFactorization:
    """Return the estimator that `save` has written, or that a checkpoint has reached.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator : MatrixFactorization
        Of the class that was saved; on the CPU if the device of the fit is not available.

    Raises
    ------
    DamagedFileError
        A ValueError: the file is not a model, or is damaged; the message names it.
    """
    model = modelfile.load(path)
    if model.kind not in KINDS:
        raise DamagedFileError(
            f"{os.fspath(path)!r} holds a {model.kind!r}, which somf does not know."
        )
    kind = KINDS[model.kind]
    for name in WITHOUT_EFFECT.get(model.kind, ()):
        model.params.pop(name, None)
    if unknown := set(model.params) - set(kind._get_param_names()):
        raise DamagedFileError(f"{os.fspath(path)!r} has unknown parameters: {sorted(unknown)}.")
    device = str(model.params.get("device"))
    if device in get_args(Device) and device != "cpu" and not is_available(device):
        logger.info("%s was learned with device=%r, and is loaded for the CPU", path, device)
        model.params["device"] = "cpu"
    with modelfile.refuse_malformed(path):
        # Older versions had no `tol`, and `transform` had the λ of the fit.
        estimator = kind(**({"tol": 0.0, "transform_alpha": model.alpha} | model.params))
        restore(estimator, model)
    return estimator


def restore(estimator: MatrixFactorization, model: modelfile.Model) -> None:
    """Take over what a file holds, for an estimator with the parameters of the file.

    Raises
    ------
    ValueError
        If the parts of the file do not fit together.
    """
    components, state = model.components, model.state
    estimator.alpha_ = model.alpha
    config = estimator._config().for_features(components.shape[1])
    if state is not None:
        config = replace(config, has_weights=len(state.C_by_feature) > 0)
        config = config.with_surrogate(state.remembers)
    if config.n_components != len(components):
        raise ValueError("n_components is not the number of its components")
    if state is not None:
        check_state(config, state, components.shape[1], components.dtype)
        estimator._fitted_config = config
        estimator._state = state
    estimator.components_ = components
    estimator.n_features_in_ = components.shape[1]
    if model.feature_names is not None:
        estimator.feature_names_in_ = model.feature_names
    if model.channels is not None:
        estimator.channels_ = model.channels
    estimator._adopt_geometry(model.patches)
    estimator._adopt_offsets(model.offsets)
    if (model.offsets is not None) != config.is_centred:
        raise ValueError("it has offsets and is not centred, or is centred and has none")
    estimator.n_iter_, estimator.n_samples_seen_ = model.n_iter, model.n_samples_seen
    estimator.history_ = model.history
    if model.provenance is not None:
        estimator.provenance_ = model.provenance
    if model.reconstruction_err is not None:
        estimator.reconstruction_err_ = model.reconstruction_err
    if model.explained_variance_ratio is not None:
        estimator.explained_variance_ratio_ = model.explained_variance_ratio
