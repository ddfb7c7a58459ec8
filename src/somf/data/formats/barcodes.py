"""Names of genes and cells that 10x Genomics writes beside a matrix, as tables of text."""

import os
import warnings
from collections.abc import Iterator

from somf.data.formats.checks import guarded
from somf.data.formats.kinds import MATRICES_OF_10X
from somf.data.formats.streams import most_inflated, open_bounded
from somf.errors import DamagedFileError, DataWarning

GENES = ("features.tsv.gz", "features.tsv", "genes.tsv.gz", "genes.tsv")
"""Tables with a line for every row of the matrix: an identifier, then a name."""

CELLS = ("barcodes.tsv.gz", "barcodes.tsv")
"""Tables with a line for every column of the matrix: a barcode."""

LONGEST_LINE = 2**12
"""Bytes of a line, at most."""


def names_beside(path: str, n_features: int, transposed: bool) -> list[str] | None:
    """Return the names of features from the table beside a matrix, or None if there is none.

    Parameters
    ----------
    path : str
        ``matrix.mtx`` or ``matrix.mtx.gz``, perhaps with more before it, such as
        ``GSM123_matrix.mtx.gz``, which the names of the tables then begin with as well.
    n_features : int
    transposed : bool
        Whether the features are the rows of the file, which are genes, or its columns, cells.

    Raises
    ------
    DamagedFileError
        If the table does not have a name for every feature.
    """
    folder, name = os.path.split(path)
    ending = next((end for end in MATRICES_OF_10X if name.lower().endswith(end)), None)
    if ending is None:
        return None
    prefix = os.path.join(folder, name[: -len(ending)])
    if not transposed and any(os.path.isfile(prefix + table) for table in GENES):
        warn_of_genes(path)
    tables = (prefix + table for table in (GENES if transposed else CELLS))
    table = next(filter(os.path.isfile, tables), None)
    if table is None:
        return None
    with guarded(table, "a table of names"):
        names = list(_names(table, n_features))
    if len(names) != n_features:
        got = f"more than {n_features:,}" if len(names) > n_features else f"{len(names):,}"
        raise DamagedFileError(
            f"{table!r} must have {n_features:,} lines, one for each feature of {path!r}, got "
            f"{got}. If it belongs to another matrix, move it elsewhere."
        )
    return names


def warn_of_genes(path: str) -> None:
    """Warn that a matrix of 10x Genomics is read as it is stored, with genes as samples."""
    warnings.warn(
        f"{path!r} holds genes × cells, so that genes are the samples. To have cells as samples, "
        "pass transposed=True to open_source, or --transposed to the command.",
        DataWarning,
        stacklevel=4,
    )


def _names(table: str, n_features: int) -> Iterator[str]:
    """Yield a name for every line, up to one more than there should be."""
    with open_bounded(table, most_inflated(table)) as file:
        for _ in range(n_features + 1):
            line = file.readline(LONGEST_LINE)
            if not line:
                return
            if len(line) == LONGEST_LINE:
                raise ValueError("a line is too long")
            identifier, *others = line.decode("utf-8-sig").rstrip("\r\n").split("\t")
            yield others[0] if others and others[0] else identifier
