"""Kinds of files, by the ending of their name."""

import glob
import os
import re

HDF5 = (".h5", ".hdf5", ".he5")
"""Endings of HDF5 files."""

STORED = (*HDF5, ".zarr")
"""Endings of files that hold datasets, each a matrix or an image."""

MATRICES = (".npy", ".npz", *STORED)
"""Endings of files that may hold a matrix, and that store its shape and type."""

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".mat", ".hdr")
"""Endings of files that hold an image and never a matrix of samples × features."""


def ending_of(path: str) -> str:
    """Return the ending of the name of a file or folder, in lower case."""
    return os.path.splitext(path.rstrip(os.sep))[1].lower()


def kind_of(path: str) -> str:
    """Return the ending that tells the kind of a file; a folder is Zarr."""
    return ".zarr" if os.path.isdir(path) else ending_of(path)


def is_url(path: str) -> bool:
    """Return whether a text names something by its protocol, such as ``s3://bucket/x.zarr``."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path) is not None


def files_matching(path: str) -> list[str]:
    """Return the files that a pattern matches, sorted; what is no pattern is returned."""
    if is_url(path):
        return [path]
    is_pattern = glob.has_magic(path) and not os.path.exists(path)
    return sorted(glob.glob(path)) if is_pattern else [path]


def envi_header_of(path: str) -> str | None:
    """Return the ENVI header beside a file, if there is one: the file then holds its pixels."""
    candidates = (f"{os.path.splitext(path)[0]}.hdr", f"{path}.hdr")
    return next((name for name in candidates if os.path.exists(name)), None)
