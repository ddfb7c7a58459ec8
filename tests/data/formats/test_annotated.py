"""AnnData objects as sources, by a stand-in that has what is used of them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from somf.data import as_source
from somf.data.formats.open import annotated_source
from somf.errors import DataError, ParameterError
from tests.helpers.source_contract import SourceContract, matrix


class AnnData:
    """Cells × genes with names of genes; it is recognised by the name of its class."""

    __module__ = "anndata.elsewhere"

    def __init__(self, X, **layers):
        self.X, self.layers, self.n_vars = X, layers, 7
        self.var = pd.DataFrame({"mean": np.zeros(7)}, index=list("abcdefg"))
        self.var["highly_variable"] = self.mask = np.arange(7) % 2 == 0
        self.var_names = self.var.index


class TestAnnotatedSource(SourceContract):
    def make(self, folder):
        return as_source(AnnData(matrix())), matrix()


class TestAnnotatedSparseSource(SourceContract):
    def make(self, folder):
        adata = AnnData(sp.csr_matrix(matrix()))
        return annotated_source(adata, mask_var=adata.mask), matrix()[:, ::2]


def test_objects_are_recognised_by_their_class_or_a_base_of_it():
    class Derived(AnnData):
        pass

    assert list(as_source(Derived(matrix())).feature_names) == list("abcdefg")
    AnnData.__module__, before = "elsewhere", AnnData.__module__
    try:
        with pytest.raises((TypeError, ValueError)):
            as_source(Derived(matrix()))
    finally:
        AnnData.__module__ = before


@pytest.mark.parametrize("mask", ["highly_variable", np.arange(7) % 2 == 0])
def test_a_mask_chooses_genes_and_their_names(mask):
    source = annotated_source(AnnData(None, counts=matrix()), "counts", mask)
    assert list(source.feature_names) == ["a", "c", "e", "g"]
    np.testing.assert_array_equal(source.rows(np.arange(23)), matrix()[:, ::2])


@pytest.mark.parametrize(
    ("mask", "got"),
    [
        ("absent", "got 'absent'"),
        ("mean", "got float64"),
        (np.ones(7), "got float64"),
        (np.ones(6, bool), "got shape"),
        (np.zeros(7, bool), "choose at least one gene, got none"),
    ],
)
def test_what_is_not_a_mask_is_refused(mask, got):
    with pytest.raises(ParameterError, match=f"mask_var must .*{got}"):
        annotated_source(AnnData(matrix()), mask_var=mask)


def test_a_layer_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ParameterError, match=r"layer must be None or one of \['counts'\], got 'x'"):
        annotated_source(AnnData(matrix(), counts=matrix()), "x")


def test_an_object_without_a_matrix_is_refused_with_its_layers():
    with pytest.raises(DataError, match=r"adata\.X must be a matrix, .* \['counts'\]"):
        as_source(AnnData(None, counts=matrix()))
