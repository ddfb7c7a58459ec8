"""Callbacks of `fit`: what they are called with, early stopping, and a progress bar."""

from somf.training.callbacks import Callback, EarlyStopping, Progress
from somf.training.progress_bar import progress_bar
from somf.typing import History

__all__ = ["Callback", "EarlyStopping", "History", "Progress", "progress_bar"]
