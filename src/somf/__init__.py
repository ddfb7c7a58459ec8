"""Subsampled online matrix factorization."""

from importlib.metadata import version

from somf.data import ImagePatches
from somf.estimators import MatrixFactorization
from somf.problems import NMF, DictionaryLearning, SparsePCA, load

__version__ = version("somf")

__all__ = [
    "NMF",
    "DictionaryLearning",
    "ImagePatches",
    "MatrixFactorization",
    "SparsePCA",
    "load",
]
