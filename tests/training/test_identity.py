"""Data that changes between or during the calls of a fit."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

from somf import Checkpoint, DictionaryLearning, ImagePatches
from somf.data import as_source, open_source
from somf.errors import DataError
from somf.training.identity import file_stamp
from tests.helpers.fits import StopError, assert_same_fit
from tests.helpers.problems import planted

DATA = planted(60, 12, 4)[0]
PARAMS = {"n_components": 3, "batch_size": 10, "reduction": 2, "n_epochs": 3, "random_state": 0}
UNSAMPLED = np.setdiff1d(np.arange(60), np.linspace(0, 59, 32).astype(int))
"""The rows that are not among the 32 that are always compared."""


def stopping_at(n_iter):
    def callback(progress):
        if progress.n_iter == n_iter:
            raise StopError

    return callback


def fit_until(n_iter, X, checkpoint, **options):
    model = DictionaryLearning(**PARAMS, checkpoint=checkpoint, callbacks=stopping_at(n_iter))
    with pytest.raises(StopError):
        model.fit(X, **options)


def changed(X, row=UNSAMPLED[3]):
    X = X.copy()
    X[row] = 1.5 * X[row]
    return X


# Files


def files_of(kind, folder):
    """Write the data as some kind of file; return what opens it, and the files."""
    path = folder / f"X.{kind}"
    if kind == "npz":
        sp.save_npz(path, sp.csr_array(DATA))
    elif kind == "h5":
        h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
        with h5py.File(path, "w") as file:
            file["X"] = DATA
    elif kind == "several":
        paths = [folder / "a.npy", folder / "b.npy"]
        for one, part in zip(paths, (DATA[:30], DATA[30:]), strict=True):
            np.save(one, part)
        return paths, paths
    else:
        np.save(path := folder / "X.npy", DATA)
    if kind == "map":
        return np.load(path, mmap_mode="r"), [path]
    return path, [path]


@pytest.mark.parametrize("kind", ["npy", "npz", "h5", "several", "map"])
def test_the_files_of_a_source_are_known(tmp_path, kind):
    X, paths = files_of(kind, tmp_path)
    assert as_source(X).files == tuple(map(str, paths))
    stamp = file_stamp(X)
    assert stamp["bytes"] == sum(path.stat().st_size for path in paths)
    os.utime(paths[-1], ns=(0, 2**62))
    assert file_stamp(X) == stamp | {"modified": 2**62}


def test_the_files_of_patches_are_known(tmp_path):
    np.save(tmp_path / "image.npy", DATA)
    files = (str(tmp_path / "image.npy"),)
    assert ImagePatches(tmp_path / "image.npy", 4).files == files
    assert ImagePatches(np.load(tmp_path / "image.npy", mmap_mode="r"), 4).files == files
    assert ImagePatches(DATA, 4).files == ()


@pytest.mark.parametrize("data", [None, 0.5, DATA, sp.csr_array(DATA)], ids=str)
def test_data_in_memory_has_no_files(data):
    assert file_stamp(data) is None


@pytest.mark.parametrize("name", ["X", "validation"])
def test_a_file_that_was_modified_is_a_warning_when_a_fit_resumes(tmp_path, name):
    paths = {"X": tmp_path / "X.npy", "validation": tmp_path / "validation.npy"}
    for path in paths.values():
        np.save(path, DATA)
    fit_until(4, paths["X"], tmp_path / "c", validation=paths["validation"])
    np.save(paths[name], changed(DATA))
    os.utime(paths[name], ns=(0, 10**18))
    model = DictionaryLearning(**PARAMS, checkpoint=tmp_path / "c")
    with pytest.warns(RuntimeWarning, match=rf"files of {name} had .* bytes.* 2001-09-\d\d .* now"):
        model.fit(paths["X"], validation=paths["validation"])


def test_a_file_that_was_not_modified_is_no_warning(tmp_path):
    np.save(tmp_path / "X.npy", DATA)
    source = open_source(tmp_path / "X.npy")
    fit_until(4, source, tmp_path / "c", validation=0.1)
    DictionaryLearning(**PARAMS, checkpoint=tmp_path / "c").fit(source, validation=0.1)


# The hash of an epoch


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("validation", [None, 0.2])
@pytest.mark.parametrize("n_iter", [2, 6, 8])
def test_hashed_data_that_does_not_change_is_fitted_as_ever(tmp_path, kind, validation, n_iter):
    X, asked = kind(DATA), Checkpoint(tmp_path / "c", hash_data=True)
    fit_until(n_iter, X, asked, validation=validation)
    model = DictionaryLearning(**PARAMS, checkpoint=asked).fit(X, validation=validation)
    assert_same_fit(model, DictionaryLearning(**PARAMS).fit(X, validation=validation))
    more = DictionaryLearning(**PARAMS | {"n_epochs": 5}, checkpoint=asked)
    more.fit(X, validation=validation)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_iter", [6, 8])  # after the first epoch, in the second
def test_one_changed_row_is_found_at_the_end_of_an_epoch(tmp_path, kind, n_iter):
    asked = Checkpoint(tmp_path / "c", hash_data=True, every_samples=10)
    fit_until(n_iter, kind(DATA), asked)
    model = DictionaryLearning(**PARAMS, checkpoint=asked)
    for _ in range(2):  # also if the fit is called again
        with pytest.raises(DataError, match="X must be the same in all epochs"):
            model.fit(kind(changed(DATA)))
    with pytest.raises(DataError, match="X must be the same in all epochs"):
        model.fit(kind(DATA))  # what was learned from the changed row does not go away
    DictionaryLearning(**PARAMS, checkpoint=tmp_path / "c").fit(kind(DATA))


def test_rows_that_change_in_the_first_epoch_are_found_after_the_second(tmp_path):
    asked = Checkpoint(tmp_path / "c", hash_data=True)
    fit_until(2, DATA, asked)  # it has seen some of the rows that are going to change
    with pytest.raises(DataError, match="X must be the same in all epochs"):
        DictionaryLearning(**PARAMS, checkpoint=asked).fit(changed(DATA, UNSAMPLED))


def test_one_changed_row_is_found_when_a_finished_fit_goes_on(tmp_path):
    asked = Checkpoint(tmp_path / "c", hash_data=True)
    DictionaryLearning(**PARAMS, checkpoint=asked).fit(DATA)
    more = PARAMS | {"n_epochs": 4}
    with pytest.raises(DataError, match="X must be the same in all epochs"):
        DictionaryLearning(**more, checkpoint=asked).fit(changed(DATA))
    DictionaryLearning(**more, checkpoint=asked).fit(DATA)


def test_two_rows_that_change_places_are_found(tmp_path):
    asked = Checkpoint(tmp_path / "c", hash_data=True)
    fit_until(6, DATA, asked)
    swapped = DATA.copy()
    swapped[UNSAMPLED[:2]] = DATA[UNSAMPLED[1::-1]]
    with pytest.raises(DataError, match="X must be the same in all epochs"):
        DictionaryLearning(**PARAMS, checkpoint=asked).fit(swapped)


def test_a_fit_may_begin_to_hash_and_pause(tmp_path):
    hashed = Checkpoint(tmp_path / "c", hash_data=True)
    fit_until(2, DATA, tmp_path / "c")  # the first epoch is not hashed from its beginning
    fit_until(8, DATA, hashed)
    fit_until(10, DATA, tmp_path / "c")
    model = DictionaryLearning(**PARAMS, checkpoint=hashed).fit(DATA)
    assert_same_fit(model, DictionaryLearning(**PARAMS).fit(DATA))


def test_hash_data_must_be_a_boolean(tmp_path):
    with pytest.raises(TypeError, match="hash_data must be True or False, got 1"):
        DictionaryLearning(2, checkpoint=Checkpoint(tmp_path / "c", hash_data=1)).fit(DATA)
