"""Some features of a source."""

import numpy as np
import scipy.sparse as sp

from somf.data import as_source
from somf.data.sources.features import SelectedFeatures
from tests.helpers.source_contract import SourceContract, matrix

FEATURES = np.array([0, 2, 3, 6])


class TestSelectedFeatures(SourceContract):
    def make(self, folder):
        return SelectedFeatures(as_source(matrix()), FEATURES), matrix()[:, FEATURES]


class TestSelectedFeaturesOfASparseMatrix(SourceContract):
    def make(self, folder):
        source = as_source(sp.csr_array(matrix()))
        return SelectedFeatures(source, FEATURES), matrix()[:, FEATURES]


def test_names_of_features_are_those_of_the_selected_ones():
    source = as_source(matrix())
    source.feature_names = list("abcdefg")
    assert SelectedFeatures(source, FEATURES).feature_names == ["a", "c", "d", "g"]
