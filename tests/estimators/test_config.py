"""Bad hyper-parameters get an error that names the rule and the value."""

import numpy as np
import pytest

from somf import DictionaryLearning, MatrixFactorization


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1, got 0"),
        ({"n_components": 2**62}, ValueError, "n_components must be at most 2,147,483,648"),
        ({"n_components": 2.5}, TypeError, "n_components must be an integer, got 2.5"),
        ({"n_components": True}, TypeError, "n_components must be an integer, got True"),
        ({"alpha": -1}, ValueError, "alpha must be at least 0, or 'auto', got -1"),
        ({"alpha": np.nan}, ValueError, "alpha must be at least 0, or 'auto', got nan"),
        ({"alpha": "much"}, ValueError, "alpha must be a number or 'auto', got 'much'"),
        ({"l1_ratio": 1.5}, ValueError, r"l1_ratio must be in \[0, 1\], got 1.5"),
        ({"atom_l1_ratio": -0.1}, ValueError, r"atom_l1_ratio must be in \[0, 1\], got -0.1"),
        ({"reduction": 0.5}, ValueError, "reduction must be at least 1, or 'auto', got 0.5"),
        ({"reduction": "most"}, ValueError, "reduction must be a number or 'auto', got 'most'"),
        ({"reduction": np.inf}, ValueError, "reduction must be at least 1, or 'auto', got inf"),
        ({"learning_rate": 0.75}, ValueError, "learning_rate must be strictly between 0.75 and 1"),
        ({"learning_rate": 1.0}, ValueError, "learning_rate must be strictly between 0.75 and 1"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"batch_size": "large"}, ValueError, "batch_size must be a number or 'auto', got 'large'"),
        ({"n_epochs": 0}, ValueError, "n_epochs must be at least 1"),
        ({"tol": -1}, ValueError, "tol must be at least 0, got -1"),
        ({"patience": 0}, ValueError, "patience must be at least 1"),
        ({"code_estimator": "best"}, ValueError, "code_estimator must be 'auto' or 'averaged'"),
        ({"masks": "paper"}, ValueError, "masks must be 'blocks' or 'bernoulli', got 'paper'"),
        (
            {"surrogate": None},
            ValueError,
            "surrogate must be 'online' or 'incremental' or 'auto', got None",
        ),
        ({"init": "zeros"}, ValueError, "init must be 'samples' or 'random' or 'nndsvd' or 'auto'"),
        ({"init": np.ones(60)}, ValueError, "'nndsvd' or 'auto' or an array of shape"),
        ({"init": np.ones((3, 60))}, ValueError, "init must have n_components=4 rows, got 3"),
        ({"init": np.ones((4, 59))}, ValueError, "init must have n_features=60 columns, got 59"),
        ({"init": np.full((4, 60), np.nan)}, ValueError, "init must be finite"),
        ({"positive_code": 1}, TypeError, "positive_code must be True or False, got 1"),
        ({"code_tol": -1e-3}, ValueError, "code_tol must be at least 0"),
        ({"record_every": 0}, ValueError, "record_every must be at least 1"),
        ({"device": "tpu"}, ValueError, "device must be 'cpu' or 'cuda', got 'tpu'"),
        ({"n_threads": 0}, ValueError, "n_threads must be at least 1"),
        ({"dtype": "int32"}, ValueError, "dtype must be None, float32 or float64, got 'int32'"),
        ({"callbacks": [3]}, TypeError, "callbacks must be callables, got 3"),
        ({"callbacks": None}, TypeError, "callbacks must be callables, got None"),
        ({"verbose": -1}, ValueError, "verbose must be at least 0"),
    ],
    ids=str,
)
def test_a_bad_parameter_is_refused_and_changes_nothing(toy, params, error, message):
    model = MatrixFactorization(4, reduction=2, random_state=0).fit(toy)
    before = model.components_.copy()
    model.set_params(**params)
    with pytest.raises(error, match=message):
        model.fit(toy)
    np.testing.assert_array_equal(model.components_, before)


def test_a_reduction_larger_than_the_number_of_features_is_capped(toy):
    capped = DictionaryLearning(4, reduction=1000, random_state=0).fit(toy[:, :6])
    largest = DictionaryLearning(4, reduction=6, random_state=0).fit(toy[:, :6])
    np.testing.assert_array_equal(capped.components_, largest.components_)
    assert capped.reduction == 1000


@pytest.mark.parametrize("dtype", [np.float32, "float32", np.dtype("float32")])
def test_the_type_of_computations_may_be_chosen(toy, dtype):
    assert DictionaryLearning(4, dtype=dtype).fit(toy).components_.dtype == np.float32


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("float16", "float32"),
        ("float32", "float32"),
        (">f4", "float32"),
        ("float64", "float64"),
        ("int16", "float64"),
    ],
)
def test_the_type_of_computations_follows_the_data(toy, given, expected):
    X = (toy * 100).astype(given)
    assert DictionaryLearning(4, alpha=10, random_state=0).fit(X).components_.dtype == expected
