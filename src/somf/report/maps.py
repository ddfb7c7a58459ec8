"""Where in an image the atoms are used, and where the model explains it badly.

A map has one pixel for every patch, or for every second, third, … patch of a large image.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from somf.data import ImagePatches
from somf.data.sources.selected import SelectedSource
from somf.inference.measurement import Measurement
from somf.plotting.pictures import as_pictures
from somf.report.charts import rounded
from somf.report.images import image_element, shrunk
from somf.typing import Array, Ints

LARGEST_SIDE = 160
"""The largest number of pixels along the side of a map."""

MOST_VALUES = 2**30
"""The largest number of values of all patches that are coded for the maps."""

ROWS_AT_ONCE = 2**24
"""Values of the patches whose errors are computed at once."""

MOST_MAPS = 64
"""The largest number of atoms that have a map."""

SCENE_SIDE = 320
"""The largest number of pixels along the side of the picture of the image."""

SEQUENTIAL = np.array([[0, 0, 4], [81, 18, 124], [183, 55, 121], [252, 137, 97], [252, 253, 191]])
"""Colours from zero to the largest value, as bytes."""

DIVERGING = np.array(
    [[33, 102, 172], [146, 197, 222], [247, 247, 247], [244, 165, 130], [178, 24, 43]]
)
"""Colours from minus the largest size to the largest size, zero in the middle."""

NO_DATA = 0.5
"""The gray of pixels without a patch."""


@dataclass(frozen=True)
class _Grid:
    """The patches of an image that have a pixel in maps."""

    ids: Ints
    cells: tuple[Ints, Ints]
    shape: tuple[int, int]
    step: int

    def map_of(self, values: Array) -> Array:
        """Return numbers of patches as an image; NaN where there is no patch."""
        image = np.full(self.shape, np.nan)
        image[self.cells] = values
        return image


def maps(model: Any, data: ImagePatches, measurement: Measurement) -> str:
    """Return the image, the map of its error, and the maps of the codes with a slider."""
    grid = _grid_of(data)
    shown = SelectedSource(data, grid.ids)
    codes = model.transform(shown, sparse=True)
    errors = _errors(model, shown, codes)
    atoms = measurement.order[:MOST_MAPS]
    code_maps = [grid.map_of(codes[:, [j]].toarray()[:, 0]) for j in atoms.tolist()]
    return "".join(
        [
            f'<p class="hint">{_note(data, grid, len(atoms), len(model.components_))}</p>',
            '<div class="maps">',
            _scene(data),
            _residuals(grid.map_of(errors)),
            _slider(atoms, code_maps),
            "</div>",
        ]
    )


def _image_shown(patches: ImagePatches) -> int:
    """Return which of several images has maps: the one with most patches."""
    return int(np.argmax(np.diff(patches.starts)))


def _grid_of(patches: ImagePatches) -> _Grid:
    """Return the patches to show: all, or those of every so many rows and columns."""
    i = _image_shown(patches)
    own = np.arange(patches.starts[i], patches.starts[i + 1])
    *planes, rows, columns = patches.positions[own].T
    if planes:  # of a volume, the plane in the middle
        is_shown = planes[0] == np.sort(planes[0])[len(own) // 2]
        own, rows, columns = own[is_shown], rows[is_shown], columns[is_shown]
    step = 1
    while True:
        lines, places = np.unique(rows)[::step], np.unique(columns)[::step]
        at = np.flatnonzero(np.isin(rows, lines) & np.isin(columns, places))
        is_small = max(len(lines), len(places)) <= LARGEST_SIDE
        if (is_small and len(at) * patches.shape[1] <= MOST_VALUES) or len(at) <= 1:
            break
        step += 1
    cells = np.searchsorted(lines, rows[at]), np.searchsorted(places, columns[at])
    return _Grid(own[at], cells, (len(lines), len(places)), step)


def _errors(model: Any, source: SelectedSource, codes: Any) -> Array:
    """Return ‖x − Dα‖ / ‖x‖ of every sample over known entries, of shape (n,)."""
    n, p = source.shape
    errors, n_at_once = np.zeros(n), max(1, ROWS_AT_ONCE // p)
    for start in range(0, n, n_at_once):
        ids = np.arange(start, min(start + n_at_once, n))
        samples = np.asarray(source.rows(ids), dtype=np.float64)  # squares of integers overflow
        missed = samples - model.inverse_transform(codes[ids])
        sq_norm = np.nansum(samples**2, axis=1)
        errors[ids] = np.sqrt(np.nansum(missed**2, axis=1) / np.where(sq_norm > 0, sq_norm, 1))
    return errors


def _note(patches: ImagePatches, grid: _Grid, n_atoms: int, k: int) -> str:
    which = "every patch" if grid.step == 1 else f"one in {grid.step} × {grid.step} patches"
    more = f" Shown are the {n_atoms} most used of {k} atoms." if n_atoms < k else ""
    if len(patches.images) > 1:
        more = f" Of {len(patches.images)} images, the one with most patches is shown.{more}"
    if patches.positions.shape[1] == 3:
        more = f" Shown is the plane in the middle of the volume.{more}"
    return f"Maps have a pixel for {which}, at its place in the image.{more}"


def _scene(patches: ImagePatches) -> str:
    image = patches.images[_image_shown(patches)]
    if patches.positions.shape[1] == 3:  # of a volume, the plane in the middle
        image = image[len(image) // 2]
    image = image if image.ndim == 3 else image[:, :, None]
    step = -(-max(image.shape[:2]) // SCENE_SIDE)
    some = np.nan_to_num(np.asarray(image[::step, ::step], dtype=np.float64))
    if (
        some.shape[2] <= 3
    ):  # a photograph: its own colours, without the darkest and brightest pixels
        low, high = np.percentile(some, [0.5, 99.5])
        some = np.clip((some - low) / (high - low if high > low else 1), 0, 1)
    picture = shrunk(as_pictures(some[None]), SCENE_SIDE)[0]
    return _figure(image_element(picture, "The image"), "The image")


def _residuals(errors: Array) -> str:
    high = float(np.nanmax(errors))
    picture = _colored(errors, 0.0, high, SEQUENTIAL)
    caption = f"Error of the patches, ‖x − Dα‖ / ‖x‖: from 0 (dark) to {rounded(high)} (bright)"
    return _figure(image_element(picture, "Map of the error"), caption)


def _slider(atoms: Ints, code_maps: list[Array]) -> str:
    """Return the maps of codes, of which one is visible, and the slider that chooses it."""
    parts = []
    for place, (j, image) in enumerate(zip(atoms.tolist(), code_maps, strict=True)):
        size = float(np.nanmax(np.abs(image)))
        is_signed = bool(np.nanmin(image) < 0)
        low, colors = (-size, DIVERGING) if is_signed else (0.0, SEQUENTIAL)
        picture = image_element(_colored(image, low, size, colors), f"Map of the codes of atom {j}")
        scale = "blue" if is_signed else "dark"
        ends = f"{rounded(low)} ({scale}) to {rounded(size)} ({'red' if is_signed else 'bright'})"
        parts.append(
            f'<div class="code-map" data-number="{j}"{" hidden" if place else ""}>{picture}'
            f"<p>Codes of atom {j}: from {ends}</p></div>"
        )
    control = (
        '<div class="slider"><label for="map-slider">Atom, most used first</label>'
        f'<input type="range" id="map-slider" min="0" max="{len(atoms) - 1}" value="0" '
        f'aria-valuetext="Atom {int(atoms[0])}"></div>'
    )
    return f'<figure id="code-maps">{"".join(parts)}{control}</figure>'


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _colored(image: Array, low: float, high: float, colors: Array) -> Array:
    """Return an image of numbers in colours, of shape (height, width, 3), from 0 to 1."""
    span = high - low if high > low else 1.0
    at = np.clip((image - low) / span, 0, 1)
    stops = np.linspace(0, 1, len(colors))
    picture = np.stack([np.interp(at, stops, channel) for channel in colors.T / 255], axis=-1)
    return np.where(np.isnan(image)[..., None], NO_DATA, picture)
