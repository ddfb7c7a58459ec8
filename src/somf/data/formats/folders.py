"""Folders that are data: of Zarr or of 10x Genomics."""

import os

from somf.data.formats.kinds import Kind, matrix_of_10x

MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
"""Files of which a Zarr array or group has at least one."""


def why_no_data(path: str) -> str | None:
    """Return why a folder cannot be read, and what to do; None if it can, and for a file.

    Parameters
    ----------
    path : str
    """
    marks = (os.path.join(path, name) for name in MARKS)
    if not os.path.isdir(path) or matrix_of_10x(path) or any(map(os.path.exists, marks)):
        return None
    endings = {os.path.splitext(entry.name)[1] for entry in os.scandir(path) if entry.is_file()}
    known = (ending for kind in Kind if kind.holds_matrix for ending in kind.endings)
    example = os.path.join(path, f"*{next((end for end in known if end in endings), '.npy')}")
    return (
        f"{path!r} is a folder, not data: neither a Zarr array nor a matrix of 10x Genomics. Name "
        f"the files in it, or a quoted pattern, such as '{example}'."
    )
