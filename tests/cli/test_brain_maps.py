"""Sparse maps of a real functional run, from the NIfTI file to time series and a report."""

import os
import shutil

import numpy as np
import pytest

import somf

pytest.importorskip("nibabel", reason="NIfTI comes with the extra 'nifti'")


@pytest.fixture
def run():
    """Copy the small run that nibabel ships: 20 volumes of 1,071 voxels."""
    from nibabel.testing import data_path

    name = os.path.join(data_path, "functional.nii")
    if not os.path.exists(name):
        pytest.skip("this build of nibabel has no test data")
    shutil.copy(name, "run.nii")
    return "run.nii"


def test_a_run_becomes_sparse_maps_time_series_and_a_page(somf_command, run):
    options = "--problem sparse-pca --components 4 --atom-density 0.2 --center-features --seed 0"
    somf_command(f"fit {run} {options} -o maps.somf")
    maps = somf.load("maps.somf").components_
    assert maps.shape == (4, 1071)
    assert np.mean(maps != 0) == pytest.approx(0.2, rel=0.3)
    facts = somf_command.json(f"score maps.somf {run}")
    assert facts["samples"] == 20
    assert 0.2 < facts["explained_variance"] < 1
    somf_command(f"transform maps.somf {run} -o series.npy")
    series = np.load("series.npy")
    assert series.shape == (20, 4)
    volumes = somf.data.open_source(run).rows(np.arange(20))
    left = volumes - somf.load("maps.somf").inverse_transform(series)
    spread = volumes - volumes.mean(axis=0)
    explained = 1 - np.sum((left - left.mean(axis=0)) ** 2) / np.sum(spread**2)
    assert explained == pytest.approx(facts["explained_variance"], abs=1e-3)
    somf_command(f"report maps.somf {run} -o report.html")
    with open("report.html", encoding="utf-8") as page:
        assert "explained variance" in page.read()
