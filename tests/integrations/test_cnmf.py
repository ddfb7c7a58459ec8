"""The pipeline of cNMF on the counts that ship with scanpy."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf.errors import ParameterError

scanpy = pytest.importorskip("scanpy", reason="needs scanpy, which cnmf installs")
original = pytest.importorskip("cnmf", reason="needs cnmf: pip install 'somf[cnmf]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of scanpy and cnmf


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """Write the counts of 765 genes in 700 blood cells to a file."""
    adata = scanpy.datasets.pbmc68k_reduced().raw.to_adata()
    # It has logarithms of 1 + counts per depth; the least entry of a cell is one count.
    scaled = np.expm1(adata.X.toarray().astype(np.float64))
    least = np.where(scaled > 0, scaled, np.inf).min(axis=1)
    cells = scanpy.AnnData(sp.csr_matrix(np.round(scaled / least[:, None])), var=adata.var[[]])
    cells.obs_names = adata.obs_names
    path = tmp_path_factory.mktemp("counts") / "counts.h5ad"
    cells.write_h5ad(path)
    return path


def pipeline(kind, folder, counts, **options):
    """Run everything up to the consensus of three programs in four runs."""
    run = kind(output_dir=str(folder), name="blood")
    run.prepare(str(counts), components=[3], n_iter=4, seed=0, num_highvar_genes=200, **options)
    run.factorize()
    run.combine()
    run.k_selection_plot(close_fig=True)
    run.consensus(k=3, density_threshold=2.0, show_clustering=True, close_clustergram_fig=True)
    return run


def statistics(run):
    return original.load_df_from_npz(run.paths["k_selection_stats"]).iloc[0]


@pytest.fixture(scope="module")
def ours(tmp_path_factory, counts):
    from somf.integrations.cnmf import cNMF

    return pipeline(cNMF, tmp_path_factory.mktemp("ours"), counts)


def test_the_consensus_is_as_good_as_that_of_scikit_learn(tmp_path, counts, ours):
    theirs = statistics(pipeline(original.cNMF, tmp_path, counts))
    mine = statistics(ours)
    assert mine["prediction_error"] <= theirs["prediction_error"] * (1 + 1e-3)
    assert mine["silhouette"] >= theirs["silhouette"] - 0.05


def test_results_are_in_the_files_of_cnmf(ours):
    usage, scores, tpm, top_genes = ours.load_results(K=3, density_threshold=2.0)
    assert usage.shape == (700, 3)
    assert scores.shape == tpm.shape == (765, 3)
    np.testing.assert_allclose(usage.sum(axis=1), 1)
    assert len(top_genes.columns) == 3


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("beta_loss", {"beta_loss": "kullback-leibler"}),
        ("alpha_usage", {"alpha_usage": 0.1}),
        ("alpha_spectra", {"alpha_spectra": 0.1}),
    ],
)
def test_other_problems_than_plain_nmf_are_refused(tmp_path, counts, name, option):
    from somf.integrations.cnmf import cNMF

    with pytest.raises(ParameterError, match=f"{name} must be .* Use cNMF of the package cnmf"):
        pipeline(cNMF, tmp_path, counts, **option)
