"""Sparse matrices as text in the Matrix Market format, as 10x Genomics writes them."""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np
import scipy.sparse as sp

from somf.data.formats.barcodes import names_beside
from somf.data.formats.checks import MAX_EXPANSION, check_claim, guarded
from somf.data.formats.sparse_arrays import AS_ARRAYS
from somf.data.formats.sparse_conversion import Entries, converted_to_rows
from somf.data.formats.streams import open_bounded
from somf.data.source import Source
from somf.data.sources.sliced import dtype_of
from somf.errors import DamagedFileError

MOST_IN_A_LINE = 2**12
"""Characters of a line, at most."""

BLOCK_BYTES = 2**24
"""Bytes of text that are converted at once."""

LEAST_IN_A_LINE = 4
"""Characters of an entry, at least: a row, a space, a column, and the end of the line."""


@dataclass(frozen=True)
class Banner:
    """What the first lines of a file declare.

    Attributes
    ----------
    first_line : bytes
        The line with the types.
    shape : tuple of (int, int)
    n_entries : int
        Lines that follow.
    """

    first_line: bytes
    shape: tuple[int, int]
    n_entries: int


def matrix_market_source(path: str, transposed: bool) -> Source:
    """Convert a sparse matrix to compressed rows, in a scratch file if it is large.

    Parameters
    ----------
    path : str
        May be compressed by gzip.
    transposed : bool
        Whether it is of shape (p, n), such as features × cells.
    """
    with guarded(path, "a Matrix Market file"):
        size = os.path.getsize(path)
        with open_bounded(path, MAX_EXPANSION * size) as file:
            banner = _banner(path, file)
            check_claim(path, banner.n_entries * LEAST_IN_A_LINE, size)
            check_claim(path, max(banner.shape) * 8, size)
            first = next(_blocks_of(file, banner), None)
        dtype = np.dtype(float) if first is None else dtype_of(first)
        shape = banner.shape[::-1] if transposed else banner.shape
        names = names_beside(path, shape[1], transposed)
        source = converted_to_rows(
            partial(_entries, path, MAX_EXPANSION * size, transposed), shape, dtype, path
        )
        source.feature_names = names
        return source


def _banner(path: str, file: BinaryIO) -> Banner:
    first_line = _line(file)
    words = first_line.decode("ascii").lower().split()
    if len(words) != 5 or words[1] != "matrix":
        raise ValueError("its first line must name a matrix")
    if words[2] != "coordinate" or words[3] == "complex":
        raise DamagedFileError(
            f"{path!r} must hold a sparse matrix of real numbers, got {' '.join(words[2:4])}. "
            "Convert a dense one to .npy: numpy.save(path, scipy.io.mmread(file))."
        )
    line = _line(file)
    while line.startswith(b"%") or (line and not line.strip()):
        line = _line(file)
    numbers = [int(word) for word in line.split()]
    if len(numbers) != 3 or min(numbers) < 0:
        raise ValueError("it must declare the number of rows, columns and entries")
    return Banner(first_line, (numbers[0], numbers[1]), numbers[2])


def _line(file: BinaryIO) -> bytes:
    line = file.readline(MOST_IN_A_LINE)
    if len(line) == MOST_IN_A_LINE:
        raise ValueError("a line is too long")
    return line


def _entries(path: str, most: int, transposed: bool) -> Iterator[Entries]:
    with guarded(path, "a Matrix Market file"), open_bounded(path, most) as file:
        banner = _banner(path, file)
        for block in _blocks_of(file, banner):
            rows, columns = block.coords[::-1] if transposed else block.coords
            yield Entries(rows.astype(np.int64), columns.astype(np.int64), block.data)


def _blocks_of(file: BinaryIO, banner: Banner) -> Iterator[sp.coo_array]:
    """Yield the entries that follow, a block at a time, each read as a file of its own by SciPy.

    SciPy checks numbers and indices, and adds what a symmetric matrix does not repeat.
    """
    from scipy.io import mmread

    left = banner.n_entries
    while block := file.read(BLOCK_BYTES):
        block = _without_empty_lines(block + _line(file))
        n_lines = block.count(b"\n")
        left -= n_lines
        if left < 0:
            raise ValueError("it goes on after its last entry")
        if n_lines:
            head = b"%d %d %d\n" % (*banner.shape, n_lines)
            yield sp.coo_array(mmread(io.BytesIO(banner.first_line + head + block), **AS_ARRAYS))
    if left:
        raise ValueError(f"it ends before the last {left:,} of its entries")


def _without_empty_lines(block: bytes) -> bytes:
    """Return lines that all end, none of which is empty: so that their ends count the entries."""
    if not block.endswith(b"\n"):
        block += b"\n"
    if b"\n\n" in block or b"\r" in block or block.startswith(b"\n"):
        block = b"".join(line + b"\n" for line in block.splitlines() if line.strip())
    return block
