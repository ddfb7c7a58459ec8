"""Kinds of files, recognised by their content, or by the ending where content cannot tell."""

import glob
import os
import re
import zlib
from enum import Enum
from functools import cache

HDF5 = (".h5", ".hdf5", ".he5")
"""Endings of HDF5 files that may hold an image."""

HDF5_OR_NETCDF = (*HDF5, ".nc", ".nc4")
"""Likewise, with those of NetCDF, whose version 4 is HDF5."""

STORED = (*HDF5_OR_NETCDF, ".zarr")
"""Endings of files that hold datasets, each a matrix or an image."""

HEAD_BYTES = 560
"""Bytes at the beginning of a file that tell its kind: a NIfTI-2 header has 540."""

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
"""The first bytes of an HDF5 file, or those after its user block."""

HDF5_OFFSETS = (0, 512, 1024, 2048, 4096, 8192)
"""Where an HDF5 file may begin, after a user block."""

GZIP_SIGNATURE = b"\x1f\x8b"
"""The first bytes of what gzip has compressed."""

MATRICES_OF_10X = ("matrix.mtx.gz", "matrix.mtx")
"""What the matrix in a folder of 10x Genomics is called."""

MOST_JSON = 2**26
"""Bytes of the header of a model, at most."""


class Kind(Enum):
    """A kind of file: what to call it, whether it may hold a matrix, and usual endings."""

    NPY = ("NumPy", True, ".npy")
    NPZ = ("NumPy and SciPy archives", True, ".npz")
    TEXT = ("tables of text", True, ".csv", ".tsv", ".tab", ".txt")
    PARQUET = ("Parquet", True, ".parquet", ".pq")
    ARROW = ("Feather and Arrow", True, ".feather", ".arrow", ".ipc")
    HDF5 = ("HDF5 and AnnData", True, *HDF5, ".h5ad")
    ZARR = ("Zarr", True, ".zarr")
    NETCDF = ("NetCDF", True, ".nc", ".nc4", ".cdf")
    MATLAB = ("MATLAB", True, ".mat")
    MATLAB_73 = ("MATLAB 7.3", True)
    MATRIX_MARKET = ("Matrix Market", True, ".mtx")
    NIFTI = ("NIfTI", True, ".nii")
    IMAGE = ("images", False, ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".hdr")
    MODEL = ("models of somf", False, ".somf")

    def __init__(self, label: str, holds_matrix: bool, *endings: str) -> None:
        self.label, self.holds_matrix, self.endings = label, holds_matrix, endings


MAY_BE_GZIP = (Kind.TEXT, Kind.MATRIX_MARKET, Kind.NIFTI)
"""Kinds that are also read if gzip has compressed them."""


def ending_of(path: str) -> str:
    """Return the ending of the name of a file or folder, in lower case."""
    return os.path.splitext(path.rstrip(os.sep))[1].lower()


def kind_of(path: str) -> str:
    """Return the ending that tells the kind of an image; a folder is Zarr."""
    return ".zarr" if os.path.isdir(path) else ending_of(path)


def recognise(path: str) -> Kind | None:
    """Return the kind of a file, or None if it is not known.

    The content decides. The ending of the name is used for what has no signature (tables of text,
    old MATLAB files), and for a damaged file, which is then an error that names its kind.

    Parameters
    ----------
    path : str
        A file or folder that exists.
    """
    if os.path.isdir(path):
        return Kind.ZARR if matrix_of_10x(path) is None else Kind.MATRIX_MARKET
    found = _by_content(path) if os.path.isfile(path) else None
    by_name = kind_by_ending(path)
    if found is Kind.HDF5 and by_name is Kind.MATLAB:
        return Kind.MATLAB_73  # other programs leave out the text that MATLAB puts before HDF5
    return by_name if found is None else found


def matrix_of_10x(folder: str) -> str | None:
    """Return the matrix in a folder of 10x Genomics; None if it is not such a folder."""
    files = (os.path.join(folder, name) for name in MATRICES_OF_10X)
    return next((file for file in files if os.path.isfile(file)), None)


def kind_by_ending(path: str) -> Kind | None:
    """Return the kind that the ending of a name stands for, without ``.gz``."""
    ending = ending_of(path[: -len(".gz")] if path.lower().endswith(".gz") else path)
    return next((kind for kind in Kind if ending in kind.endings), None)


def is_gzip(path: str) -> bool:
    """Return whether a file is compressed by gzip."""
    with open(path, "rb") as file:
        return file.read(2) == GZIP_SIGNATURE


def why_compressed(path: str, kind: Kind | None) -> str | None:
    """Return why a file cannot be read that gzip has compressed, and what to do; None if it can.

    Parameters
    ----------
    path : str
    kind : Kind or None
        What `recognise` says of it.
    """
    if kind in MAY_BE_GZIP or not os.path.isfile(path) or not is_gzip(path):
        return None
    read = ", ".join(kind.label for kind in MAY_BE_GZIP)
    return (
        f"cannot read {path!r}, which is compressed by gzip: only {read} may be. Decompress it "
        "first: gunzip -k FILE."
    )


@cache
def readable_kinds() -> str:
    """Return the kinds of files that may hold a matrix, for messages."""
    return ", ".join(
        f"{k.label} ({' '.join(k.endings)})" for k in Kind if k.holds_matrix and k.endings
    )


def _by_content(path: str) -> Kind | None:
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
        if head.startswith(GZIP_SIGNATURE):
            return _by_signature(_inflated(head + file.read(2**16)))
        for offset in HDF5_OFFSETS:
            file.seek(offset)
            if file.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE:
                return Kind.MATLAB_73 if head.startswith(b"MATLAB 7.3") else Kind.HDF5
    return _by_signature(head)


def _inflated(content: bytes) -> bytes:
    """Return the beginning of what gzip has compressed; nothing if it is damaged."""
    try:
        return zlib.decompressobj(wbits=31).decompress(content, HEAD_BYTES)
    except zlib.error:
        return b""


def _by_signature(head: bytes) -> Kind | None:
    for kind, signatures in _SIGNATURES.items():
        if head.startswith(signatures):
            return kind
    if head[344:348] in (b"n+1\0", b"ni1\0") or head[4:8] in (b"n+2\0", b"ni2\0"):
        return Kind.NIFTI
    if head[126:128] in (b"IM", b"MI") and head.startswith(b"MATLAB"):
        return Kind.MATLAB
    is_json = head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MOST_JSON
    return Kind.MODEL if is_json else None


_SIGNATURES: dict[Kind, tuple[bytes, ...]] = {
    Kind.NPY: (b"\x93NUMPY",),
    Kind.NPZ: (b"PK\x03\x04", b"PK\x05\x06"),
    Kind.PARQUET: (b"PAR1", b"PARE"),
    Kind.ARROW: (b"ARROW1", b"FEA1"),
    Kind.NETCDF: (b"CDF\x01", b"CDF\x02", b"CDF\x05"),
    Kind.MATRIX_MARKET: (b"%%MatrixMarket",),
    Kind.IMAGE: (
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"II*\0",
        b"MM\0*",
        b"II+\0",
        b"MM\0+",
        b"ENVI\n",
        b"ENVI\r\n",
    ),
}


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
    # The headers of NIfTI and Analyze have the same ending.
    return next((name for name in candidates if _is_envi_header(name)), None)


def _is_envi_header(path: str) -> bool:
    return os.path.isfile(path) and _by_content(path) is Kind.IMAGE
