"""Fits that end with an error, and whether two fits are the same."""

import numpy as np

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


class TroubledSource(Source):
    """An array whose reads may meet with trouble."""

    def __init__(self, X, trouble, is_in_memory):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        self.trouble, self.is_in_memory = trouble, is_in_memory

    def rows(self, ids):
        self.trouble.call()
        return self.X[ids]


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
