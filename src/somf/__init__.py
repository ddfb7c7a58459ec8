"""Subsampled online matrix factorization."""

from importlib.metadata import version

from somf.data import ImagePatches
from somf.estimators.base import MatrixFactorization
from somf.estimators.loading import load
from somf.estimators.problems import NMF, DictionaryLearning, SparsePCA
from somf.training.checkpoint import Checkpoint

__version__ = version("somf")

__all__ = [
    "NMF",
    "Checkpoint",
    "DictionaryLearning",
    "ImagePatches",
    "MatrixFactorization",
    "SparsePCA",
    "load",
]
