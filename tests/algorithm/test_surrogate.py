"""B and C against their definitions."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.algorithm.forgetting import PowerLaw
from somf.algorithm.surrogate import Coded, IncrementalSurrogate, OnlineSurrogate
from somf.data import as_source
from somf.distributed import ALONE
from somf.kernels.cpu import kernels as cpu
from somf.training.samples import Samples
from somf.training.start import start


@pytest.fixture
def state(toy):
    config = DictionaryLearning(5, reduction=1)._config()
    return start(config, as_source(toy), Samples.alone(len(toy)), 0, is_finite=True)


def coded(code):
    """Return codes of samples that all count the same."""
    return Coded(code, np.ones(len(code)))


def add(surrogate, X, new, old):
    """Add a minibatch to C and to all rows of B."""
    surrogate.add(X, new, old, X.shape[0])((slice(0, X.shape[1]),))


def random_codes(b, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((b, 5)) * (rng.random((b, 5)) < 0.5)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSC"])
def test_the_online_surrogate_is_the_weighted_average_of_all_minibatches(state, toy, sparse):
    surrogate = OnlineSurrogate(state, cpu, ALONE, PowerLaw(0.9))
    B, C = np.zeros((60, 5)), np.zeros((5, 5))
    for t in range(6):
        X, code = toy[t * 10 : t * 10 + 10], random_codes(10, t)
        w = PowerLaw(0.9).weight(state.n_samples_seen, 10)
        B = (1 - w) * B + w / 10 * X.T @ code
        C = (1 - w) * C + w / 10 * code.T @ code
        add(surrogate, sp.csc_array(X) if sparse else X, coded(code), None)
        state.n_samples_seen += 10
    np.testing.assert_allclose(state.B, B, atol=1e-12)
    np.testing.assert_allclose(state.C, C, atol=1e-12)


def test_the_incremental_surrogate_holds_the_latest_code_of_every_sample(state, toy):
    surrogate = IncrementalSurrogate(state, cpu, ALONE)
    latest = np.zeros((30, 5))
    for t in range(10):
        batch = np.random.default_rng(t).permutation(30)[:12]
        code = random_codes(12, t)
        add(surrogate, toy[batch], coded(code), coded(latest[batch]))
        surrogate.total()
        latest[batch] = code
    np.testing.assert_allclose(state.B, toy[:30].T @ latest, atol=1e-12)
    np.testing.assert_allclose(state.C, latest.T @ latest, atol=1e-12)
    np.testing.assert_array_equal(state.n_users, np.count_nonzero(latest, axis=0))


@pytest.mark.parametrize("n_early", [0, 25, 60])
def test_an_atom_that_all_samples_abandon_leaves_no_rounding_errors(state, toy, n_early):
    surrogate = IncrementalSurrogate(state, cpu, ALONE)
    old = random_codes(20, 0)
    add(surrogate, toy[:20], coded(old), coded(np.zeros_like(old)))
    surrogate.total()
    new = random_codes(20, 1)
    new[:, 2] = 0
    add_to_B = surrogate.add(toy[:20], coded(new), coded(old), 20)
    add_to_B((slice(0, n_early),))
    surrogate.total()
    add_to_B((slice(n_early, 60),))
    np.testing.assert_allclose(state.B, toy[:20].T @ new, atol=1e-12)
    assert not state.B[:, 2].any()
    assert not state.C[2].any()
    assert not state.C[:, 2].any()
    np.testing.assert_allclose(state.C, new.T @ new, atol=1e-12)
