"""Atoms of two dictionaries that are about the same, matched one to one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from somf.errors import ParameterError
from somf.typing import Array, Ints


@dataclass(frozen=True)
class Matches:
    """Pairs of atoms of two dictionaries, the most similar ones first.

    Attributes
    ----------
    pairs : ndarray of int of shape (m, 2)
        The number of an atom of the first dictionary, and of its partner in the second one. m is
        the number of atoms of the smaller dictionary.
    similarity : ndarray of shape (m,)
        The cosine of the angle between the two: 1 if they are the same but for their lengths. Where
        signs do not matter, its absolute value.
    sign : ndarray of shape (m,)
        −1 where an atom is similar to minus its partner, else 1.
    unmatched : tuple of ndarray of int
        The atoms of each dictionary that have no partner.
    """

    pairs: Ints
    similarity: Array
    sign: Array
    unmatched: tuple[Ints, Ints]

    @property
    def mean(self) -> float:
        """The mean similarity of all pairs."""
        return float(self.similarity.mean())


def match_atoms(one: Any, other: Any, *, ignore_sign: bool | None = None) -> Matches:
    """Match the atoms of two dictionaries so that the sum of their similarities is largest.

    The order of atoms has no meaning, so that two fits cannot be compared row by row. The
    similarity of two atoms is the cosine of the angle between them, and the assignment problem is
    solved exactly.

    Parameters
    ----------
    one, other : fitted estimator, or ndarray of shape (n_components, n_features)
        With the same features; they may have different numbers of atoms.
    ignore_sign : bool, optional
        Whether an atom and its negative count as the same. By default they do, unless codes or
        atoms of an estimator must be non-negative.

    Returns
    -------
    matches : Matches

    Examples
    --------
    >>> import numpy as np
    >>> from somf.inference.matching import match_atoms
    >>> atoms = np.eye(3)
    >>> match_atoms(atoms, -atoms[[2, 0]]).pairs.tolist()
    [[0, 1], [2, 0]]
    """
    A, B = (_unit_atoms(name, model) for name, model in (("one", one), ("other", other)))
    if A.shape[1] != B.shape[1]:
        rule = f"have {A.shape[1]} features like the first"
        raise ParameterError("other", rule, other, got=str(B.shape[1]))
    if ignore_sign is None:
        ignore_sign = not any(_is_signed(model) for model in (one, other))
    cosine = A @ B.T
    similarity = np.abs(cosine) if ignore_sign else cosine
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    order = np.argsort(-similarity[rows, columns], kind="stable")
    rows, columns = rows[order], columns[order]
    return Matches(
        pairs=np.stack([rows, columns], axis=1),
        similarity=np.clip(similarity[rows, columns], -1, 1),
        sign=np.where(cosine[rows, columns] < 0, -1, 1) if ignore_sign else np.ones(len(rows), int),
        unmatched=(
            np.setdiff1d(np.arange(len(A)), rows),
            np.setdiff1d(np.arange(len(B)), columns),
        ),
    )


def _unit_atoms(name: str, model: Any) -> Array:
    """Return atoms of unit norm, in double precision; zero atoms stay zero."""
    atoms = np.asarray(getattr(model, "components_", model))
    if atoms.ndim != 2 or 0 in atoms.shape or atoms.dtype.kind not in "biuf":
        rule = "be a fitted estimator or an array of shape (n_components, n_features)"
        raise ParameterError(name, rule, model)
    if not np.isfinite(atoms).all():
        raise ParameterError(name, "have finite atoms", model, got="NaN or infinity")
    atoms = atoms.astype(np.float64)
    norms = np.linalg.norm(atoms, axis=1, keepdims=True)
    return np.asarray(atoms / np.where(norms > 0, norms, 1))


def _is_signed(model: Any) -> bool:
    """Return whether the sign of an atom has a meaning, because its codes cannot be negative."""
    config = getattr(model, "_config", None)
    return config is not None and (config().penalty.positive or config().ball.positive)
