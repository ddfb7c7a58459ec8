"""Matched atoms are drawn as pairs."""

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")

from somf.plotting import plot_matches


@pytest.mark.parametrize("shape", [None, (2, 3), (1, 2, 3), (1, 1, 6)])
def test_every_pair_has_its_numbers_and_its_similarity(shape):
    atoms = np.random.default_rng(0).standard_normal((10, 6))
    ax = plot_matches(atoms, -atoms[::-1], shape, n_pairs=9)
    labels = [text.get_text() for text in ax.texts]
    assert len(labels) == 9
    for label in labels:
        numbers, similarity = label.split("\n")
        assert sum(map(int, numbers.split(", "))) == 9
        assert similarity == "1.00"
    assert ax.get_title() == "9 of 10 pairs, mean similarity 1.00"


def test_a_picture_is_above_its_partner():
    one, other = np.zeros((1, 4)), np.zeros((1, 4))
    one[0, 0] = other[0, 0] = 1
    (image,) = plot_matches(one, other, (2, 2)).images
    picture = np.asarray(image.get_array())[..., 0]
    height = picture.shape[0]
    bright = np.flatnonzero(((picture == 1) & (np.roll(picture, 1, axis=0) < 1)).any(axis=1))
    assert len(bright) >= 2
    assert bright.max() < height
