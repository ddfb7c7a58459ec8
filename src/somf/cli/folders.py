"""Folders that are given as data: of Zarr or of 10x Genomics. All others are not data."""

import os
from collections.abc import Sequence

import click

from somf.data.formats.kinds import matrix_of_10x

MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
"""Files of which a Zarr array or group has at least one."""


def check_folders(paths: Sequence[str]) -> None:
    """Raise an error if a path is a folder that is neither of Zarr nor of 10x Genomics."""
    for path in paths:
        is_data = any(map(os.path.exists, _marks_in(path))) or matrix_of_10x(path) is not None
        if os.path.isdir(path) and not is_data:
            raise click.UsageError(
                f"{path!r} is a folder, not data, and not a Zarr array. {_hint(path)}"
            )


def _marks_in(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in MARKS]


def _hint(folder: str) -> str:
    endings = {os.path.splitext(entry.name)[1] for entry in os.scandir(folder) if entry.is_file()}
    known = [ending for ending in (".npy", ".npz", ".h5", ".hdf5") if ending in endings]
    example = os.path.join(folder, f"*{known[0] if known else '.npy'}")
    return f"Name the files in it, or a quoted pattern, such as '{example}'."
