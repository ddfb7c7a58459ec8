"""What docs/moving.md says about the penalties of others holds: the same codes come out."""

import warnings

import numpy as np
import pytest
from sklearn.decomposition import MiniBatchSparsePCA, non_negative_factorization, sparse_encode
from sklearn.linear_model import ElasticNet

from somf import NMF, DictionaryLearning, MatrixFactorization, SparsePCA

CLOSE = {"rtol": 0, "atol": 1e-7}


@pytest.fixture(autouse=True)
def tight_codes(monkeypatch):
    """Solve codes to rounding, where `transform` is content with a duality gap of 1e-6."""
    monkeypatch.setattr("somf.estimators.application.CODE_TOL", 1e-15)


@pytest.fixture(scope="module", name="X")
def samples(toy):
    return toy[:100]


@pytest.mark.parametrize("positive", [False, True])
def test_alpha_of_scikit_learns_dictionary_learning_is_ours(X, positive):
    model = DictionaryLearning(10, alpha=0.1, positive_code=positive, random_state=0).fit(X)
    theirs = sparse_encode(
        X, model.components_, algorithm="lasso_cd", alpha=0.1, positive=positive, max_iter=100_000
    )
    assert 0.1 < np.mean(theirs != 0) < 0.9
    # Codes of scikit-learn 1.6 are less precise.
    np.testing.assert_allclose(model.transform(X), theirs, rtol=0, atol=5e-4)


def test_ridge_alpha_of_scikit_learns_sparse_pca_is_twice_our_transform_alpha(X):
    model = SparsePCA(10, alpha=0.05, transform_alpha=0.02, random_state=0).fit(X)
    peer = MiniBatchSparsePCA(10, ridge_alpha=2 * 0.02)
    peer.components_, peer.mean_ = model.components_, np.zeros(X.shape[1])
    np.testing.assert_allclose(model.transform(X), peer.transform(X), **CLOSE)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_penalty_of_scikit_learns_nmf_has_the_number_of_features_and_half_a_square(X, ratio):
    X, alpha_W = np.abs(X), 0.001
    model = MatrixFactorization(
        10, alpha=alpha_W * X.shape[1] * (1 + ratio) / 2, l1_ratio=2 * ratio / (1 + ratio),
        positive_code=True, positive_atoms=True, random_state=0,
    ).fit(X)  # fmt: skip
    theirs, _, _ = non_negative_factorization(
        X, H=model.components_, n_components=10, update_H=False, alpha_W=alpha_W, alpha_H=0,
        l1_ratio=ratio, tol=1e-12, max_iter=100_000,
    )  # fmt: skip
    np.testing.assert_allclose(model.transform(X), theirs, **CLOSE)


def test_nmf_without_a_penalty_is_the_same_everywhere(X):
    X = np.abs(X)
    model = NMF(10, alpha=0, random_state=0).fit(X)
    theirs, _, _ = non_negative_factorization(
        X, H=model.components_, n_components=10, update_H=False, tol=1e-12, max_iter=100_000,
    )  # fmt: skip
    np.testing.assert_allclose(model.transform(X), theirs, **CLOSE)


def test_elastic_net_of_modl_has_half_a_square(X):
    code_alpha, ratio = 0.1, 0.7
    model = MatrixFactorization(
        10, alpha=code_alpha * (1 + ratio) / 2, l1_ratio=2 * ratio / (1 + ratio), random_state=0
    ).fit(X)
    # modl minimises what scikit-learn's elastic net does, but for a factor 1 / p in the latter.
    peer = ElasticNet(
        code_alpha / X.shape[1], l1_ratio=ratio, fit_intercept=False, tol=1e-12, max_iter=100_000
    ).fit(model.components_.T, X.T)
    np.testing.assert_allclose(model.transform(X), peer.coef_, **CLOSE)


@pytest.fixture
def spams():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("spams", reason="spams is not installed (somf[bench] has it)")


@pytest.mark.parametrize(("lambda1", "lambda2"), [(0.1, 0.0), (0.1, 0.2)])
@pytest.mark.parametrize("positive", [False, True])
def test_lambda1_of_spams_is_ours_and_lambda2_has_half_a_square(
    X, spams, lambda1, lambda2, positive
):
    alpha = lambda1 + lambda2 / 2
    model = MatrixFactorization(
        10, alpha=alpha, l1_ratio=lambda1 / alpha, positive_code=positive, random_state=0
    ).fit(X)
    theirs = spams.lasso(
        np.asfortranarray(X.T), np.asfortranarray(model.components_.T), mode=2, pos=positive,
        lambda1=lambda1, lambda2=lambda2,
    ).toarray().T  # fmt: skip
    np.testing.assert_allclose(model.transform(X), theirs, **CLOSE)


def test_gamma1_of_spams_is_the_l1_ratio_of_atoms(X, spams):
    atoms = spams.trainDL(
        np.asfortranarray(X.T), K=10, lambda1=0.1, modeD=3, gamma1=0.3, iter=50, verbose=False,
        numThreads=1,
    ).T  # fmt: skip
    norms = 0.3 * np.abs(atoms).sum(axis=1) + 0.7 * (atoms**2).sum(axis=1)
    np.testing.assert_allclose(norms.max(), 1, rtol=1e-6)
