"""Models read from files."""

import logging
import os

from somf.estimators.base import MatrixFactorization
from somf.estimators.problems import NMF, DictionaryLearning, SparsePCA
from somf.kernels import is_available
from somf.persistence import modelfile
from somf.training.start import check_state

logger = logging.getLogger("somf")

KINDS: dict[str, type[MatrixFactorization]] = {
    kind.__name__: kind for kind in (MatrixFactorization, DictionaryLearning, SparsePCA, NMF)
}


def load(path: str | os.PathLike[str]) -> MatrixFactorization:
    """Return the estimator that `save` has written, or as far as a checkpoint has come.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator : MatrixFactorization
        Of the class that was saved; on the CPU if the device of the fit is not available.

    Raises
    ------
    ValueError
        If the file is not a model, or is damaged; the message names it.
    """
    model = modelfile.load(path)
    components = model.components
    if model.kind not in KINDS:
        raise ValueError(f"{os.fspath(path)!r} holds a {model.kind!r}, which somf does not know.")
    kind = KINDS[model.kind]
    if unknown := set(model.params) - set(kind._get_param_names()):
        raise ValueError(f"{os.fspath(path)!r} has unknown parameters: {sorted(unknown)}.")
    if model.params.get("device") == "cuda" and not is_available("cuda"):
        logger.info("%s was learned on a GPU; without one here it is loaded for the CPU", path)
        model.params["device"] = "cpu"
    with modelfile.refuse_malformed(path):
        estimator = kind(**model.params)
        estimator.alpha_ = model.alpha
        config = estimator._config().for_features(components.shape[1])
        if config.n_components != len(components):
            raise ValueError("n_components is not the number of its components")
        if model.state is not None:
            check_state(config, model.state, components.shape[1], components.dtype)
    estimator.components_ = components
    estimator.n_features_in_ = components.shape[1]
    if model.feature_names is not None:
        estimator.feature_names_in_ = model.feature_names
    estimator._adopt_geometry(model.patches)
    estimator.n_iter_, estimator.n_samples_seen_ = model.n_iter, model.n_samples_seen
    estimator.history_ = model.history
    if model.state is not None:
        estimator._fitted_config, estimator._state = config, model.state
    return estimator
