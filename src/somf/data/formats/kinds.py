"""Kinds of files, by the ending of their name."""

import os

HDF5 = (".h5", ".hdf5", ".he5")
"""Endings of HDF5 files."""

STORED = (*HDF5, ".zarr")
"""Endings of files that hold datasets, each a matrix or an image."""

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".mat", ".hdr")
"""Endings of files that hold an image and never a matrix of samples × features."""


def kind_of(path: str) -> str:
    """Return the ending that tells the kind of a file; a folder is Zarr."""
    return ".zarr" if os.path.isdir(path) else os.path.splitext(path)[1].lower()


def envi_header_of(path: str) -> str | None:
    """Return the ENVI header beside a file, if there is one: the file then holds its pixels."""
    candidates = (f"{os.path.splitext(path)[0]}.hdr", f"{path}.hdr")
    return next((name for name in candidates if os.path.exists(name)), None)
