"""Codes with at most so many atoms, or of at most some error: what denoising asks for."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from somf.errors import ParameterError, ParameterTypeError
from somf.typing import Array


@dataclass(frozen=True)
class Pursuit:
    """When a code that grows an atom at a time is complete.

    Attributes
    ----------
    max_atoms : int
    max_error : ndarray of shape (n,)
        ‖x − Dα‖ at which the code of a sample needs no other atom.
    """

    max_atoms: int
    max_error: Array

    def of(self, samples: slice) -> Self:
        """Return the same for some of the samples."""
        return type(self)(self.max_atoms, self.max_error[samples])


def pursuit_for(
    max_atoms: Any, max_error: Any, shape: tuple[int, int], n_components: int, positive: bool
) -> Pursuit | None:
    """Check the arguments of `transform` that ask for a pursuit.

    Parameters
    ----------
    max_atoms : int or None
    max_error : float, array-like of shape (n,), or None
    shape : tuple of (int, int)
        Samples and features.
    n_components : int
    positive : bool
        Whether codes must be non-negative, which a pursuit does not do.

    Returns
    -------
    pursuit : Pursuit or None
        None if nothing asks for one.
    """
    if max_atoms is None and max_error is None:
        return None
    name, given = ("max_error", max_error) if max_atoms is None else ("max_atoms", max_atoms)
    if positive:
        raise ParameterError(name, "be None where codes are not negative", given)
    most = min(n_components, shape[1])
    if max_atoms is not None:
        if isinstance(max_atoms, bool) or not isinstance(max_atoms, int | np.integer):
            raise ParameterTypeError("max_atoms", "be an integer", max_atoms)
        if max_atoms < 1:
            raise ParameterError("max_atoms", "be at least 1", max_atoms)
        most = min(most, int(max_atoms))
    errors = np.asarray(0.0 if max_error is None else max_error, dtype=np.float64)
    if errors.shape not in ((), (shape[0],)):
        rule = f"be a number, or have one entry per sample ({shape[0]})"
        raise ParameterError("max_error", rule, max_error, got=f"shape {errors.shape}")
    if not (errors >= 0).all():  # false for NaN
        raise ParameterError("max_error", "be at least 0", max_error)
    return Pursuit(most, np.broadcast_to(errors, shape[:1]))
