"""Brain images in NIfTI, good and damaged ones."""

import gzip

import numpy as np
import pytest

from somf.data import as_source, open_source
from somf.errors import DamagedFileError
from tests.helpers.files import fails, is_refused
from tests.helpers.mutants import damaged
from tests.helpers.source_contract import SourceContract

nibabel = pytest.importorskip("nibabel", reason="NIfTI needs somf[nifti]")

IMAGE = np.random.default_rng(0).standard_normal((2, 3, 2, 23)).astype(np.float32)
ROWS = IMAGE.reshape(12, 23, order="F").T


def write_nifti(path, image=IMAGE, second=False, **scaling):
    """Write an image; return its path."""
    kind = nibabel.Nifti2Image if second else nibabel.Nifti1Image
    file = kind(image, np.eye(4))
    if scaling:
        file.header.set_slope_inter(scaling["slope"], scaling["inter"])
    nibabel.save(file, path)
    return path


class TestNiftiImage(SourceContract):
    def make(self, folder):
        source = as_source(write_nifti(folder / "X.nii"))
        assert isinstance(source.X, np.memmap)
        return source, ROWS


class TestCompressedNiftiImage(SourceContract):
    @pytest.fixture(autouse=True)
    def small_memory(self, monkeypatch):
        monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 100)

    def make(self, folder):
        source = as_source(write_nifti(folder / "X.nii.gz", second=True))
        assert isinstance(source.X, np.memmap)
        return source, ROWS


class TestScaledNiftiImage(SourceContract):
    def make(self, folder):
        stored = (100 * IMAGE).round().astype(np.int16)
        path = write_nifti(folder / "X.nii", stored)
        content = bytearray(path.read_bytes())
        content[112:120] = np.array([1 / 128, 0.5], np.float32).tobytes()  # scl_slope, scl_inter
        path.write_bytes(content)
        return as_source(path), stored.reshape(12, 23, order="F").T / 128 + 0.5


def test_rows_are_those_of_nibabel(tmp_path):
    path = write_nifti(tmp_path / "X.nii.gz")
    expected = nibabel.load(path).get_fdata()
    volume = open_source(path).rows(np.array([5]))[0].reshape(2, 3, 2, order="F")
    np.testing.assert_allclose(volume, expected[..., 5])


def test_a_single_volume_is_a_sample(tmp_path):
    write_nifti(tmp_path / "a.nii", IMAGE[..., 0])
    write_nifti(tmp_path / "b.nii", IMAGE[..., 1])
    source = open_source([tmp_path / "a.nii", tmp_path / "b.nii"])
    np.testing.assert_array_equal(source.rows(np.arange(2)), ROWS[:2])
    assert open_source(tmp_path / "a.nii", transposed=True).shape == (12, 1)


def test_images_of_other_shapes_and_types_are_refused(tmp_path):
    write_nifti(tmp_path / "X.nii", IMAGE[0, :, :, 0])
    fails(tmp_path / "X.nii", "must be an image of 3 or 4 dimensions")
    write_nifti(tmp_path / "X.nii", IMAGE.astype(np.complex64))
    fails(tmp_path / "X.nii", "Complex data not supported")
    is_refused(write_nifti(tmp_path / "X.nii"), "dataset must not be given", dataset="X")


def test_an_image_in_two_files_is_refused_with_what_to_do(tmp_path):
    nibabel.save(nibabel.Nifti1Pair(IMAGE, np.eye(4)), tmp_path / "X.hdr")
    fails(tmp_path / "X.hdr", "in two files, which cannot be read. Convert it to one file")


def test_a_header_that_lies_is_refused_before_memory_is_taken(tmp_path):
    for name in ("X.nii", "X.nii.gz"):
        path = write_nifti(tmp_path / name)
        content = bytearray(
            path.read_bytes() if name == "X.nii" else gzip.decompress(path.read_bytes())
        )
        content[42:50] = np.array([20000, 20000, 20000, 100], "<i2").tobytes()
        path.write_bytes(content if name == "X.nii" else gzip.compress(bytes(content)))
        fails(path, "promises .* bytes of data|is not a NIfTI image, or is damaged")


def test_truncated_and_damaged_images_give_errors_of_somf_or_numbers(tmp_path):
    path, rng = write_nifti(tmp_path / "X.nii.gz"), np.random.default_rng(1)
    compressed = path.read_bytes()
    for part in (b"", compressed[:-100], compressed[:50], gzip.compress(b"nothing")):
        path.write_bytes(part)
        fails(path, "is not a NIfTI image, or is damaged")
    content, path, n_errors = gzip.decompress(compressed), tmp_path / "X.nii", 0
    for _ in range(100):
        path.write_bytes(damaged(content[:352], rng) + content[352:])
        try:
            source = open_source(path)
            assert source.rows(np.arange(source.shape[0])).shape == source.shape
        except DamagedFileError:
            n_errors += 1
    assert n_errors > 20
