"""B and C against their definitions."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.algorithm.surrogate import (
    CHUNK,
    Coded,
    Forgetting,
    IncrementalSurrogate,
    OnlineSurrogate,
)
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


@pytest.mark.parametrize("seen", [40, CHUNK - 10, 3 * CHUNK])
@pytest.mark.parametrize("v", [0.76, 0.92, 0.99])
def test_the_weight_of_a_minibatch_is_that_of_its_samples_one_by_one(v, seen):
    kept = 1.0
    for s in range(seen + 1, seen + 21):
        kept *= 1 - s**-v
    weight = Forgetting(v).weight
    assert weight(seen, 20) == pytest.approx(1 - kept)
    assert weight(0, 3) == 1.0
    parts = (1 - weight(seen, 5)) * (1 - weight(seen + 5, 15))
    assert parts == pytest.approx(1 - weight(seen, 20))


def test_the_second_sample_is_weighted_as_well_if_the_first_came_alone():
    assert Forgetting(0.9).weight(1, 2) == pytest.approx(1 - (1 - 2**-0.9) * (1 - 3**-0.9))


@pytest.mark.parametrize("seen", [0, 40, 95, 10**6])
def test_a_sample_weighs_at_least_one_in_a_window(seen):
    kept = 1.0
    for s in range(seen + 1, seen + 21):
        kept *= 1 - max(s**-0.85, 1 / 50)
    assert Forgetting(0.85, window=50).weight(seen, 20) == pytest.approx(1 - kept)
    assert Forgetting(0.85, window=1.0).weight(seen, 20) == 1.0


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSC"])
def test_the_online_surrogate_is_the_weighted_average_of_all_minibatches(state, toy, sparse):
    surrogate = OnlineSurrogate(state, cpu, ALONE, Forgetting(0.9))
    B, C = np.zeros((60, 5)), np.zeros((5, 5))
    for t in range(6):
        X, code = toy[t * 10 : t * 10 + 10], random_codes(10, t)
        w = Forgetting(0.9).weight(state.n_samples_seen, 10)
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
