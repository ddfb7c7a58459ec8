"""Some of the rows of another source."""

import numpy as np
import scipy.sparse as sp

from somf.data import as_source
from somf.data.sources.selected import SelectedSource
from tests.helpers.source_contract import SourceContract, matrix

IDS = np.arange(0, 46, 2)[::-1]
TWICE = np.repeat(matrix(), 2, axis=0)


class TestSelectedRowsOfAnArray(SourceContract):
    def make(self, folder):
        return SelectedSource(as_source(TWICE), IDS), matrix()[::-1]


class TestSelectedRowsOfASparseMatrix(SourceContract):
    def make(self, folder):
        return SelectedSource(as_source(sp.csr_array(TWICE)), IDS), matrix()[::-1]
