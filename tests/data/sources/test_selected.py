"""Some of the rows of another source."""

import numpy as np
import scipy.sparse as sp

from somf.data import as_source
from somf.data.sources.selected import SelectedSource
from tests.helpers.source_contract import SourceContract, matrix

IDS = np.array([4, 22, 0, 3, 11, 9, 17, 8])


class TestSelectedRowsOfAnArray(SourceContract):
    def make(self, folder):
        return SelectedSource(as_source(matrix()), IDS), matrix()[IDS]


class TestSelectedRowsOfASparseMatrix(SourceContract):
    def make(self, folder):
        return SelectedSource(as_source(sp.csr_array(matrix())), IDS), matrix()[IDS]
