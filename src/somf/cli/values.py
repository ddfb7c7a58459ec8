"""Values of options: from the text of a command line to numbers and sizes.

click may convert a value twice, so a value that is converted already is returned as it is.
"""

import re
from typing import Any

import click
import numpy as np

from somf.algorithm.config import AUTO
from somf.data.images.no_data import MISSING

NONE = "none"
"""The value of --patches and --mask that overrides what a model has stored."""


def size(value: Any) -> tuple[int, int]:
    """Return two integers, from a text such as 16x8, or from 16, which means 16x16."""
    if isinstance(value, tuple):
        return value
    match = re.fullmatch(r"([1-9]\d*)(?:x([1-9]\d*))?", str(value))
    if match is None:
        raise click.BadParameter(f"{value!r} is not of the form 16 or 16x16.")
    return int(match[1]), int(match[2] or match[1])


def patch_size_or_none(value: Any) -> tuple[int, ...] | str:
    """Return two or three integers, or the word ``none``; 16 means 16x16."""
    if value == NONE:
        return NONE
    sizes = step(value)
    return (sizes, sizes) if isinstance(sizes, int) else sizes


def step(value: Any) -> tuple[int, ...] | int:
    """Return two or three integers, from a text such as 2x1, or one that holds for all axes."""
    if isinstance(value, tuple | int):
        return value
    if re.fullmatch(r"[1-9]\d*(x[1-9]\d*){0,2}", str(value)) is None:
        raise click.BadParameter(f"{value!r} is not of the form 16, 16x16 or 4x8x8.")
    numbers = tuple(map(int, str(value).split("x")))
    return numbers if len(numbers) > 1 else numbers[0]


def patch_shape(value: Any) -> tuple[int, ...]:
    """Return two or three integers, from a text such as 16x16 or 16x16x3."""
    if isinstance(value, tuple):
        return value
    if re.fullmatch(r"[1-9]\d*(x[1-9]\d*){1,2}", value) is None:
        raise click.BadParameter(f"{value!r} is not of the form 16x16 or 16x16x3.")
    return tuple(map(int, value.split("x")))


def dtype_name(value: str) -> str:
    """Return the name of a data type of NumPy."""
    try:
        np.dtype(value)
    except TypeError as error:
        raise click.BadParameter(f"{value!r} is not a data type of NumPy.") from error
    return value


def number_or_auto(value: Any) -> float | str:
    """Return a number, or the word ``auto``."""
    try:
        return AUTO if value == AUTO else float(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number or {AUTO!r}.") from error


def number_or_missing(value: Any) -> float | str:
    """Return a number, or the word ``missing``."""
    try:
        return MISSING if value == MISSING else float(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number or {MISSING!r}.") from error


def integer_or_auto(value: Any) -> int | str:
    """Return an integer, or the word ``auto``."""
    if value == AUTO:
        return AUTO
    try:
        number = int(value)
    except (ValueError, OverflowError, TypeError) as error:
        raise click.BadParameter(f"{value!r} is not an integer or {AUTO!r}.") from error
    if not isinstance(value, str) and number != value:
        raise click.BadParameter(f"{value!r} is not an integer or {AUTO!r}.")
    return number


def fraction_or_file(value: Any) -> float | str:
    """Return a fraction, or the name of a file; a number is never the name of a file."""
    try:
        fraction = float(value)
    except ValueError:
        return str(value)
    if not 0 < fraction < 1:
        raise click.BadParameter(
            f"It must be a fraction strictly between 0 and 1, or a file, got {value}."
        )
    return fraction
