"""A model knows when, from what and with which versions it was fitted."""

import platform

import numpy as np
import pytest

import somf
from somf.persistence.provenance import LONGEST, checked_provenance


def test_a_fitted_model_knows_where_it_comes_from_and_a_file_keeps_it(toy, tmp_path):
    np.save(tmp_path / "rows.npy", toy)
    model = somf.DictionaryLearning(3, n_epochs=1, random_state=0).fit(tmp_path / "rows.npy")
    made = model.provenance_
    assert made["data"] == "rows.npy"
    assert made["numpy"] == np.__version__
    assert made["date"].endswith("UTC")
    assert platform.node() not in made.values()
    model.save(tmp_path / "model.somf")
    assert somf.load(tmp_path / "model.somf").provenance_ == made
    assert "data" not in model.fit(toy).provenance_


@pytest.mark.parametrize("given", [1, [], {"date": 1}])
def test_a_provenance_that_is_not_made_of_texts_is_refused(given):
    with pytest.raises(ValueError, match="provenance"):
        checked_provenance(given)


def test_long_texts_in_a_file_are_shortened():
    assert len(checked_provenance({"data": "x" * 10**6})["data"]) <= LONGEST + 1
