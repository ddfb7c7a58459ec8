"""Pictures in a report are PNG files that others can read."""

from io import BytesIO

import numpy as np
import pytest

from somf.report.images import png


@pytest.mark.parametrize("is_gray", [False, True])
def test_a_png_is_read_back_as_it_was_written(is_gray):
    image = pytest.importorskip("PIL.Image", reason="Pillow comes with the extra 'images'")
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    if is_gray:
        picture[...] = picture[..., :1]
    read = image.open(BytesIO(png(picture)))
    assert read.mode == ("L" if is_gray else "RGB")
    np.testing.assert_array_equal(np.asarray(read.convert("RGB")), picture)
