"""Subsampled online matrix factorization.

Names are imported when they are first used, so that the `somf` command can begin, and be
interrupted, before the libraries that it needs are loaded.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from somf import callbacks as callbacks
    from somf import data as data
    from somf import errors as errors
    from somf import inference as inference
    from somf import plotting as plotting
    from somf import report as report
    from somf import scoring as scoring
    from somf.data import ImagePatches
    from somf.estimators.base import MatrixFactorization
    from somf.estimators.loading import load
    from somf.estimators.problems import NMF, DictionaryLearning, SparsePCA
    from somf.training.checkpoint import Checkpoint

    __version__: str

__all__ = [
    "NMF",
    "Checkpoint",
    "DictionaryLearning",
    "ImagePatches",
    "MatrixFactorization",
    "SparsePCA",
    "load",
]

_HOMES = {
    "NMF": "somf.estimators.problems",
    "Checkpoint": "somf.training.checkpoint",
    "DictionaryLearning": "somf.estimators.problems",
    "ImagePatches": "somf.data",
    "MatrixFactorization": "somf.estimators.base",
    "SparsePCA": "somf.estimators.problems",
    "load": "somf.estimators.loading",
}
"""The modules of the public names."""

_MODULES = ("callbacks", "data", "errors", "inference", "plotting", "report", "scoring")
"""Modules that are attributes without being imported by name; they need no optional library."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        found: Any = import_module("importlib.metadata").version("somf")
    elif name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        return import_module(f"somf.{name}")
    else:
        raise AttributeError(
            f"module 'somf' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})
