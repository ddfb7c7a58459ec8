"""Callbacks of `fit`: what they are called with, early stopping, and a progress bar."""

from somf.training.callbacks import Callback, EarlyStopping, History, Progress, progress_bar

__all__ = ["Callback", "EarlyStopping", "History", "Progress", "progress_bar"]
