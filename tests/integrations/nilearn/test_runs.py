"""Images are opened without being read, and bad ones are refused."""

import gzip
import struct

import numpy as np
import pytest

pytest.importorskip("nilearn", reason="needs nilearn")

import nibabel

from somf.errors import DamagedFileError, DataError, MissingFileError, ParameterTypeError
from somf.integrations.nilearn import runs
from somf.integrations.nilearn.runs import open_runs
from tests.helpers.brains import AFFINE, GRID, run_image


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_slabs_are_the_volumes_of_the_image_with_its_scaling(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "SLAB_BYTES", 3 * 4 * np.prod(GRID))
    image = run_image(0, 8, dtype=np.float32)
    image.set_data_dtype(np.int16)  # nibabel stores a slope and an intercept
    nibabel.save(image, tmp_path / f"run{ending}")
    (run,) = open_runs(tmp_path / f"run{ending}")
    parts = list(run.slabs())
    assert [(scans.start, scans.stop) for scans, _ in parts] == [(0, 3), (3, 6), (6, 8)]
    volumes = np.concatenate([np.asarray(slab.dataobj) for _, slab in parts], axis=3)
    assert volumes.dtype == np.float32
    expected = nibabel.load(tmp_path / f"run{ending}").get_fdata()
    np.testing.assert_allclose(volumes, expected, rtol=1e-6)
    np.testing.assert_allclose(run.mean().get_fdata(), expected.mean(axis=3), rtol=1e-6)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MissingFileError, match=r"imgs\[1\] must be a file, got .*none\.nii"):
        open_runs([run_image(0), tmp_path / "none.nii"])
    with pytest.raises(MissingFileError, match="No file matches"):
        open_runs(str(tmp_path / "*.nii"))


def test_what_is_not_a_list_of_four_dimensional_images_is_refused():
    volume = nibabel.Nifti1Image(np.zeros(GRID, np.float32), AFFINE)
    with pytest.raises(
        DataError, match=r"imgs\[0\]' must be a 4-D image .* got shape \(8, 9, 10\)"
    ):
        open_runs(volume)
    with pytest.raises(DataError, match="at least one image"):
        open_runs([])
    with pytest.raises(ParameterTypeError, match=r"imgs\[0\] must be a 4-D image or a path"):
        open_runs([np.zeros((*GRID, 5))])
    with pytest.raises(ParameterTypeError, match="imgs must be a 4-D image, a path"):
        open_runs(5)
    complex_image = nibabel.Nifti1Image(np.zeros((*GRID, 2), np.complex64), AFFINE)
    with pytest.raises(DataError, match="must hold real numbers, got complex64"):
        open_runs(complex_image)


def test_files_that_are_not_images_are_refused(tmp_path):
    for name, content in {"a.nii": b"x" * 400, "b.nii.gz": b"x" * 400, "c.txt": b"1,2"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DamagedFileError, match=f"{name}' must be a 4-D image that nibabel"):
            open_runs(tmp_path / name)


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_a_header_that_promises_more_than_there_is_takes_no_memory(ending, tmp_path):
    content = bytearray(run_image(0, 4).to_bytes())
    content[40:56] = struct.pack("<8h", 4, 30000, 30000, 30000, 30000, 1, 1, 1)
    packed = gzip.compress(content) if ending == ".nii.gz" else content
    (tmp_path / f"large{ending}").write_bytes(packed)
    with pytest.raises(DamagedFileError, match="too short: its header speaks of"):
        open_runs(tmp_path / f"large{ending}")


def test_a_truncated_file_is_an_error_that_names_it(tmp_path):
    nibabel.save(run_image(0), tmp_path / "whole.nii.gz")
    content = (tmp_path / "whole.nii.gz").read_bytes()
    (tmp_path / "half.nii.gz").write_bytes(content[: len(content) // 2])
    (run,) = open_runs(tmp_path / "half.nii.gz")
    with pytest.raises(DamagedFileError, match=r"half\.nii\.gz' cannot be read to its end"):
        list(run.slabs())


def test_damaged_files_are_refused_or_read_but_never_end_in_another_error(tmp_path):
    rng = np.random.default_rng(0)
    plain = run_image(0, 3).to_bytes()
    for content, ending in ((plain, ".nii"), (gzip.compress(plain), ".nii.gz")):
        for _ in range(60):
            damaged = bytearray(content)
            for place in rng.integers(0, min(400, len(content)), 4):
                damaged[place] = rng.integers(256)
            path = tmp_path / f"damaged{ending}"
            path.write_bytes(damaged)
            try:
                for _, slab in open_runs(path)[0].slabs():
                    assert slab.get_fdata().ndim == 4
            except (DamagedFileError, DataError):
                pass
