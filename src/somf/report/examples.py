"""Some samples of a report beside their reconstructions."""

from typing import Any

import numpy as np

from somf.data import as_source
from somf.plotting.pictures import as_curves, color_range, colors_of, has_spectra
from somf.plotting.reconstructions import relative_errors, samples_and_reconstructions
from somf.report.charts import curves, number
from somf.report.images import image_element, shrunk
from somf.typing import Array

N_EXAMPLES = 8
"""The largest number of samples."""

LARGEST_SIDE = 96
"""The largest number of pixels along the side of a picture."""

LONGEST_CURVE = 256
"""The largest number of points of a curve."""


def examples(model: Any, data: Any, patch_shape: tuple[int, ...] | None) -> str:
    """Return samples beside their reconstructions, as pictures, curves or both."""
    n = as_source(data).shape[0]
    n_shown = min(n, N_EXAMPLES)
    ids = ((np.arange(n_shown) + 0.5) * n / n_shown).astype(int)
    samples, again = samples_and_reconstructions(model, data, n_shown, ids)
    pictures = _pictures(samples, again, patch_shape)
    lines = _curves(samples, again, patch_shape)
    figures = "".join(
        f'<figure class="example">{pictures[i]}{lines[i]}<figcaption>Sample {number(int(ids[i]))}: '
        f"error {error:.0%}</figcaption></figure>"
        for i, error in enumerate(relative_errors(samples, again))
    )
    return f'<p class="hint">{_note(patch_shape)}</p><div class="examples">{figures}</div>'


def _note(patch_shape: tuple[int, ...] | None) -> str:
    parts = []
    if _has_pictures(patch_shape):
        parts.append(
            "Pictures are a sample, its reconstruction, and the error, where zero is black."
        )
    if patch_shape is None or has_spectra(patch_shape):
        what = "sample" if patch_shape is None else "mean spectrum of the sample"
        parts.append(f"Curves are the {what} in gray and its reconstruction in blue.")
    return " ".join([*parts, "The number is ‖x − Dα‖ / ‖x‖."])


def _has_pictures(patch_shape: tuple[int, ...] | None) -> bool:
    return patch_shape is not None and patch_shape[0] * patch_shape[1] > 1


def _pictures(samples: Array, again: Array, patch_shape: tuple[int, ...] | None) -> list[str]:
    """Return sample, reconstruction and error in a row; empty texts if samples are not pictures."""
    if patch_shape is None or not _has_pictures(patch_shape):
        return [""] * len(samples)
    colors, colors_again = (colors_of(x.reshape(-1, *patch_shape)) for x in (samples, again))
    low, high = color_range(colors, has_spectra(patch_shape))
    trio = (colors - low, colors_again - low, np.abs(colors - colors_again))
    rows = [shrunk(np.clip(row / (high - low), 0, 1), LARGEST_SIDE) for row in trio]
    words = ("The sample", "Its reconstruction", "The error")
    return [
        '<div class="trio">'
        + "".join(image_element(row[i], word) for row, word in zip(rows, words, strict=True))
        + "</div>"
        for i in range(len(samples))
    ]


def _curves(samples: Array, again: Array, patch_shape: tuple[int, ...] | None) -> list[str]:
    """Return a sample and its reconstruction as curves; empty texts if they have none."""
    if patch_shape is not None and not has_spectra(patch_shape):
        return [""] * len(samples)
    if patch_shape is not None:
        samples, again = (x.reshape(-1, *patch_shape).mean(axis=(1, 2)) for x in (samples, again))
    lines = [as_curves(x, LONGEST_CURVE) for x in (samples, again)]
    return [
        curves([(one, "usual"), (other, "line")], "The sample and its reconstruction")
        for one, other in zip(*lines, strict=True)
    ]
