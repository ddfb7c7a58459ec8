"""The atoms of a report: each is a button with a picture, a curve and some facts.

The numbers of atoms, pixels and points of curves are limited, and so is the size of the page.
"""

import json
from html import escape
from typing import Any

import numpy as np

from somf.data.channels import Channels
from somf.inference.largest import largest_features
from somf.inference.measurement import Measurement
from somf.plotting.pictures import as_curves, as_pictures, has_spectra, known_channels
from somf.report.charts import CURVE_BOX, curve_path, number, rounded
from somf.report.images import image_element, shrunk
from somf.typing import Array, Ints

MOST_ATOMS = 1024
"""The largest number of atoms on a page."""

MOST_PIXELS = 2**20
"""The largest number of pixels of all pictures together: 32 x 32 for each of 1024 atoms."""

LARGEST_SIDE = 128
"""The largest number of pixels along the side of a picture."""

MOST_POINTS = 2**17
"""The largest number of points of all curves together: 128 for each of 1024 atoms."""

LONGEST_CURVE = 256
"""The largest number of points of one curve."""

N_FEATURES_NAMED = 8
"""How many features of largest weight are listed for an atom."""

N_IN_TITLE = 5
"""How many of them are shown without enlarging the atom."""

LONGEST_NAME = 60
"""The largest number of characters of the name of a feature."""


def atom_list(
    model: Any, patch_shape: tuple[int, ...] | None, measurement: Measurement | None
) -> str:
    """Return an HTML list with an item for each atom, most used first.

    Parameters
    ----------
    model : fitted estimator
    patch_shape : tuple of int or None
        The shape of an atom as a picture; None if atoms are curves.
    measurement : Measurement or None
        The usage of atoms, if there is data.
    """
    components = model.components_
    order = np.arange(len(components)) if measurement is None else measurement.order
    order = order[:MOST_ATOMS]
    pictures = _pictures(components, patch_shape, order)
    curves, usual = _curves(model, patch_shape, order)
    kind = "spectral" if has_spectra(patch_shape) else "curves" if patch_shape is None else "plain"
    parts = [usual, f'<ol id="atom-list" class="{kind}">']
    names = getattr(model, "feature_names_in_", None)
    for place, j in enumerate(order):
        known, words = _known_of(components[j], int(j), measurement)
        known["place"] = place
        title = ""
        if patch_shape is None:
            largest = _largest(components[j], names)
            known["features"] = json.dumps(largest)
            if names is not None:
                title = f"<em>{escape(', '.join(name for name, _ in largest[:N_IN_TITLE]))}</em>"
        data = " ".join(f'data-{key}="{escape(str(value))}"' for key, value in known.items())
        unused = ' class="unused"' if known.get("usage") == 0 else ""
        parts.append(
            f'<li{unused} {data}><button type="button" aria-haspopup="dialog">'
            f'{pictures[place]}{curves[place]}<span><i class="unseen">Atom </i>{j}</span> '
            f"<small>{words}</small>{title}</button></li>"
        )
    return "\n".join([*parts, "</ol>"])


def _known_of(atom: Array, j: int, measurement: Measurement | None) -> tuple[dict[str, Any], str]:
    """Return the facts about an atom, for the script of the page, and the main one as text."""
    known = {
        "number": j,
        "norm": f"{np.linalg.norm(atom):.4g}",
        "filled": f"{np.mean(atom != 0):.4g}",
    }
    if measurement is None:
        return known, ""
    usage, size = float(measurement.usage[j]), float(measurement.size[j])
    known |= {"usage": float(f"{usage:.6g}"), "size": f"{size:.3g}"}
    if measurement.is_dense:
        return known, f"mean size {size:.2g}"
    return known, f"{usage:.1%}" if usage else "unused"


def _pictures(components: Array, patch_shape: tuple[int, ...] | None, order: Ints) -> list[str]:
    """Return an image element for each atom; empty texts if atoms are not pictures."""
    if patch_shape is None:
        return [""] * len(order)
    side = min(LARGEST_SIDE, int(np.sqrt(MOST_PIXELS / len(order))))
    pictures = shrunk(as_pictures(components[order].reshape(-1, *patch_shape)), side)
    return [image_element(picture) for picture in pictures]


def _curves(model: Any, patch_shape: tuple[int, ...] | None, order: Ints) -> tuple[list[str], str]:
    """Return an SVG curve for each atom, and the background that all of them share."""
    if patch_shape is not None and not has_spectra(patch_shape):
        return [""] * len(order), ""
    components = model.components_
    n_points = min(LONGEST_CURVE, MOST_POINTS // len(order))
    if patch_shape is None:
        values = components[order]
        curves = as_curves(values, n_points)
        low = np.minimum(curves.min(axis=1), 0)
        high = np.maximum(curves.max(axis=1), 0)
        usual = np.zeros((1, 2))
        what = "feature"
    else:
        spectra = components.reshape(-1, *patch_shape).mean(axis=(1, 2))
        values, usual = spectra[order], as_curves(spectra.mean(axis=0)[None], n_points)
        curves = as_curves(values, n_points)
        low = np.full(len(order), min(curves.min(), usual.min()))
        high = np.full(len(order), max(curves.max(), usual.max()))
        what = "channel"
    is_shared = patch_shape is not None
    x, ends = _axis(known_channels(model, values.shape[1]), what, values.shape[1], curves.shape[1])
    elements = [
        f'<svg class="curve" {CURVE_BOX} aria-hidden="true" '
        f'data-low="{rounded(a)}" data-high="{rounded(b)}" '
        f'data-first="{escape(ends[0])}" data-last="{escape(ends[1])}">'
        + ('<use href="#usual"/>' if is_shared else curve_path(usual[0], a, b, "usual"))
        + f"{curve_path(curve, a, b, 'line', x)}</svg>"
        for curve, a, b in zip(curves, low, high, strict=True)
    ]
    background = (
        '<svg class="hidden" aria-hidden="true"><defs><g id="usual">'
        f"{curve_path(usual[0], low[0], high[0], 'usual', x if is_shared else None)}"
        "</g></defs></svg>"
    )
    return elements, background if is_shared else ""


def _axis(
    channels: Channels | None, what: str, n_values: int, n_points: int
) -> tuple[Array | None, tuple[str, str]]:
    """Return where the points of curves lie, if not at equal distances, and texts for both ends."""
    if channels is None or channels.values is None:
        return None, (f"{what} 0", number(n_values - 1))
    values = np.array(channels.values)
    x = np.array([part.mean() for part in np.array_split(values, n_points)])
    ends = [f"{rounded(value, 4)} {channels.unit}".rstrip() for value in (x.min(), x.max())]
    return x, (f"{channels.label} {ends[0]}", ends[1])


def _largest(atom: Array, names: Array | None) -> list[tuple[str, str]]:
    """Return the names and weights of the features of largest weight."""
    return [
        (f"feature {i}" if names is None else str(names[i])[:LONGEST_NAME], rounded(atom[i]))
        for i in largest_features(atom, N_FEATURES_NAMED)
    ]
