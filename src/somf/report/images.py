"""Pictures inside a page: PNG files as text, written without a library."""

import struct
import zlib
from base64 import b64encode
from html import escape

import numpy as np

from somf.typing import Array


def image_element(picture: Array, alt: str = "") -> str:
    """Return the HTML element of a picture.

    Parameters
    ----------
    picture : ndarray of shape (height, width, 3)
        From 0 to 1.
    alt : str
        What it shows, for people who do not see it; empty if the text beside it says so.
    """
    height, width = picture.shape[:2]
    source = b64encode(png((255 * picture + 0.5).astype(np.uint8))).decode()
    return (
        f'<img alt="{escape(alt)}" width="{width}" height="{height}" '
        f'src="data:image/png;base64,{source}">'
    )


def shrunk(pictures: Array, side: int) -> Array:
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
