"""Minibatches on a device are those on the host."""

import gc
import threading

import numpy as np
import pytest
import scipy.sparse as sp

from somf.data import ImagePatches, Loader, as_source, loader_for
from somf.kernels.host import to_host
from tests.helpers.gpu import NEEDS_CUDA, NEEDS_GPU
from tests.helpers.problems import random_csr

pytestmark = NEEDS_CUDA
FLOAT = np.dtype(np.float32)


def both(source, dtype=FLOAT, ids=(4, 0, 2), permuted=True):
    """Return a minibatch of the host, and that of the device."""
    source = as_source(source)
    order = np.random.default_rng(1).permutation(source.shape[1]) if permuted else None
    loaders = [Loader(source, dtype, order), loader_for("cuda", source, dtype, order)]
    host, device = (loader.load(np.array(ids)) for loader in loaders)
    return host.toarray() if sp.issparse(host) else host, to_host(device)


@pytest.mark.parametrize("permuted", [True, False])
@pytest.mark.parametrize(
    "dtype",
    ["f4", "f8", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?", ">f4", ">u2", "g"],
)
def test_rows_of_any_type_are_those_of_the_host(dtype, permuted):
    X = np.random.default_rng(0).integers(0, 2**16, (6, 9)).astype(dtype)
    host, device = both(X, permuted=permuted)
    np.testing.assert_array_equal(device, host)
    assert device.dtype == FLOAT


def test_sparse_rows_are_those_of_the_host():
    X = random_csr(6, 9, 0.3)
    host, device = both(X)
    np.testing.assert_array_equal(device, host)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u2", "u1", ">f4", ">f2"])
@pytest.mark.parametrize(("center", "scale"), [(True, True), (False, True), (False, False)])
def test_patches_cut_out_on_the_device_are_those_of_the_host(dtype, center, scale):
    image = np.random.default_rng(0).integers(0, 250, (7, 6, 3)).astype(dtype)
    image[:3, :3] = 7  # the first patch is constant
    patches = ImagePatches(image, 3, center=center, scale=scale)
    host, device = both(patches, ids=(0, 5, 1))
    np.testing.assert_allclose(device, host, rtol=1e-5, atol=1e-6)
    assert not center or not device[0].any()


@pytest.mark.parametrize(
    ("images", "size"),
    [
        (np.random.default_rng(0).random((5, 6, 7, 2)), (2, 3, 4)),
        ([np.random.default_rng(0).random((8, 9)), np.random.default_rng(1).random((7, 5))], 3),
    ],
    ids=["volume", "several images"],
)
def test_volumes_and_several_images_are_cut_as_on_the_host(images, size):
    patches = ImagePatches(images, size)
    host, device = both(patches, np.dtype("f8"), ids=(patches.shape[0] - 1, 0, 7))
    np.testing.assert_allclose(device, host, atol=1e-12)


def test_patches_of_a_gray_image_are_those_of_the_host():
    host, device = both(ImagePatches(np.random.default_rng(0).random((8, 8)), 3), np.dtype("f8"))
    np.testing.assert_allclose(device, host, atol=1e-14)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_named(bad):
    X = np.ones((6, 9), dtype=np.float32)
    X[2, 3] = bad
    with pytest.raises(ValueError, match="in row 2"):
        both(X)


def test_a_pixel_that_is_not_finite_is_an_error_only_in_a_patch_that_holds_it():
    image = np.random.default_rng(0).random((6, 6))
    image[5, 5] = np.nan
    patches = ImagePatches(image, 3)
    loader = loader_for("cuda", patches, FLOAT)
    assert np.isfinite(to_host(loader.load(np.arange(3)))).all()
    with pytest.raises(ValueError, match="NaN in row 15"):
        loader.load(np.arange(12, 16))


@pytest.mark.parametrize("source", [-np.eye(3), ImagePatches(-np.ones((4, 4)), 2, center=False)])
def test_negative_entries_are_warned_about_once(source):
    source = as_source(source)

    def load_twice():
        loader = loader_for("cuda", source, FLOAT, non_negative=True)
        loader.load(np.arange(2))
        loader.load(np.arange(2))

    with pytest.warns(UserWarning, match="negative") as caught:
        load_twice()
    assert sum(issubclass(each.category, UserWarning) for each in caught) == 1


def test_minibatches_come_in_order_and_leave_no_thread():
    X = np.arange(80.0).reshape(40, 2)
    before = set(threading.enumerate())
    batches = np.split(np.random.default_rng(0).permutation(40), 10)
    with loader_for("cuda", as_source(X), FLOAT).stream(batches) as minibatches:
        for ids, batch in zip(batches, minibatches, strict=True):
            np.testing.assert_array_equal(to_host(batch), X[ids])
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name.startswith("somf-reader")]


@NEEDS_GPU
def test_a_large_array_is_pinned_while_a_loader_uses_it():
    from somf.data.cuda.pinned import WORTH_PINNING, tensor_of

    X = np.random.default_rng(0).random((WORTH_PINNING // 4096, 1024), dtype=np.float32)
    loaders = [loader_for("cuda", as_source(part), FLOAT) for part in (X, X[5:])]
    assert tensor_of(X).is_pinned()
    np.testing.assert_array_equal(to_host(loaders[1].load(np.array([3, 1]))), X[[8, 6]])
    del loaders[0]
    gc.collect()
    np.testing.assert_array_equal(to_host(loaders[0].load(np.array([3, 1]))), X[[8, 6]])
    del loaders[0]
    gc.collect()
    assert not tensor_of(X).is_pinned()


@NEEDS_GPU
def test_an_array_that_cannot_be_pinned_is_sent_through_staging_memory():
    import torch

    from somf.data.cuda.pinned import WORTH_PINNING

    X = np.random.default_rng(0).random((WORTH_PINNING // 4096 + 8, 1024), dtype=np.float32)
    begin = X.ctypes.data + 4096 - X.ctypes.data % 4096
    assert int(torch.cuda.cudart().cudaHostRegister(begin, 4096, 0)) == 0
    try:
        loader = loader_for("cuda", as_source(X), FLOAT)
        np.testing.assert_array_equal(to_host(loader.load(np.array([3, 1]))), X[[3, 1]])
    finally:
        torch.cuda.cudart().cudaHostUnregister(begin)
