"""NMF of AnnData objects."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from somf import NMF
from somf.data import as_source
from somf.errors import DataError, ParameterError
from somf.integrations.anndata import cells, nmf
from tests.helpers.source_contract import SourceContract, matrix

anndata = pytest.importorskip("anndata", reason="needs anndata: pip install 'somf[anndata]'")

PAGE = Path(__file__).parents[2] / "docs" / "single_cell.md"
"""The page about single cells; its last example is about cNMF."""

N_CELLS, N_GENES = 60, 12
QUICK = {"n_epochs": 2, "tol": 0.0, "n_threads": 1}


def counts():
    rng = np.random.default_rng(0)
    usage = rng.gamma(0.5, 2.0, (N_CELLS, 3))
    return rng.poisson(usage @ rng.gamma(0.5, 2.0, (3, N_GENES))).astype(np.float32)


def annotated(X=None):
    adata = anndata.AnnData(counts() if X is None else X)
    adata.var_names = [f"gene {i}" for i in range(adata.n_vars)]
    adata.var["highly_variable"] = np.arange(adata.n_vars) % 3 > 0
    return adata


def test_an_estimator_takes_an_object_and_learns_the_names_of_genes():
    adata = annotated()
    model = NMF(3, random_state=0, **QUICK).fit(adata)
    expected = NMF(3, random_state=0, **QUICK).fit(counts())
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.transform(adata), expected.transform(counts()))
    assert list(model.feature_names_in_) == list(adata.var_names)


def test_views_are_the_cells_and_genes_that_they_show():
    adata = annotated(sp.csr_matrix(counts()))
    source = as_source(adata[::2, adata.var["highly_variable"].to_numpy()])
    rows = source.rows(np.arange(source.shape[0])).toarray()
    np.testing.assert_array_equal(rows, counts()[::2][:, np.arange(N_GENES) % 3 > 0])


def written(folder, X, layer=None):
    adata = annotated(matrix() if layer is not None else X)
    if layer is not None:
        adata.layers[layer] = X
    adata.write_h5ad(folder / "cells.h5ad")
    return anndata.read_h5ad(folder / "cells.h5ad", backed="r")


class TestBackedDense(SourceContract):
    def make(self, folder):
        return as_source(written(folder, matrix())), matrix()


class TestBackedCsr(SourceContract):
    def make(self, folder):
        return as_source(written(folder, sp.csr_matrix(matrix()))), matrix()


class TestBackedGenes(SourceContract):
    def make(self, folder):
        adata = written(folder, sp.csr_matrix(matrix()))
        return cells(adata, mask_var="highly_variable"), matrix()[:, np.arange(7) % 3 > 0]


class TestSparseZarr(SourceContract):
    def make(self, folder):
        zarr = pytest.importorskip("zarr", reason="zarr comes with the extra 'zarr'")
        adata = annotated(sp.csr_matrix(matrix()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of anndata about formats of Zarr
            adata.write_zarr(path := folder.resolve() / "cells.zarr")
        group = zarr.open_group(str(path), mode="r")
        adata.X = anndata.io.sparse_dataset(group["X"])
        return as_source(adata), matrix()


def test_columns_that_are_compressed_in_a_file_are_converted(tmp_path):
    source = as_source(written(tmp_path, sp.csc_matrix(matrix())))
    assert source.is_sparse
    np.testing.assert_array_equal(source.rows(np.arange(23)).toarray(), matrix())


def test_codes_atoms_and_results_are_stored_where_scanpy_stores_those_of_pca():
    adata = annotated(sp.csr_matrix(counts()))
    assert nmf(adata, 3, **QUICK) is None
    assert adata.obsm["X_nmf"].shape == (N_CELLS, 3)
    assert adata.varm["nmf"].shape == (N_GENES, 3)
    assert adata.obsm["X_nmf"].dtype == adata.varm["nmf"].dtype == np.float32
    residual = counts() - adata.obsm["X_nmf"] @ adata.varm["nmf"].T
    found = adata.uns["nmf"]
    assert found["objective"] == pytest.approx(0.5 * (residual**2).sum() / N_CELLS, rel=1e-4)
    relative = np.linalg.norm(residual) / np.linalg.norm(counts())
    assert found["relative_error"] == pytest.approx(relative, rel=1e-4)
    assert found["params"] == {"n_components": 3, "alpha": 0.0, "random_state": 0}


def test_genes_outside_of_the_mask_have_zeros():
    adata = annotated()
    adata.layers["counts"], adata.X = adata.X, np.full_like(adata.X, np.nan)
    nmf(adata, 3, layer="counts", mask_var="highly_variable", key_added="programs", **QUICK)
    is_used = adata.var["highly_variable"].to_numpy()
    atoms = adata.varm["programs"]
    assert not atoms[~is_used].any()
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1, rtol=1e-5)
    assert adata.uns["programs"]["params"]["mask_var"] == "highly_variable"
    assert adata.uns["programs"]["params"]["layer"] == "counts"
    assert "X_programs" in adata.obsm


def test_a_copy_leaves_the_object_as_it_is():
    adata = annotated()
    result = nmf(adata, 3, copy=True, **QUICK)
    assert "X_nmf" in result.obsm
    assert not adata.obsm
    assert not adata.uns


def test_results_can_be_written_and_read(tmp_path):
    adata = written(tmp_path, sp.csr_matrix(counts()))
    nmf(adata, 3, mask_var=np.arange(N_GENES) < 8, random_state=np.random.RandomState(0), **QUICK)
    adata.to_memory().write_h5ad(tmp_path / "result.h5ad")
    again = anndata.read_h5ad(tmp_path / "result.h5ad")
    np.testing.assert_array_equal(again.varm["nmf"], adata.varm["nmf"])
    assert again.uns["nmf"]["params"]["mask_var"] == "given as an array"


def test_what_is_not_an_object_or_a_name_is_refused():
    with pytest.raises(ParameterError, match="adata must be an AnnData object, got <class"):
        nmf(counts(), 3)
    with pytest.raises(ParameterError, match="key_added must be a name, got ''"):
        nmf(annotated(), 3, key_added="")


@pytest.mark.filterwarnings("ignore")  # those of scanpy
def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    pytest.importorskip("scanpy", reason="needs scanpy, which has the cells of the page")
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[:3]:
        exec(block, names)
    assert names["usages"].shape == (700, 8)
    assert names["model"].components_.shape == (8, 300)
    assert names["backed"].obsm["X_nmf"].shape == (700, 8)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
def test_centred_numbers_are_refused(convert):
    centred = convert(counts() - counts().mean(axis=0))
    with pytest.raises(DataError, match=r"X must not be negative, got -.* do not centre"):
        nmf(annotated(centred), 3)


def test_a_result_that_cannot_be_stored_is_refused_before_the_fit(tmp_path):
    backed = written(tmp_path, sp.csr_matrix(counts()))
    with pytest.raises(ParameterError, match=r"adata must not be a view .*to_memory"):
        nmf(backed[:30], 3)
    with pytest.raises(ParameterError, match="copy must be False for an object in a file"):
        nmf(backed, 3, copy=True)
    assert NMF(3, random_state=0, **QUICK).fit(backed[:30]).components_.shape == (3, N_GENES)
