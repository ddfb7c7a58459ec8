"""How much samples use each atom, and the order of atoms by their use."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.errors import ParameterError
from somf.typing import Array, Ints


@dataclass(frozen=True, kw_only=True)
class Usage:
    """How much samples use each atom.

    Attributes
    ----------
    n_samples : int
    n_users : ndarray of shape (k,)
        How many samples use each atom.
    size : ndarray of shape (k,)
        The mean absolute value of its codes.
    """

    n_samples: int
    n_users: Ints
    size: Array

    @property
    def usage(self) -> Array:
        """The fraction of samples that use each atom, of shape (k,)."""
        return self.n_users / self.n_samples

    @property
    def density(self) -> float:
        """The fraction of codes that are not zero."""
        return int(self.n_users.sum()) / (self.n_samples * len(self.n_users))

    @property
    def is_dense(self) -> bool:
        """Whether no code is zero, so that atoms differ only in the size of their codes."""
        return bool((self.n_users == self.n_samples).all())

    @property
    def n_unused(self) -> int:
        """How many atoms no sample uses."""
        return int(np.count_nonzero(self.n_users == 0))

    @property
    def order(self) -> Ints:
        """The atoms, most used first, and among equals those with the largest codes."""
        return np.lexsort((-self.size, -self.n_users))


def usage_of(codes: Any) -> Usage:
    """Count how many samples use each atom.

    Parameters
    ----------
    codes : ndarray or sparse matrix of shape (n_samples, k)
    """
    codes = sp.csr_array(codes) if sp.issparse(codes) else np.asarray(codes)
    if codes.ndim != 2 or 0 in codes.shape or codes.dtype.kind not in "biuf":
        what = f"shape {codes.shape}" if codes.ndim else repr(codes.item())
        raise ParameterError(
            "codes",
            "be numbers of shape (n_samples, n_components), one sample at least",
            codes,
            "They are what model.transform(X) returns.",
            got=what,
        )
    return Usage(
        n_samples=codes.shape[0],
        n_users=np.asarray((codes != 0).sum(axis=0)),
        size=np.asarray(abs(codes).sum(axis=0, dtype=np.float64)) / codes.shape[0],
    )
