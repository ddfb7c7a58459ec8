"""The errors of somf.

Each is a `SomfError` and also the built-in error that fits, so that ``except ValueError`` works as
usual. What a program needs in order to decide what to do is in attributes, never only in the text.
"""

import os
from typing import Any


class SomfError(Exception):
    """The base of all errors that somf raises on purpose."""


class ParameterError(SomfError, ValueError):
    """A parameter has a value that it must not have.

    Parameters
    ----------
    name : str
        The parameter, as the caller knows it.
    rule : str
        What it must be, as the end of the sentence "<name> must …".
    value : object
        What was given.
    hint : str
        What to do, as one or more sentences.
    got : str, optional
        The value in words; by default its `repr`.
    """

    def __init__(
        self, name: str, rule: str, value: Any, hint: str = "", *, got: str | None = None
    ) -> None:
        self.name, self.rule, self.value, self.hint = name, rule, value, hint
        self.got = repr(value) if got is None else got
        super().__init__(self.message(name))

    def message(self, name: str) -> str:
        """Return the message with another name of the parameter, such as that of an option."""
        return f"{name} must {self.rule}, got {self.got}. {self.hint}".rstrip()


class ParameterTypeError(ParameterError, TypeError):
    """A parameter is of a type that it must not have."""


class UnknownParameterError(SomfError, TypeError):
    """A class has no parameter of this name.

    Parameters
    ----------
    owner : str
        The class.
    name : str
    hint : str
        What to do, as a sentence after a blank.
    """

    def __init__(self, owner: str, name: str, hint: str = "") -> None:
        super().__init__(f"{owner}() got an unexpected keyword argument {name!r}.{hint}")
        self.owner, self.name = owner, name


class SparsityWarning(UserWarning):
    """Codes are empty or as good as dense, or atoms have another density than requested."""


class DataWarning(UserWarning):
    """A file is read as it is stored, which may not be what is meant."""


class DataError(SomfError, ValueError):
    """The samples are not what they must be.

    Parameters
    ----------
    message : str
    name : str
        Which data: ``"X"`` or ``"validation"``.
    row : int, optional
        The first row at fault.
    """

    def __init__(self, message: str, name: str = "X", row: int | None = None) -> None:
        super().__init__(message)
        self.name, self.row = name, row


class NotFiniteError(DataError):
    """A sample has an entry that is NaN or infinite."""


class ScaleError(DataError):
    """The samples are too large or too small for the floating type.

    Parameters
    ----------
    what : str
        What goes wrong, as the beginning of the sentence "<what> <dtype>".
    dtype : dtype-like
        The floating type.
    remedy : str
        Why, and what to do, as one or more sentences.
    """

    def __init__(self, what: str, dtype: Any, remedy: str) -> None:
        is_single = str(dtype) == "float32"
        more = " dtype='float64' has a larger range." if is_single else ""
        super().__init__(f"{what} {dtype}: {remedy}{more}")
        self.dtype = dtype


class DamagedFileError(SomfError, ValueError):
    """A file does not hold what its kind must hold; the message names the file."""


class NotAMatrixError(DamagedFileError):
    """A file holds something, such as an image, that is not a matrix of samples × features."""


class FileRequestError(ParameterError):
    """The file may be fine, but an argument does not fit it.

    Parameters
    ----------
    path : path-like
        The file.
    name, rule, value, hint, got
        See `ParameterError`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        rule: str,
        value: Any,
        hint: str = "",
        *,
        got: str | None = None,
    ) -> None:
        super().__init__(name, rule, value, hint, got=got)
        self.path = os.fspath(path)


class UnknownKindError(SomfError, ValueError):
    """The kind of a file is not known, or is not one of those that fit; the message names it."""


class MissingFileError(SomfError, FileNotFoundError):
    """A file that is needed is not there; the message names it."""


class OutputExistsError(SomfError, FileExistsError):
    """There is a file or folder, which is not replaced, where a file is to be written."""


class SeveralDatasetsError(FileRequestError):
    """A file holds several datasets, and the caller named none of them."""

    def __init__(self, path: str | os.PathLike[str], names: list[str]) -> None:
        self.names = sorted(names)
        held = f"none of {', '.join(self.names)}"
        super().__init__(path, "dataset", f"name one of the datasets in {path!r}", None, got=held)


class MissingStateError(SomfError, ValueError):
    """A model was saved without the state that `partial_fit` needs."""


class MissingDeviceError(SomfError, RuntimeError):
    """The machine has no such device, or the device does not work.

    Parameters
    ----------
    device : str
    need : str
        What the device needs and what is missing, as the end of the sentence "<device> needs …".
    """

    def __init__(self, device: str, need: str) -> None:
        super().__init__(
            f'device="{device}" needs {need} Choose device="cpu" to compute without it.'
        )
        self.device, self.need = device, need


class MissingLibraryError(SomfError, ImportError):
    """An optional library is not installed.

    Parameters
    ----------
    purpose : str
        What needs it, as the beginning of the sentence "<purpose> needs <library>".
    library : str
    extra : str
        The extra of somf that installs it.
    """

    def __init__(self, purpose: str, library: str, extra: str) -> None:
        super().__init__(
            f"{purpose} needs {library}, which is not installed: pip install 'somf[{extra}]'.",
            name=library,
        )
        self.purpose, self.library, self.extra = purpose, library, extra


class OutOfMemoryError(SomfError, MemoryError):
    """A device has not enough memory; the message says what to reduce."""


class RankError(SomfError, RuntimeError):
    """Another rank has failed, so that this one cannot go on.

    Parameters
    ----------
    ranks : list of int
        The ranks that have failed, or do not answer.
    size : int
        How many ranks there are.
    cause : str
        What is known of it, as the end of the sentence "Rank … of … <cause>".
    """

    def __init__(self, ranks: list[int], size: int, cause: str) -> None:
        who = f"Rank {ranks[0]}" if len(ranks) == 1 else f"Ranks {', '.join(map(str, ranks))}"
        super().__init__(f"{who} of {size} {cause}")
        self.ranks, self.cause = ranks, cause
