"""The atoms of a report: each is a button with a picture, a curve and some facts.

The numbers of atoms, pixels and points of curves are limited, and so is the size of the page.
"""

import json
import struct
import zlib
from base64 import b64encode
from html import escape
from typing import Any

import numpy as np

from somf.inference.measurement import Measurement
from somf.plotting.pictures import as_curves, as_pictures, has_spectra
from somf.report.charts import number, rounded
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

LONGEST_NAME = 60
"""The largest number of characters of the name of a feature."""

BOX = (1000, 500)
"""Width and height of a curve, in units of the SVG element."""


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
    curves, usual = _curves(components, patch_shape, order)
    kind = "spectral" if has_spectra(patch_shape) else "curves" if patch_shape is None else "plain"
    parts = [usual, f'<ol id="atom-list" class="{kind}">']
    names = getattr(model, "feature_names_in_", None)
    for place, j in enumerate(order):
        known, words = _known_of(components[j], int(j), measurement)
        known["place"] = place
        title, label = "", f"Atom {j} {words}"
        if patch_shape is None:
            largest = _largest(components[j], names)
            known["features"] = json.dumps(largest)
            if names is not None:
                title = escape(", ".join(name for name, _ in largest[:3]))
                label, title = f"{label}: {title}", f"<em>{title}</em>"
        data = " ".join(f'data-{key}="{escape(str(value))}"' for key, value in known.items())
        unused = ' class="unused"' if known.get("usage") == 0 else ""
        parts.append(
            f'<li{unused} {data}><button type="button" aria-haspopup="dialog" '
            f'aria-label="{label}">{pictures[place]}{curves[place]}{title}'
            f"<span>{j}</span><small>{words}</small></button></li>"
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
    pictures = _shrunk(as_pictures(components[order].reshape(-1, *patch_shape)), side)
    elements = []
    for picture in (255 * pictures + 0.5).astype(np.uint8):
        height, width = picture.shape[:2]
        source = b64encode(png(picture)).decode()
        elements.append(
            f'<img alt="" width="{width}" height="{height}" src="data:image/png;base64,{source}">'
        )
    return elements


def _shrunk(pictures: Array, side: int) -> Array:
    """Return pictures of at most `side` pixels along a side, each the mean of those it covers."""
    for axis in (1, 2):
        length = pictures.shape[axis]
        if length > side:
            starts = np.linspace(0, length, side, endpoint=False).astype(int)
            counts = np.diff([*starts, length])
            shape = [-1 if i == axis else 1 for i in range(4)]
            pictures = np.add.reduceat(pictures, starts, axis=axis) / counts.reshape(shape)
    return pictures


def png(picture: Array) -> bytes:
    """Return a picture of shape (height, width, 3) and type uint8 as a PNG file."""
    height, width = picture.shape[:2]
    is_gray = bool((picture == picture[..., :1]).all())
    lines = (picture[..., 0] if is_gray else picture).reshape(height, -1)
    raw = np.insert(lines, 0, 0, axis=1).tobytes()  # every line begins with its filter: none
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if is_gray else 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def _curves(
    components: Array, patch_shape: tuple[int, ...] | None, order: Ints
) -> tuple[list[str], str]:
    """Return an SVG curve for each atom, and the background that all of them share."""
    if patch_shape is not None and not has_spectra(patch_shape):
        return [""] * len(order), ""
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
    elements = [
        f'<svg class="curve" viewBox="-8 -8 {BOX[0] + 16} {BOX[1] + 16}" '
        'preserveAspectRatio="none" aria-hidden="true" '
        f'data-low="{rounded(a)}" data-high="{rounded(b)}" '
        f'data-what="{what}" data-last="{number(values.shape[1] - 1)}">'
        + ('<use href="#usual"/>' if is_shared else _line(usual[0], a, b, "usual"))
        + f"{_line(curve, a, b, 'line')}</svg>"
        for curve, a, b in zip(curves, low, high, strict=True)
    ]
    background = (
        '<svg class="hidden" aria-hidden="true"><defs><g id="usual">'
        f"{_line(usual[0], low[0], high[0], 'usual')}</g></defs></svg>"
    )
    return elements, background if is_shared else ""


def _line(curve: Array, low: float, high: float, kind: str) -> str:
    span = high - low if high > low else 1
    y = np.round(BOX[1] * (1 - (curve - low) / span)).astype(int)
    x = np.round(np.linspace(0, BOX[0], len(curve))).astype(int)
    points = "L".join(f"{a} {b}" for a, b in zip(x, y, strict=True))
    return f'<path class="{kind}" d="M{points}"/>'


def _largest(atom: Array, names: Array | None) -> list[tuple[str, str]]:
    """Return the names and weights of the features of largest weight."""
    n = min(N_FEATURES_NAMED, len(atom))
    largest = np.argpartition(-np.abs(atom), n - 1)[:n]
    largest = largest[np.argsort(-np.abs(atom[largest]), kind="stable")]
    return [
        (f"feature {i}" if names is None else str(names[i])[:LONGEST_NAME], rounded(atom[i]))
        for i in largest
        if atom[i] != 0
    ]
