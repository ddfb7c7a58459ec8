"""Fits that end with an error, and whether two fits are the same."""

import errno
import os
import signal
import threading

import numpy as np
import pytest

from somf import DictionaryLearning
from somf.data import Source


class StopError(Exception):
    """An error that a test raises on purpose."""


class Trouble:
    """Something that happens at the n-th of all calls of sources and callbacks.

    Parameters
    ----------
    happen : callable
    n : int
        Which call; 0 is none.
    """

    def __init__(self, happen, n=0):
        self.happen, self.n, self.n_calls = happen, n, 0

    def call(self, _=None):
        """Count a call; as a callback, do not end the fit."""
        self.n_calls += 1
        if self.n_calls == self.n:
            self.happen()


def sklearn_clone(model):
    return type(model)(**model.get_params(deep=False))


def assert_same_fit(one, other):
    np.testing.assert_array_equal(one.components_, other.components_)
    arrays = other._state.arrays()
    assert one._state.arrays().keys() == arrays.keys()
    for name, array in one._state.arrays().items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)
        assert array.dtype == arrays[name].dtype
    assert one._state.counters() == other._state.counters()
    assert (one.n_iter_, one.n_samples_seen_) == (other.n_iter_, other.n_samples_seen_)
    assert one.history_.keys() == other.history_.keys()
    for column in one.history_.keys() - {"compute_seconds", "wall_seconds"}:
        assert one.history_[column] == other.history_[column]


def stopping_at(*iterations):
    """Return a callback that raises at each of some iterations, once."""
    left = set(iterations)

    def callback(progress):
        if progress.n_iter in left:
            left.remove(progress.n_iter)
            raise StopError

    return callback


def fit_with_stops(model, X, path, iterations, **options):
    """Fit; begin again, with an estimator that knows nothing, whenever a callback has raised."""
    callbacks = [*model.callbacks, stopping_at(*iterations)]
    for _ in iterations:
        with pytest.raises(StopError):
            sklearn_clone(model).set_params(checkpoint=path, callbacks=callbacks).fit(X, **options)
    return sklearn_clone(model).set_params(checkpoint=path, callbacks=callbacks).fit(X, **options)


def interrupted(toy, path, **params):
    params = {"n_components": 4, "reduction": 2, "random_state": 0, "batch_size": 30} | params
    model = DictionaryLearning(**params, checkpoint=path, callbacks=[stopping_at(4)])
    with pytest.raises(StopError):
        model.fit(toy)
    return params | {"checkpoint": path}


class StuckSource(Source):
    """A source that gives a few minibatches and then nothing, like a disk that has gone away."""

    def __init__(self, X, n_calls):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        self.left, self.missed, self.back = n_calls, threading.Event(), threading.Event()

    def rows(self, ids):
        self.left -= 1
        if self.left < 0:
            self.missed.wait(10)
            os.kill(os.getpid(), signal.SIGINT)
            self.back.wait()
        return self.X[ids]


def full_disk(*_):
    """Replace a function of the system that writes, on a disk without space."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
