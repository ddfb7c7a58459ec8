"""Arrays of Zarr, version 3 of the library (formats 2 and 3)."""

from typing import Any

from somf.data.guard import check_claim, guarded, optional
from somf.data.hdf5 import choose
from somf.tensorfile import DamagedFileError


def open_array(path: str, name: str | None = None) -> Any:
    """Open an array, or the array of a group.

    Parameters
    ----------
    path : str
    name : str, optional
        Its name in the group; may be left out if there is only one matrix.

    Returns
    -------
    array : zarr.Array
    """
    zarr = optional("zarr", "zarr")
    with guarded(path, "a Zarr array or group"):
        node = zarr.open(path, mode="r")
        if isinstance(node, zarr.Group):
            arrays = {at: item for at, item in node.members(max_depth=None) if _is_array(item)}
            matrices = [at for at, item in arrays.items() if item.ndim == 2]
            chosen = choose(path, matrices, name)
            if chosen not in arrays:
                raise DamagedFileError(
                    f"dataset must be one of {matrices} in {path!r}, got {name!r}."
                )
            node = arrays[chosen]
        elif name is not None:
            raise DamagedFileError(f"dataset must be None, got {name!r}: {path!r} is an array.")
        # Chunks that were never written read as the fill value, but not all of them.
        check_claim(path, node.nbytes, node.nbytes_stored())
    return node


def _is_array(item: Any) -> bool:
    return hasattr(item, "dtype")
