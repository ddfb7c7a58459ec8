"""Models and samples to draw; figures are closed after each test."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

from somf import DictionaryLearning

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def components():
    return np.random.default_rng(0).standard_normal((10, 4 * 5 * 7)).astype(np.float32)


@pytest.fixture
def history():
    return {
        "n_samples_seen": [0, 50, 100],
        "n_iter": [0, 1, 2],
        "compute_seconds": [0.0, 0.5, 1.0],
        "wall_seconds": [0.1, 0.7, 1.3],
        "objective": [3.0, 2.0, 1.5],
    }


@pytest.fixture
def samples():
    return np.random.default_rng(0).standard_normal((60, 20))


@pytest.fixture
def model(samples):
    return DictionaryLearning(3, alpha=0.5, reduction=2, random_state=0).fit(samples)
