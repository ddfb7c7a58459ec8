"""Initial atoms by what `init` says, read from any source."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import NMF, DictionaryLearning, MatrixFactorization
from somf.data import Source, as_source
from somf.distributed import ALONE
from somf.errors import ParameterError
from somf.training import start
from somf.training.samples import Samples
from somf.training.start import initial_dictionary

X = np.random.default_rng(0).gamma(0.5, size=(60, 20))


class Counting(Source):
    """Rows in chunks of ten that counts which are read."""

    dtype = X.dtype
    shape = (2000, 20)
    chunk_starts = np.arange(0, 2000, 10)

    def __init__(self):
        self.read_ids = []

    def rows(self, ids):
        self.read_ids.extend(ids)
        return np.random.default_rng(0).random((2000, 20))[ids]


def atoms(model, data=X, seed=0):
    source = as_source(data)
    return initial_dictionary(model._config(), source, Samples.alone(source.shape[0]), seed)


def same(a, b):
    return np.array_equal(atoms(a), atoms(b))


def test_auto_is_samples():
    assert same(NMF(5, alpha=0.1), NMF(5, alpha=0.1, init="samples"))
    assert same(NMF(5, alpha="auto"), NMF(5, init="samples"))
    assert same(DictionaryLearning(5, alpha=0, init="auto"), DictionaryLearning(5))


def test_in_nmf_without_a_penalty_a_trial_chooses_the_initial_atoms():
    general = MatrixFactorization(5, alpha=0, init="auto", positive_code=True, positive_atoms=True)
    for model in (NMF(5), general):
        assert model._config().tries_initial_atoms
    for model in (NMF(5, alpha=0.1), NMF(5, alpha="auto"), NMF(5, init="samples")):
        assert not model._config().tries_initial_atoms


@pytest.mark.parametrize(
    ("objectives", "best"),
    [
        ((1.0, 0.999, 0.998), "random"),
        ((1.0, 0.9, 0.899), "samples"),
        ((1.0, 0.999, 0.9), "nndsvd"),
        ((1.0, 0.9, 0.8), "nndsvd"),
    ],
)
def test_a_fit_goes_on_from_the_trial_that_did_better(monkeypatch, objectives, best):
    answers = iter(objectives)
    monkeypatch.setattr(start, "_trial", lambda config, D, *_: (next(answers), D / 2))
    config = NMF(5)._config().for_samples(*X.shape)
    state = start.start(config, as_source(X), Samples.alone(len(X)), 0, is_finite=True)
    np.testing.assert_array_equal(state.components, atoms(NMF(5, init=best)).T / 2)


def test_the_trial_learns():
    config = NMF(5)._config().for_samples(*X.shape)
    D = atoms(NMF(5, init="samples"))
    before = D.copy()
    after, learned = start._trial(config, D, as_source(X), Samples.alone(len(X)), 0, True, ALONE)
    nothing = np.zeros((1, 20))
    model = NMF(5, init=before.T, n_epochs=1).fit(nothing)
    assert after < 0.95 * model.objective(X)
    model = NMF(5, init=learned.T, n_epochs=1).fit(nothing)
    assert after == pytest.approx(model.objective(X), rel=1e-2)


@pytest.mark.parametrize("data", [X, X[:3], sp.csr_array(X), X.astype(np.float32)])
@pytest.mark.parametrize("k", [5, 40])
def test_atoms_of_nndsvd_are_different_non_negative_and_on_the_border(data, k):
    D = atoms(NMF(k, init="nndsvd"), data)
    assert D.dtype == data.dtype
    assert (D >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(D, axis=0), 1, rtol=1e-5)
    assert np.linalg.matrix_rank(D) == min(k, 20)


def test_nndsvd_reads_a_bounded_part_of_the_data_in_the_order_of_its_chunks(monkeypatch):
    monkeypatch.setattr(start, "SVD_SAMPLES", 50)
    monkeypatch.setattr("somf.data.order.BUFFER_BYTES", 1)  # shuffle as few chunks as possible
    source = Counting()
    atoms(NMF(4, init="nndsvd"), source)
    assert len(source.read_ids) == 50
    assert len(np.unique(np.array(source.read_ids) // 10)) <= 12


def test_nndsvd_needs_no_more_memory_for_long_samples_than_the_atoms_do(monkeypatch):
    monkeypatch.setattr(start, "SVD_ENTRIES", 300)
    source = Counting()
    atoms(NMF(4, init="nndsvd"), source)
    assert len(source.read_ids) == 15
    atoms(NMF(30, init="nndsvd"), source)
    assert len(source.read_ids) == 15 + 30


def test_nndsvd_is_an_error_where_atoms_may_be_negative():
    with pytest.raises(ParameterError, match="init must be 'samples', 'random' or an array"):
        DictionaryLearning(5, init="nndsvd").fit(X)
