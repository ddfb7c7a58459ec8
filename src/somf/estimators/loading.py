"""Models read from files."""

import logging
import os
from typing import get_args

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
    if unknown := set(model.params) - set(kind._get_param_names()):
        raise DamagedFileError(f"{os.fspath(path)!r} has unknown parameters: {sorted(unknown)}.")
    device = str(model.params.get("device"))
    if device in get_args(Device) and device != "cpu" and not is_available(device):
        logger.info("%s was learned with device=%r, and is loaded for the CPU", path, device)
        model.params["device"] = "cpu"
    with modelfile.refuse_malformed(path):
        estimator = kind(**({"tol": 0.0} | model.params))  # older versions had none
        estimator._restore(model)
    return estimator
