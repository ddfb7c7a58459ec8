"""Subsampled online matrix factorization."""

import logging
from importlib.metadata import version

from somf.checkpoint import Checkpoint
from somf.data import ImagePatches
from somf.estimators import MatrixFactorization
from somf.problems import NMF, DictionaryLearning, SparsePCA, load

__version__ = version("somf")

logging.getLogger("somf").addHandler(logging.NullHandler())  # who wants to see records says so

__all__ = [
    "NMF",
    "Checkpoint",
    "DictionaryLearning",
    "ImagePatches",
    "MatrixFactorization",
    "SparsePCA",
    "load",
]
