"""What the named problems choose on their own."""

import numpy as np
import pytest

import somf
from somf import SparsePCA
from somf.errors import ParameterError

PARAMS = {"alpha": 1e-2, "n_epochs": 3, "tol": 0.0, "random_state": 0}


def noise(n_samples):
    return np.random.default_rng(0).standard_normal((n_samples, 60))


@pytest.fixture
def wide():
    return noise(30)


@pytest.mark.parametrize(
    ("n_samples", "params", "expected"),
    [
        (30, {}, "incremental"),
        (60, {}, "incremental"),
        (61, {}, "online"),
        (30, {"reduction": 2}, "online"),  # these codes are averaged
        (30, {"reduction": 1}, "incremental"),
    ],
)
def test_the_surrogate_of_sparse_pca_remembers_codes_that_are_not_larger_than_atoms(
    n_samples, params, expected
):
    X = noise(n_samples)
    params = PARAMS | params
    chosen = SparsePCA(4, **params).fit(X)
    explicit = SparsePCA(4, surrogate=expected, **params).fit(X)
    np.testing.assert_array_equal(chosen.components_, explicit.components_)


def test_a_surrogate_that_was_chosen_stays_when_learning_continues(wide, tmp_path):
    def continued(model):
        return model.partial_fit(wide, sample_ids=np.arange(30)).components_

    model = SparsePCA(4, **PARAMS).fit(wide)
    model.save(tmp_path / "model.somf", state=True)
    explicit = SparsePCA(4, surrogate="incremental", **PARAMS).fit(wide)
    expected = continued(explicit)
    np.testing.assert_array_equal(continued(somf.load(tmp_path / "model.somf")), expected)
    np.testing.assert_array_equal(continued(model), expected)
    with pytest.raises(ParameterError, match="surrogate must stay 'incremental'"):
        model.set_params(surrogate="online").partial_fit(wide)


def test_a_stream_has_an_online_surrogate(wide):
    chosen = SparsePCA(4, **PARAMS).partial_fit(wide).partial_fit(wide)
    explicit = SparsePCA(4, surrogate="online", **PARAMS).partial_fit(wide).partial_fit(wide)
    np.testing.assert_array_equal(chosen.components_, explicit.components_)


def test_a_fit_with_a_chosen_surrogate_resumes_with_the_same_bits(wide, tmp_path):
    def stop(progress):
        if progress.n_samples_seen >= 45:
            raise RuntimeError("stop")

    path = somf.Checkpoint(tmp_path / "fit.ckpt", every_samples=10)
    whole = SparsePCA(4, **PARAMS).fit(wide)
    with pytest.raises(RuntimeError, match="stop"):
        SparsePCA(4, **PARAMS, checkpoint=path, callbacks=[stop]).fit(wide)
    resumed = SparsePCA(4, **PARAMS, checkpoint=path).fit(wide)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
