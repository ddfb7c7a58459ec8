"""Subsampled online matrix factorization."""

from importlib.metadata import version

from somf.checkpoint import Checkpoint
from somf.data import ImagePatches
from somf.estimators import MatrixFactorization
from somf.problems import NMF, DictionaryLearning, SparsePCA, load

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
