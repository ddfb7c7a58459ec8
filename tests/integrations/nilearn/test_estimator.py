"""`BrainFactorization` on small simulated images."""

import numpy as np
import pytest

pytest.importorskip("nilearn", reason="needs nilearn")

import nibabel
import pandas as pd
from nilearn.maskers import MultiNiftiMasker, NiftiMasker
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from somf.errors import DataError, MissingFileError, ParameterError
from somf.integrations.nilearn import BrainFactorization
from tests.helpers.brains import AFFINE, GRID, mask_image, run_image, true_maps

LENGTHS = (20, 25, 15)
"""Scans of the three runs."""


@pytest.fixture(scope="module")
def runs():
    return [run_image(seed, n_scans) for seed, n_scans in enumerate(LENGTHS)]


def maps_of(**parameters):
    """Return an estimator for small images."""
    settings = {"mask": mask_image(), "smoothing_fwhm": None, "alpha": 0.01, "n_epochs": 20}
    return BrainFactorization(3, random_state=0, **(settings | parameters))


@pytest.fixture(scope="module")
def fitted(runs):
    return maps_of().fit(runs)


def test_maps_are_those_that_the_runs_are_made_of(fitted):
    inside = mask_image().get_fdata().astype(bool)
    truth = true_maps()[:, inside]
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    assert (np.abs(truth @ fitted.components_.T).max(axis=1) > 0.95).all()
    assert 0.05 < (fitted.components_ != 0).mean() < 0.6


def test_maps_are_an_image_with_the_grid_of_the_mask(fitted):
    image = fitted.components_img_
    assert image.shape == (*GRID, 3)
    np.testing.assert_array_equal(image.affine, AFFINE)
    inside = np.asarray(fitted.mask_img_.dataobj, bool)
    np.testing.assert_array_equal(image.get_fdata()[inside].T, fitted.components_)
    assert not image.get_fdata()[~inside].any()


def test_maps_have_unit_norm_mostly_positive_voxels_and_an_order(fitted):
    np.testing.assert_allclose(np.linalg.norm(fitted.components_, axis=1), 1, rtol=1e-5)
    assert ((fitted.components_ > 0).sum(1) >= (fitted.components_ < 0).sum(1)).all()
    assert (np.diff(fitted.explained_variance_ratio_) <= 0).all()
    assert fitted.components_.dtype == np.float32


def test_time_series_are_the_least_squares_coefficients_of_cleaned_scans(fitted, runs):
    series = fitted.transform(runs)
    assert [len(part) for part in series] == list(LENGTHS)
    rows = fitted.masker_.transform(runs[1])
    expected = np.linalg.lstsq(fitted.components_.T, rows.T, rcond=None)[0].T
    np.testing.assert_allclose(series[1], expected, atol=1e-3)


def test_a_score_is_the_variance_that_time_series_and_maps_explain(fitted, runs):
    rows = np.concatenate([fitted.masker_.transform(run) for run in runs])
    back = np.concatenate([s @ fitted.components_ for s in fitted.transform(runs)])
    expected = 1 - ((rows - back) ** 2).sum() / (rows**2).sum()
    assert fitted.score(runs) == pytest.approx(expected, abs=1e-4)
    alone = fitted.score(runs, per_component=True)
    np.testing.assert_allclose(alone, fitted.explained_variance_ratio_, rtol=1e-5)
    assert alone.max() <= fitted.score(runs) <= 1


def test_images_of_time_series_are_sums_of_maps(fitted, runs):
    series = fitted.transform(runs[0])
    (image,) = fitted.inverse_transform(series)
    assert image.shape == runs[0].shape
    rows = image.get_fdata()[np.asarray(fitted.mask_img_.dataobj, bool)].T
    np.testing.assert_allclose(rows, series[0] @ fitted.components_, atol=1e-5)
    (again,) = fitted.inverse_transform(series[0])
    np.testing.assert_array_equal(again.get_fdata(), image.get_fdata())


def test_paths_of_any_kind_give_the_maps_of_the_images(fitted, runs, tmp_path):
    paths = [tmp_path / "run-0.nii", str(tmp_path / "run-1.nii.gz"), tmp_path / "run-2.nii.gz"]
    for run, path in zip(runs, paths, strict=True):
        nibabel.save(run, path)
    for given in (paths, str(tmp_path / "run-*.nii*")):
        found = maps_of().fit(given)
        np.testing.assert_array_equal(found.components_, fitted.components_)


def test_a_mask_is_computed_from_all_runs_as_nilearn_does(runs):
    bright = [
        nibabel.Nifti1Image(r.get_fdata() * mask_image().get_fdata()[..., None], AFFINE)
        for r in runs
    ]
    settings = {"mask_strategy": "background", "mask_args": {"opening": False}}
    found = maps_of(mask=None, **settings).fit(bright)
    expected = MultiNiftiMasker(**settings, reports=False).fit(bright)
    np.testing.assert_array_equal(found.mask_img_.get_fdata(), expected.mask_img_.get_fdata())
    assert isinstance(found.masker_, MultiNiftiMasker)


@pytest.mark.parametrize("is_fitted", [False, True])
def test_a_masker_brings_its_own_settings(fitted, runs, is_fitted):
    masker = NiftiMasker(mask_image(), standardize="zscore_sample", detrend=True, reports=False)
    own = {"mask": masker.fit() if is_fitted else masker, "smoothing_fwhm": 4}
    found = maps_of(**own).fit(runs)
    np.testing.assert_array_equal(found.components_, fitted.components_)
    with pytest.raises(ParameterError, match="smoothing_fwhm must be left at its default"):
        maps_of(mask=masker, smoothing_fwhm=6).fit(runs)


def test_confounds_are_removed_before_maps_are_learned(runs, tmp_path):
    rng = np.random.default_rng(5)
    confounds = [rng.standard_normal((n, 2)) for n in LENGTHS]
    spoilt = [
        nibabel.Nifti1Image(run.get_fdata(dtype=np.float32) + 20 * own[:, 0].astype("f"), AFFINE)
        for run, own in zip(runs, confounds, strict=True)
    ]
    pd.DataFrame(confounds[2], columns=["x", "y"]).to_csv(tmp_path / "confounds.csv", index=False)
    given = [confounds[0], pd.DataFrame(confounds[1]), str(tmp_path / "confounds.csv")]
    clean = maps_of().fit(runs, confounds=confounds)
    found = maps_of().fit(spoilt, confounds=given)
    np.testing.assert_allclose(found.components_, clean.components_, atol=0.02)
    np.testing.assert_allclose(
        found.score(spoilt, confounds=given), clean.score(runs, confounds=confounds), atol=1e-3
    )
    assert maps_of().fit(spoilt).score(spoilt) > 0.99  # the confound is all there is to see


def test_initial_maps_may_be_given_as_an_image(runs):
    image = nibabel.Nifti1Image(np.moveaxis(true_maps(), 0, -1).astype("f"), AFFINE)
    found = maps_of(dict_init=image, n_epochs=1).fit(runs)
    np.testing.assert_array_equal(found.model_.init != 0, found.model_.init > 0)
    assert (np.abs(found.components_ @ found.model_.init.T).max(axis=0) > 0).all()
    with pytest.raises(ParameterError, match="dict_init must be a 4-D image of n_components"):
        clone(found).set_params(n_components=4).fit(runs)


def test_fitting_changes_no_parameter_and_is_repeatable(runs):
    model = maps_of(alpha="auto", standardize=True, n_epochs=2)
    before = dict(vars(model))
    first = model.fit_transform(runs)
    assert {name: getattr(model, name) for name in before} == before
    again = clone(model).fit_transform(runs)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_fit_resumes_from_a_checkpoint_although_scratch_files_are_gone(runs, tmp_path):
    def interrupted(progress):
        if progress.n_samples_seen > 100:
            raise KeyboardInterrupt

    whole = maps_of(n_epochs=4, tol=0).fit(runs)
    settings = {"n_epochs": 4, "tol": 0, "checkpoint": str(tmp_path / "maps.checkpoint")}
    with pytest.raises(KeyboardInterrupt):
        maps_of(**settings, callbacks=[interrupted]).fit(runs)
    resumed = maps_of(**settings).fit(runs)
    np.testing.assert_array_equal(resumed.components_, whole.components_)


def test_an_estimator_that_is_not_fitted_says_so(runs):
    for method in ("transform", "score", "inverse_transform"):
        with pytest.raises(NotFittedError):
            getattr(maps_of(), method)(runs)


def test_bad_parameters_are_refused_before_images_are_read(runs):
    for name, value in {"n_components": 0, "n_epochs": 0, "alpha": -1.0, "device": "tpu"}.items():
        with pytest.raises(ParameterError, match=name):
            maps_of().set_params(**{name: value}).fit("missing.nii")


@pytest.mark.filterwarnings("ignore:Computed an empty mask")
def test_an_empty_mask_is_an_error(runs):
    empty = nibabel.Nifti1Image(np.zeros(GRID, np.uint8), AFFINE)
    with pytest.raises(DataError, match="mask must have at least one voxel"):
        maps_of(mask=empty).fit(runs)


def test_a_missing_mask_is_an_error(runs):
    with pytest.raises(MissingFileError, match=r"mask must be a file, got 'nowhere\.nii'"):
        maps_of(mask="nowhere.nii").fit(runs)
    with pytest.raises(ParameterError, match="mask must be an image, a path, a NiftiMasker"):
        maps_of(mask=np.ones(GRID)).fit(runs)


def test_time_series_of_another_number_of_maps_are_refused(fitted):
    with pytest.raises(ParameterError, match=r"loadings must be arrays of shape \(n_scans, 3\)"):
        fitted.inverse_transform([np.zeros((5, 4))])
