"""Objects of other libraries, recognised without an import of the library."""

from typing import Any


def comes_from(X: Any, library: str, *names: str) -> bool:
    """Return whether an object is of a class of a library, or of one derived from it.

    Parameters
    ----------
    X : object
    library : str
        The package, such as ``"polars"``.
    *names : str
        The classes.
    """
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] == library
        for kind in type(X).__mro__
    )


def is_dask_array(X: Any) -> bool:
    """Return whether X is an array of Dask."""
    return comes_from(X, "dask", "Array")


def is_data_array(X: Any) -> bool:
    """Return whether X is an array of xarray, with names and coordinates."""
    return comes_from(X, "xarray", "DataArray")


def is_signal(X: Any) -> bool:
    """Return whether X is a signal of HyperSpy."""
    return comes_from(X, "hyperspy", "BaseSignal")
