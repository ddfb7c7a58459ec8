"""Rows that break the contract of a source are refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from somf import DictionaryLearning
from somf.data import ArraySource, CsrSource, Source, StackedSource
from tests.helpers.source_contract import matrix

CSR = sp.csr_array(matrix())


class Wrong(Source):
    """A source whose rows are not what its contract says."""

    shape, dtype = (23, 7), np.dtype(float)

    def __init__(self, give, is_sparse=False, **flags):
        self.give, self.is_sparse = give, is_sparse
        for flag, value in flags.items():
            setattr(self, flag, value)

    def rows(self, ids):
        rows = matrix()[ids]
        return self.give(sp.csr_array(rows) if self.is_sparse else rows)


@pytest.mark.parametrize(
    "give",
    [
        lambda rows: np.vstack([rows, rows]),
        lambda rows: rows[:1],
        lambda rows: rows.astype(str),
        lambda rows: rows.astype(object),
        lambda rows: rows.astype("S5"),
        lambda rows: rows.astype("M8[s]"),
        lambda rows: rows * 1j,
        lambda rows: rows.tolist(),
        sp.csr_array,
    ],
    ids=["many", "one", "str", "object", "bytes", "dates", "complex", "list", "sparse"],
)
@pytest.mark.parametrize(
    "flags",
    [{}, {"chunk_starts": np.array([0, 10])}, {"is_in_memory": True}, {"reads_in_parallel": True}],
    ids=["background thread", "buffer", "memory", "page cache"],
)
def test_rows_that_are_too_many_or_no_numbers_are_refused(give, flags):
    for source in (
        Wrong(give, **flags),
        StackedSource([ArraySource(matrix()), Wrong(give, **flags)], ["a", "b"]),
    ):
        with pytest.raises((ValueError, TypeError), match="rows of a source must be"):
            DictionaryLearning(3, init="random", batch_size=4).fit(source)


def csr_like(rows, indices):
    rows = rows.copy()
    rows.indices = indices
    return rows


@pytest.mark.parametrize(
    "give",
    [
        lambda rows: sp.csr_array(sp.vstack([rows, rows])),
        lambda rows: csr_like(rows, rows.indices - 1),
        lambda rows: csr_like(rows, rows.indices + 10**6),
        sp.csc_array,
        lambda rows: rows.toarray(),
    ],
    ids=["many", "negative", "too large", "CSC", "dense"],
)
@pytest.mark.parametrize("flags", [{}, {"is_in_memory": True}], ids=["background", "memory"])
def test_sparse_rows_that_are_too_many_or_lie_outside_are_refused(give, flags):
    for source in (
        Wrong(give, is_sparse=True, **flags),
        StackedSource([CsrSource(CSR), Wrong(give, is_sparse=True, **flags)], ["a", "b"]),
    ):
        with pytest.raises((ValueError, TypeError), match=r"rows of a source must be|X must be a"):
            DictionaryLearning(3, init="random", batch_size=4).fit(source)
