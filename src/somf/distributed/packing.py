"""Several arrays packed into one message."""

from collections.abc import Iterator

import numpy as np

from somf.typing import Array

ALIGNMENT = 8
"""Arrays begin at multiples of this in a message."""


def room_for(n: int, arrays: list[Array], lengths: list[int]) -> Array:
    """Return memory for n messages with so many entries of each array, as (n, bytes)."""
    return np.zeros((n, sum(map(_n_bytes, arrays, lengths))), np.uint8)


def unpacked(messages: Array, arrays: list[Array], lengths: list[int]) -> Iterator[Array]:
    """Yield the entries of each array in some messages, as (n, length)."""
    at = 0
    for array, length in zip(arrays, lengths, strict=True):
        yield messages[:, at : at + length * array.itemsize].view(array.dtype)
        at += _n_bytes(array, length)


def _n_bytes(array: Array, length: int) -> int:
    """Return the bytes of so many entries, aligned."""
    return -(-length * array.itemsize // ALIGNMENT) * ALIGNMENT


def fill(parts: Array, entries: Array) -> None:
    """Put entries into parts one after the other, or all of them into each part."""
    m = parts.shape[1]
    if m == len(entries):
        parts[:] = entries
        return
    n_full = len(entries) // m
    parts[:n_full] = entries[: n_full * m].reshape(n_full, m)
    if n_full * m < len(entries):
        parts[n_full, : len(entries) - n_full * m] = entries[n_full * m :]
