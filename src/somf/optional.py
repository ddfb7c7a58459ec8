"""Libraries that are not always installed."""

import importlib
from typing import Any

from somf.errors import MissingLibraryError


def import_optional(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional library.

    Parameters
    ----------
    module : str
        Its full name, such as ``"spectral.io.envi"``.
    extra : str
        The extra of somf that installs the library.
    purpose : str
        What needs it, as the beginning of the sentence "<purpose> needs <library>".

    Raises
    ------
    MissingLibraryError
        If the library is not installed. An error inside a library that is there stays what it is.
    """
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != library:
            raise
        raise MissingLibraryError(purpose, library, extra) from error
