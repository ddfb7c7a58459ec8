"""Initial atoms by what `init` says, read from any source."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import NMF, DictionaryLearning
from somf.data import Source, as_source
from somf.errors import ParameterError
from somf.training import initial_dictionary as module
from somf.training.initial_dictionary import initial_dictionary
from somf.training.samples import Samples

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


@pytest.mark.parametrize("data", [X, X[:3], sp.csr_array(X), X.astype(np.float32)])
@pytest.mark.parametrize("k", [5, 40])
def test_atoms_of_nndsvd_are_different_non_negative_and_on_the_border(data, k):
    D = atoms(NMF(k, init="nndsvd"), data)
    assert D.dtype == data.dtype
    assert (D >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(D, axis=0), 1, rtol=1e-5)
    assert np.linalg.matrix_rank(D) == min(k, 20)


def test_nndsvd_reads_a_bounded_part_of_the_data_in_the_order_of_its_chunks(monkeypatch):
    monkeypatch.setattr(module, "SVD_SAMPLES", 50)
    monkeypatch.setattr("somf.data.order.BUFFER_BYTES", 1)  # shuffle as few chunks as possible
    source = Counting()
    atoms(NMF(4, init="nndsvd"), source)
    assert len(source.read_ids) == 50
    assert len(np.unique(np.array(source.read_ids) // 10)) <= 12


def test_nndsvd_needs_no_more_memory_for_long_samples_than_the_atoms_do(monkeypatch):
    monkeypatch.setattr(module, "SVD_ENTRIES", 300)
    source = Counting()
    atoms(NMF(4, init="nndsvd"), source)
    assert len(source.read_ids) == 15
    atoms(NMF(30, init="nndsvd"), source)
    assert len(source.read_ids) == 15 + 30


def test_nndsvd_is_an_error_where_atoms_may_be_negative():
    with pytest.raises(ParameterError, match="init must be 'samples', 'random' or an array"):
        DictionaryLearning(5, init="nndsvd").fit(X)
