"""The noise of images."""

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from somf.data import noise_bound, noise_level
from somf.errors import ParameterError


@pytest.mark.parametrize("sigma", [10.0, 25.0])
def test_the_noise_of_a_photograph_is_estimated(sigma):
    clean = load_sample_image("flower.jpg")[:200, :200].astype(float)
    noise = np.random.default_rng(0).standard_normal(clean.shape)
    assert noise_level(clean + sigma * noise) == pytest.approx(sigma, rel=0.1)


def test_pixels_without_data_do_not_count():
    image = 5 * np.random.default_rng(0).standard_normal((50, 50))
    image[:10] = np.nan
    assert noise_level(image) == pytest.approx(5, rel=0.1)


@pytest.mark.parametrize("p", [1, 64, 3000])
def test_nine_of_ten_samples_of_noise_are_within_the_bound(p):
    noise = 3 * np.random.default_rng(0).standard_normal((1000, p))
    share = np.mean(np.linalg.norm(noise, axis=1) <= noise_bound(3, p))
    assert share == pytest.approx(0.9, abs=0.03)


def test_what_has_no_noise_to_measure_is_refused():
    with pytest.raises(ParameterError, match="image must have shape"):
        noise_level(np.ones((2, 2, 2, 2)))
    with pytest.raises(ParameterError, match="sigma must be a number of at least 0, got -1"):
        noise_bound(-1, 5)
