"""CSR matrices as sources."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.data import CsrSource, as_source
from somf.errors import DataError
from tests.helpers.source_contract import SourceContract, matrix


class TestCsrSource(SourceContract):
    def make(self, folder):
        return CsrSource(sp.csr_array(matrix())), matrix()


@pytest.mark.parametrize("kind", ["csc", "coo", "lil", "dok"])
def test_other_sparse_formats_become_csr(kind):
    source = as_source(sp.coo_array(matrix()).asformat(kind))
    np.testing.assert_array_equal(source.rows(np.arange(23)).toarray(), matrix())


CSR = sp.csr_array(matrix())


def csr_with(**changes):
    """Return a CSR matrix with other index arrays, which SciPy does not check."""
    X = CSR.copy()
    for name, value in changes.items():
        setattr(X, name, value)
    return X


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": CSR.indices - 1},
        {"indices": CSR.indices + 1},
        {"indices": np.full_like(CSR.indices, 2**30)},
        {"indptr": CSR.indptr[::-1].copy()},
        {"indptr": CSR.indptr * 1000},
        {"indptr": CSR.indptr - 1},
    ],
    ids=["negative", "too large", "far too large", "backwards", "past the end", "before"],
)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix])
def test_indices_outside_of_a_sparse_matrix_are_refused(changes, kind):
    broken = csr_with(**changes)
    X = kind(CSR.T if "csc" in kind.__name__ else CSR)
    X.indices, X.indptr = broken.indices, broken.indptr
    model = DictionaryLearning(3, init="random").fit(matrix())
    for use in (DictionaryLearning(3).fit, model.transform, model.score, CsrSource):
        if use is not CsrSource or "csr" in kind.__name__:
            with pytest.raises(DataError, match=r"X must be a valid CS[RC] matrix"):
                use(X)
