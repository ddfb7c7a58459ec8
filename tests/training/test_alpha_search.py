"""λ found from the density of codes that is wanted."""

import logging
import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

import somf
from somf import NMF, DictionaryLearning, ImagePatches, MatrixFactorization, SparsePCA
from somf.data import as_source
from somf.training.density_probes import AtomProbe, CodeProbe
from somf.training.start import hold_out
from tests.helpers.problems import planted, random_csr

AUTO = {"alpha": "auto", "random_state": 0, "n_epochs": 3}


def density(model, X):
    return np.mean(model.transform(X) != 0)


@pytest.fixture(scope="module")
def digits():
    return normalize(load_digits().data)


@pytest.mark.parametrize("target", [0.1, 0.3])
@pytest.mark.parametrize("reduction", [1, 4])
def test_codes_of_digits_are_as_dense_as_requested(digits, target, reduction):
    model = DictionaryLearning(50, code_density=target, reduction=reduction, **AUTO)
    assert density(model.fit(digits), digits) == pytest.approx(target, rel=0.1)


@pytest.mark.parametrize("target", [0.05, 0.1, 0.2])  # the last of which means to code noise
def test_codes_of_planted_data_are_as_dense_as_requested(target):
    X = planted(6000, 100, 30, density=0.1)[0].astype(np.float32)
    model = DictionaryLearning(30, code_density=target, reduction=2, **AUTO).fit(X)
    assert density(model, X) == pytest.approx(target, rel=0.2)


def test_codes_that_are_not_negative_are_as_dense_as_requested(digits):
    model = NMF(30, code_density=0.15, reduction=2, **AUTO).fit(digits)
    assert density(model, digits) == pytest.approx(0.15, rel=0.2)


def test_elastic_net_codes_of_sparse_data_are_as_dense_as_requested():
    X = random_csr(3000, 20, 0.1, seed=1) @ random_csr(20, 400, 0.05)
    model = MatrixFactorization(20, l1_ratio=0.8, code_density=0.1, reduction=1, **AUTO).fit(X)
    # Samples without any entry, of which there are some, have empty codes.
    assert density(model, X) == pytest.approx(0.1, rel=0.25)


def test_what_is_found_is_reported_and_the_parameter_stays(digits, caplog):
    caplog.set_level(logging.INFO, "somf")
    model = DictionaryLearning(20, **AUTO).fit(digits)
    assert model.alpha == "auto"
    assert f"alpha is {model.alpha_:.4g}, found for codes of density 0.1" in caplog.text
    assert clone(model).alpha == "auto"


def test_a_fit_with_the_weight_that_was_found_gives_the_same_atoms(digits):
    model = DictionaryLearning(20, **AUTO).fit(digits)
    same = DictionaryLearning(20, n_epochs=3, alpha=model.alpha_, random_state=0).fit(digits)
    np.testing.assert_array_equal(same.components_, model.components_)
    np.testing.assert_array_equal(same.transform(digits), model.transform(digits))
    assert same.alpha_ == model.alpha_


def test_the_same_seed_finds_the_same_weight(digits):
    found = [DictionaryLearning(20, **AUTO).fit(digits).alpha_ for _ in range(2)]
    assert found[0] == found[1]


def test_held_out_samples_are_not_used(digits):
    spoiled = digits.copy()
    before = DictionaryLearning(20, **AUTO)
    split = hold_out(as_source(digits), 0.5, before._draw_seed())
    spoiled[split.validation_ids] = 1e3
    first, second = (clone(before).fit(X, validation=0.5) for X in (digits, spoiled))
    assert first.alpha_ == second.alpha_


def test_partial_fit_finds_the_weight_on_its_first_samples_and_keeps_it(digits):
    model = DictionaryLearning(20, **AUTO).partial_fit(digits[:500])
    found = model.alpha_
    model.partial_fit(10 * digits[500:])
    assert model.alpha_ == found


def test_the_weight_is_in_the_model_file(digits, tmp_path):
    model = DictionaryLearning(20, code_density=0.2, **AUTO).fit(digits)
    model.save(tmp_path / "model.somf", state=True)
    loaded = somf.load(tmp_path / "model.somf")
    assert (loaded.alpha, loaded.alpha_, loaded.code_density) == ("auto", model.alpha_, 0.2)
    np.testing.assert_array_equal(loaded.transform(digits), model.transform(digits))
    assert loaded.partial_fit(digits).alpha_ == model.alpha_


def test_a_fit_that_resumes_from_a_checkpoint_does_not_search_the_weight_again(
    digits, tmp_path, caplog
):
    params = {"n_components": 20, **AUTO}
    whole = DictionaryLearning(**params).fit(digits)

    def interrupt(progress):
        if progress.n_iter == 40:
            raise KeyboardInterrupt

    model = DictionaryLearning(**params, checkpoint=tmp_path / "checkpoint", callbacks=interrupt)
    model.set_params(checkpoint=somf.Checkpoint(tmp_path / "checkpoint", every_samples=50))
    with pytest.raises(KeyboardInterrupt):
        model.fit(digits)
    assert somf.load(tmp_path / "checkpoint").alpha_ == whole.alpha_
    caplog.clear()
    caplog.set_level(logging.INFO, "somf")
    model.set_params(callbacks=()).fit(digits)
    assert "resuming" in caplog.text
    assert "alpha is" not in caplog.text
    assert model.alpha_ == whole.alpha_
    np.testing.assert_array_equal(model.components_, whole.components_)
    with pytest.raises(ValueError, match=r"code_density: 0\.1 then, 0\.2 now"):
        model.set_params(code_density=0.2).fit(digits)


def test_patches_of_an_image_will_do():
    image = np.random.default_rng(0).random((40, 40)).astype(np.float32)
    image = np.cumsum(np.cumsum(image - 0.5, axis=0), axis=1)
    patches = ImagePatches(image, 6)
    model = DictionaryLearning(16, reduction=2, **AUTO).fit(patches)
    assert density(model, patches) == pytest.approx(0.1, rel=0.25)


def test_a_density_that_cannot_be_is_warned_of(digits):
    model = NMF(30, code_density=0.95, **AUTO)
    with pytest.warns(UserWarning, match=r"code_density=0\.95 is more than"):
        model.fit(digits)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            MatrixFactorization(5, alpha="auto", l1_ratio=0),
            "alpha must be a number where l1_ratio is 0 and atom_density is not given, got 'auto'",
        ),
        (
            MatrixFactorization(5, alpha="auto", atom_density=0.1),
            "atom_density must be None where atom_l1_ratio is 0, got 0.1",
        ),
        (SparsePCA(5, atom_density=0.0), "atom_density must be strictly between 0 and 1"),
        (DictionaryLearning(5, alpha="automatic"), "alpha must be a number or 'auto'"),
        (DictionaryLearning(5, code_density=1.0), "code_density must be strictly between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(digits, model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(digits)


def test_samples_that_are_zero_have_no_density():
    with pytest.raises(ValueError, match="alpha must be a number for samples that"):
        DictionaryLearning(5, **AUTO).fit(np.zeros((100, 10)))


def test_a_density_out_of_reach_is_given_up_before_the_slowest_codes(monkeypatch):
    tried, measure = [], CodeProbe._density

    def recorded(self, G, beta, alpha):
        tried.append(alpha)
        return measure(self, G, beta, alpha)

    monkeypatch.setattr(CodeProbe, "_density", recorded)
    X = np.repeat(np.eye(4), 30, axis=0)
    with pytest.warns(UserWarning, match="more than codes of these samples have"):
        model = DictionaryLearning(8, code_density=0.99, **AUTO).fit(X)
    assert sum(alpha < 2 * model.alpha_ for alpha in tried) <= len(tried) / 3


@pytest.mark.parametrize(("target", "scale"), [(0.1, 1.0), (0.3, 1e-4), (0.8, 1.0)])
def test_atoms_of_sparse_pca_are_as_dense_as_requested_on_any_scale(digits, target, scale):
    X = scale * (digits[:600] - digits[:600].mean(axis=0))
    model = SparsePCA(10, atom_density=target, random_state=0).fit(X)
    assert np.mean(model.components_ != 0) == pytest.approx(target, rel=0.25)


def test_the_defaults_of_sparse_pca_explain_data_on_sparse_atoms(digits):
    X = digits[:600] - digits[:600].mean(axis=0)
    model = SparsePCA(10, random_state=0).fit(X)
    error = np.linalg.norm(X - model.inverse_transform(model.transform(X))) / np.linalg.norm(X)
    singular = np.linalg.svd(X, compute_uv=False)
    best = np.sqrt(np.square(singular[10:]).sum() / np.square(singular).sum())
    assert best < error < 1.3 * best


def test_atoms_that_are_not_negative_are_as_dense_as_requested(digits):
    params = {"l1_ratio": 0, "atom_l1_ratio": 0.7, "positive_atoms": True, "atom_density": 0.2}
    model = MatrixFactorization(10, **params, **AUTO).fit(digits[:600])
    assert np.mean(model.components_ != 0) == pytest.approx(0.2, rel=0.35)


def atoms_of_density(density):
    D = np.zeros((100, 4))
    D[: round(100 * density)] = 1
    return D


def test_alpha_follows_the_density_of_atoms_as_fast_as_two_trials_tell():
    probe = AtomProbe(0.5, 100)
    assert probe.first_alpha == pytest.approx(0.4 / 50)
    assert probe.alpha(atoms_of_density(0.03), 1.0) == pytest.approx(1 / 8)  # a bounded step
    assert probe.alpha(atoms_of_density(0.4), 1 / 8) > 1 / 8 / 2
    slope = math.log(8) / (math.log(0.4 / 0.6) - math.log(0.03 / 0.97))
    assert probe.power == pytest.approx(max(slope, 0.8))
    assert AtomProbe(0.01, 5).target == 0.2  # atoms have at least one entry


def test_a_density_of_atoms_is_reached_when_two_trials_in_a_row_have_it():
    probe = AtomProbe(0.5, 100)
    for density, is_reached in [(0.5, False), (0.6, False), (0.51, False), (0.49, True)]:
        probe.alpha(atoms_of_density(density), 1.0)
        assert probe.is_reached == is_reached
