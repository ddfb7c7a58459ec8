"""Files of samples that tests write, and checks that bad ones are refused."""

import io
import struct
import tracemalloc

import numpy as np
import pytest

from somf.data import open_source
from somf.errors import DamagedFileError, FileRequestError


def read(path, **options):
    """Read all rows of a file, one at a time."""
    source = open_source(path, **options)
    for row in range(source.shape[0]):
        source.rows(np.array([row]))


def fails(path, message, error=DamagedFileError, opened=None, **options):
    """Check that opening, or reading, a file gives an error that names it, and takes no memory.

    Another file may be opened, which leads to the one that is named.
    """
    tracemalloc.start()
    try:
        with pytest.raises(error, match=message) as caught:
            read(path if opened is None else opened, **options)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert str(path) in str(caught.value)
    assert peak < 50e6
    return True


def is_refused(path, message, **options):
    """Check that an argument that does not fit a file is refused, and the file named."""
    return fails(path, message, FileRequestError, **options)


def write_hdf5(path, X, **options):
    """Write a dataset, and another one that is neither a matrix nor an image; return the path."""
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    with h5py.File(path, "w") as file:
        file.create_dataset("group/X", data=X, **options)
        file.create_dataset("wavelengths", data=np.arange(5.0))
    return path


def write_zarr(path, X, **options):
    """Write an array; return the path."""
    zarr = pytest.importorskip("zarr", minversion="3", reason="Zarr needs somf[zarr]")
    zarr.create_array(path.absolute(), shape=X.shape, dtype=X.dtype, **options)[:] = X
    return path


def npy(array, header=None):
    """Return the bytes of a .npy file, with another header if one is given."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    if header is None:
        return buffer.getvalue()
    text = (repr(header) + "\n").encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + array.tobytes()


def npy_header(shape, descr="<f8"):
    """Return what the header of a .npy file says."""
    return {"descr": descr, "fortran_order": False, "shape": shape}
