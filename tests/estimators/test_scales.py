"""Data of any scale: a fit ends with finite atoms, or with an error that tells what is wrong."""

import math

import numpy as np
import pytest

from somf import NMF, DictionaryLearning, SparsePCA
from somf.errors import ScaleError
from tests.helpers.problems import planted

X = np.abs(planted(60, 24, 5)[0])
SCALES = {
    "float64": [-320, -300, -200, -162, -154, -150, -100, 0, 100, 150, 153, 154, 155, 200, 300],
    "float32": [-44, -38, -30, -23, -20, -19, -17, -10, 0, 10, 15, 18, 19, 20, 30, 37],
}
PROBLEMS = [
    (DictionaryLearning, 0.1),
    (DictionaryLearning, "auto"),
    (SparsePCA, 0.1),
    (SparsePCA, 0.0),
    (NMF, 0.1),
    (NMF, "auto"),
    (NMF, 0.0),
]

pytestmark = pytest.mark.filterwarnings(
    "ignore:(overflow|invalid|divide|underflow):RuntimeWarning", "ignore:.*duality gap"
)


def scaled(exponent, dtype):
    return (X * 10.0**exponent).astype(dtype)


@pytest.mark.parametrize("reduction", [1, 4])
@pytest.mark.parametrize(("kind", "alpha"), PROBLEMS)
@pytest.mark.parametrize("dtype", SCALES)
def test_a_fit_to_data_of_any_scale_ends_with_finite_atoms_or_tells_the_scale(
    dtype, kind, alpha, reduction
):
    for exponent in SCALES[dtype]:
        model = kind(5, alpha=alpha, reduction=reduction, batch_size=10, random_state=0)
        data = scaled(exponent, dtype)
        message = ""
        try:
            gap, codes = model.fit(data).stationarity_gap(data), model.transform(data)
        except ScaleError as error:
            message = str(error)
        if message:  # the squares of the numbers that a fit computes with are out of range
            assert abs(exponent) > {"float64": 149, "float32": 16}[dtype], exponent
            assert ("too large" if exponent > 0 else "too small") in message, exponent
        else:
            assert math.isfinite(gap), exponent
            assert np.isfinite(codes).all(), exponent
            assert np.isfinite(model.components_).all(), exponent


def test_the_weight_that_is_found_scales_with_the_data():
    found = [
        DictionaryLearning(5, alpha="auto", random_state=0).fit(scaled(0, "float64") * c).alpha_ / c
        for c in (1.0, 2.0**-490, 2.0**490)
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("measure", ["objective", "stationarity_gap", "transform", "score"])
def test_data_too_large_for_a_model_is_an_error_and_no_measure_is_nan(measure):
    model = DictionaryLearning(5, random_state=0).fit(X)
    with pytest.raises(ScaleError, match="overflows float64: X is too large"):
        getattr(model, measure)(X * 1e200)


def test_an_error_about_the_scale_of_float64_does_not_recommend_float64():
    with pytest.raises(ScaleError) as large:
        DictionaryLearning(5).fit(X * 1e200)
    assert "dtype" not in str(large.value)
    with pytest.raises(ScaleError, match="dtype='float64' has a larger range"):
        DictionaryLearning(5).fit(scaled(30, "float32"))


def test_a_penalty_that_leaves_all_codes_empty_is_no_error():
    model = DictionaryLearning(5, alpha=1e6, random_state=0).fit(X * 1e-3)
    assert not model.transform(X * 1e-3).any()
