"""Archives of NumPy and SciPy, ``.npz``: sparse matrices and arrays."""

import os
import struct
import zipfile
from math import prod
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from somf.data.checks import is_real
from somf.data.formats.checks import (
    MATRIX,
    check_claim,
    check_dimensions,
    check_memory,
    choose,
    guarded,
    not_in_file,
)
from somf.data.formats.kinds import readable_kinds
from somf.data.formats.streams import read_into
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.sparse import CsrSource
from somf.errors import DamagedFileError, FileRequestError, UnknownKindError
from somf.scratch import scratch_zeros
from somf.typing import Array

LOCAL_HEADER = struct.Struct("<26xHH")
"""The header before a member of an archive, of which the lengths of a name and a field are used."""


class Member(NamedTuple):
    """An array in an archive."""

    entry: zipfile.ZipInfo
    header_bytes: int
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]


def npz_source(path: str, name: str | None, transposed: bool) -> Source:
    """Open a sparse matrix of `scipy.sparse.save_npz`, or an array of `numpy.savez`.

    Parameters
    ----------
    path : str
    name : str, optional
        Name of the array; may be left out if there is only one matrix.
    transposed : bool
        Whether it is of shape (p, n).
    """
    members = _members(path)
    if _is_sparse(members):
        if name is not None:
            hint = "The file holds one sparse matrix."
            raise FileRequestError(path, "dataset", f"not be given for {path!r}", name, hint)
        X = read_sparse(path, members)
        return CsrSource(sp.csr_array(X.T) if transposed else X)
    X = _chosen(path, members, name, MATRIX)
    return ArraySource(X.T if transposed else X)


def open_npz(path: str, name: str | None, dimensions: tuple[int, ...]) -> Array:
    """Map an array of `numpy.savez`, or unpack one of `numpy.savez_compressed`.

    Parameters
    ----------
    path : str
    name : str, optional
        Its name; may be left out if there is only one that qualifies.
    dimensions : tuple of int
        How many dimensions it may have.
    """
    members = _members(path)
    if _is_sparse(members):  # the blocks of a BSR matrix have three dimensions
        raise DamagedFileError(f"{path!r} holds a sparse matrix, and no image.")
    return _chosen(path, members, name, dimensions)


def _is_sparse(members: "dict[str, Member]") -> bool:
    """Return whether an archive is that of `scipy.sparse.save_npz`."""
    return {"format", "shape", "data"} <= set(members)


def _chosen(
    path: str, members: "dict[str, Member]", name: str | None, dimensions: tuple[int, ...]
) -> Array:
    shapes = {n: m.shape for n, m in members.items() if is_real(m.dtype)}
    names = [n for n, shape in shapes.items() if len(shape) in dimensions]
    chosen = choose(path, names, name, dimensions, shapes)
    if chosen not in members:
        raise not_in_file(path, name, names)
    check_dimensions(path, members[chosen].shape, dimensions, name)
    with guarded(path, "a NumPy archive"):
        return _array(path, members[chosen])


def read_sparse(path: str, members: dict[str, Member]) -> sp.csr_array:
    """Read a matrix that `scipy.sparse.save_npz` has written, in any format.

    Parameters
    ----------
    path : str
    members : dict of Member

    Returns
    -------
    X : csr_array of shape (n, p)
    """
    with guarded(path, "a sparse matrix of scipy.sparse.save_npz"):
        total = sum(member.entry.file_size for member in members.values())
        check_memory(path, total, "If it is fine, save it with compressed=False.")
        X = sp.load_npz(path)
        check_claim(path, max(X.shape) * X.dtype.itemsize, os.path.getsize(path))  # a row of it
        if X.format in ("csr", "csc", "bsr"):
            X.check_format(full_check=True)  # SciPy does not check indices when it reads rows
        X = sp.csr_array(X)
        X.check_format(full_check=True)
    return X


def _members(path: str) -> dict[str, Member]:
    """Return the arrays of an archive, after comparing what they declare with what is stored."""
    members = {}
    with guarded(path, "a NumPy archive"), zipfile.ZipFile(path) as archive:
        stored = sum(entry.compress_size for entry in archive.infolist())
        if stored > os.path.getsize(path):
            raise ValueError("its members overlap")
        for entry in archive.infolist():
            check_claim(path, entry.file_size, entry.compress_size)
            if not entry.filename.endswith(".npy"):
                continue
            with archive.open(entry) as file:
                shape, is_fortran, dtype = _read_header(file)
                header_bytes = file.tell()
            promised = 0 if dtype.hasobject else prod(shape) * dtype.itemsize
            if promised > entry.file_size - header_bytes:
                raise ValueError(f"{entry.filename} promises more data than there is")
            name = entry.filename[: -len(".npy")]
            members[name] = Member(entry, header_bytes, shape, is_fortran, dtype)
    if not members:
        raise UnknownKindError(
            f"cannot read {path!r}, a ZIP archive that holds no array of NumPy; readable are "
            f"{readable_kinds()}."
        )
    return members


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        header = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        header = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"version {version} of the .npy format is not supported")
    shape, is_fortran, dtype = header
    return shape, is_fortran, dtype


def _array(path: str, member: Member) -> Array:
    """Map an array that is not compressed; unpack another one once, perhaps to a scratch file."""
    entry = member.entry
    order: Literal["C", "F"] = "F" if member.is_fortran else "C"
    is_plain = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
    if is_plain:
        with open(path, "rb") as file:
            file.seek(entry.header_offset)
            n_name, n_field = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
        offset = entry.header_offset + LOCAL_HEADER.size + n_name + n_field + member.header_bytes
        mapped: Array = np.memmap(path, member.dtype, "r", offset, member.shape, order)
        return mapped
    flat = scratch_zeros((prod(member.shape),), member.dtype)
    with zipfile.ZipFile(path) as archive, archive.open(entry) as file:
        file.read(member.header_bytes)
        read_into(file, flat)
        if file.read(1):  # the checksum is compared at the end
            raise ValueError(f"{entry.filename} is longer than it declares")
    return flat.reshape(member.shape, order=order)
