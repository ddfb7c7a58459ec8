"""What the channels of samples are: wavelengths with their unit, or names."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

WAVELENGTH = "wavelength"
"""What values are unless something else is known of them."""

QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\D.*)?")
"""A number, and perhaps a unit after it."""

LONGEST_TEXT = 200
"""The largest number of characters of a label or a unit."""


@dataclass(frozen=True)
class Channels:
    """The channels of a pixel, or the features of a spectrum.

    Parameters
    ----------
    values : sequence of float, optional
        Where the channels lie on an axis, such as their wavelengths.
    unit : str
        The unit of the values, such as ``"nm"``; empty if it is not known.
    label : str
        What the values are.
    names : sequence of str, optional
        The names of the channels.
    """

    values: tuple[float, ...] | None = None
    unit: str = ""
    label: str = WAVELENGTH
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.values is not None:
            object.__setattr__(self, "values", tuple(map(float, self.values)))
            if not all(map(math.isfinite, self.values or ())):
                raise ValueError("the values of channels must be finite")
        if self.names is not None:
            object.__setattr__(self, "names", tuple(map(str, self.names)))
        if len({len(part) for part in (self.values, self.names) if part is not None}) > 1:
            raise ValueError("channels must have as many names as values")

    def __len__(self) -> int:
        return len(self.values or self.names or ())

    @property
    def title(self) -> str:
        """The label of an axis with the values: ``"wavelength (nm)"``."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def texts(self) -> list[str]:
        """The names of the channels, or else their values with the unit."""
        if self.names is not None:
            return list(self.names)
        return [f"{value:.10g} {self.unit}".rstrip() for value in self.values or ()]

    def fields(self) -> dict[str, Any]:
        """Return the parts as JSON can hold them."""
        return {
            "values": None if self.values is None else list(self.values),
            "unit": self.unit,
            "label": self.label,
            "names": None if self.names is None else list(self.names),
        }

    @classmethod
    def restore(cls, fields: dict[str, Any]) -> Self:
        """Return the channels that `fields` describes, which may come from an untrusted file.

        Raises
        ------
        ValueError
            If they are not what `fields` returns.
        """
        values, names = fields["values"], fields["names"]
        texts = [fields["unit"], fields["label"], *([] if names is None else names)]
        numbers = [] if values is None else values
        is_text = all(isinstance(text, str) for text in texts)
        is_number = all(type(value) in (int, float) for value in numbers)
        if not (is_text and is_number) or max(map(len, texts[:2])) > LONGEST_TEXT:
            raise ValueError("its channels are not numbers and names")
        return cls(values, fields["unit"], fields["label"], names)


def channels_from(texts: Sequence[str]) -> Channels:
    """Return channels from texts: wavelengths if all are numbers, with one unit or none.

    Parameters
    ----------
    texts : sequence of str
        Such as ``"450.3 nm"``, ``"450.3"`` or ``"red"``.
    """
    matches = [QUANTITY.fullmatch(text) for text in texts]
    units = {"" if match is None else (match[2] or "").strip() for match in matches}
    if len(units) > 1 or not all(matches):
        return Channels(names=tuple(texts))
    return Channels(tuple(float(match[1]) for match in matches if match), units.pop())


def channels_at(coordinates: Any, unit: Any = None, label: Any = None) -> Channels | None:
    """Return the channels with some coordinates, or None if these say nothing.

    Parameters
    ----------
    coordinates : array-like of shape (n,)
        Numbers, or names.
    unit, label : str, optional
        What a file or a library says of them.
    """
    array = np.asarray(coordinates)
    if array.dtype.kind in "mM":  # times
        array = array.astype(str)
    if array.ndim != 1 or not len(array):
        return None
    if array.dtype.kind not in "fiu":
        return Channels(names=tuple(map(_text, array.tolist())))
    if not np.isfinite(array).all():
        return None
    texts = [_text(text).strip()[:LONGEST_TEXT] for text in (unit or "", label or WAVELENGTH)]
    return Channels(tuple(array.tolist()), texts[0], texts[1] or WAVELENGTH)


def _text(value: Any) -> str:
    """Return a value as text; a file may have bytes, and a label of several levels is a tuple."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return ", ".join(map(_text, value)) if isinstance(value, tuple) else str(value)
