"""Rows are what a masker of nilearn makes of images, and images that do not fit are refused."""

import numpy as np
import pytest

pytest.importorskip("nilearn", reason="needs nilearn")

import nibabel
from nilearn.image import resample_to_img
from nilearn.maskers import MultiNiftiMasker
from nilearn.masking import apply_mask

from somf.errors import DataError, MissingFileError, ParameterError, ParameterTypeError
from somf.integrations.nilearn import preparation, runs
from somf.integrations.nilearn.preparation import checked_confounds, fitted_masker, prepare
from somf.integrations.nilearn.runs import open_runs
from tests.helpers.brains import AFFINE, GRID, mask_image, run_image

SETTINGS = {
    "smoothed": {"smoothing_fwhm": 5.0, "standardize": "zscore_sample", "detrend": True},
    "filtered": {"standardize": "psc", "low_pass": 0.1, "high_pass": 0.01, "t_r": 2.0},
    "left alone": {"standardize": None},
}
"""Parameters of maskers."""

N_SCANS = 40
"""Scans of the image; a filter needs more than 33."""


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_rows_are_what_the_masker_makes_of_the_image(settings, monkeypatch):
    monkeypatch.setattr(runs, "SLAB_BYTES", 7 * 4 * np.prod(GRID))  # slabs of 7 scans
    monkeypatch.setattr(preparation, "BLOCK_BYTES", 50 * 8 * N_SCANS)  # blocks of 50 voxels
    (run,) = open_runs(run_image(0, N_SCANS))
    masker = fitted_masker(MultiNiftiMasker(mask_image(), reports=False, **settings), {}, [run])
    confounds = (
        np.random.default_rng(1).standard_normal((N_SCANS, 2)) if len(settings) > 1 else None
    )
    rows = np.zeros((N_SCANS, preparation.voxel_count(masker)), np.float32)
    prepare(masker, run, confounds, rows)
    expected = masker.transform(run.image, None if confounds is None else [confounds])
    np.testing.assert_allclose(rows, expected, atol=1e-3 * np.abs(expected).max())


def test_images_are_resampled_to_the_grid_that_is_asked_for():
    (run,) = open_runs(run_image(0))
    settings = {"target_affine": np.diag([4.0, 4, 4]), "standardize": None}
    masker = fitted_masker(mask_image(), settings, [run])
    rows = np.zeros((20, preparation.voxel_count(masker)), np.float32)
    prepare(masker, run, None, rows)
    resampled = resample_to_img(run.image, masker.mask_img_, force_resample=True, copy_header=True)
    np.testing.assert_allclose(rows, apply_mask(resampled, masker.mask_img_), rtol=1e-4)


def test_an_image_with_another_grid_than_the_mask_is_refused():
    moved = AFFINE + np.eye(4) * [0.5, 0, 0, 0]
    image = run_image(0)
    others = {
        "the affine": nibabel.Nifti1Image(image.get_fdata(dtype="f"), moved),
        r"\(8, 9, 9\) voxels, the mask has \(8, 9, 10\)": image.slicer[:, :, :-1],
    }
    for difference, other in others.items():
        with pytest.raises(DataError, match=rf"'imgs\[1\]' must have the grid .*{difference}"):
            fitted_masker(mask_image(), {}, open_runs([image, other]))
    with pytest.raises(DataError, match=r"'imgs\[1\]' must have the grid of 'imgs\[0\]'"):
        fitted_masker(None, {}, open_runs([image, image.slicer[:, :, :-1]]))


def test_confounds_must_fit_the_runs(tmp_path):
    opened = open_runs([run_image(0), run_image(1)])
    good = np.zeros((20, 2))
    assert checked_confounds(None, opened) == [None, None]
    assert checked_confounds(good, opened[:1])[0] is good
    with pytest.raises(ParameterError, match=r"confounds\[1\] must have a row for every scan"):
        checked_confounds([good, good[:-1]], opened)
    with pytest.raises(ParameterError, match=r"every image \(2\), got 1 entries"):
        checked_confounds([good], opened)
    with pytest.raises(ParameterTypeError, match="confounds must be a list"):
        checked_confounds(good, opened)
    with pytest.raises(MissingFileError, match=r"confounds\[0\] must be a file"):
        checked_confounds([tmp_path / "none.csv", None], opened)


@pytest.mark.parametrize("header", ["", "x,y\n", '"x","y"\n'])
def test_a_table_of_confounds_must_have_a_row_for_every_scan(tmp_path, header):
    run = open_runs(run_image(0, 8))[0]
    for n_rows in (7, 8, 9):
        path = tmp_path / "motion.csv"
        path.write_text(header + "0.5,-1\n" * n_rows)
        if n_rows == 8:
            assert checked_confounds(path, [run]) == [path]
            continue
        message = rf"confounds\[0\] must have a row .* \(8\), got {n_rows} rows in .*motion"
        with pytest.raises(ParameterError, match=message):
            checked_confounds(path, [run])


def test_a_filter_needs_the_time_between_scans():
    run = open_runs(run_image(0, 8))
    with pytest.raises(ParameterError, match="t_r must be the seconds between scans if low_pass"):
        fitted_masker(mask_image(), {"high_pass": 0.01}, run)


def test_confounds_of_high_variance_are_left_to_the_caller():
    masker = MultiNiftiMasker(mask_image(), high_variance_confounds=True, reports=False)
    with pytest.raises(ParameterError, match="high_variance_confounds must be False"):
        fitted_masker(masker, {}, open_runs(run_image(0)))
