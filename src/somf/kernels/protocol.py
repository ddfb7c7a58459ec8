"""The signatures of the kernels, which are the same on every device.

"Array" means an array of the device: a NumPy array, or a tensor on a GPU. The algorithm handles
both in the same way and uses only operations that both have. A kernel writes only to the arguments
that its docstring marks as overwritten.

Symbols: b samples, n stored samples, p features, k atoms, R blocks of features.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

import numpy as np

from somf.kernels.pairs import places
from somf.penalties import AtomBall, CodePenalty
from somf.typing import Array, Ints, Matrix, Slices


class Kernels(Protocol):
    """The operations that every device provides.

    A *store* is an array with one row per sample. It is on the device if it fits there, else in
    host memory or in a scratch file. Only `take` and `put` read and write it.

    Attributes
    ----------
    IS_ASYNCHRONOUS : bool
        Whether kernels return before the device has computed their results. To read a result on
        the host then waits for all earlier work.
    """

    IS_ASYNCHRONOUS: bool

    def to_device(self, array: Matrix) -> Matrix:
        """Return an array on this device; one that is there already is not copied.

        Parameters
        ----------
        array : array of any device and shape, or csc_array of shape (b, p)

        Returns
        -------
        array : array of the same shape
        """
        ...

    def copy_async(self, array: Array) -> Callable[[], Array | None]:
        """Start to copy an array to the host.

        Parameters
        ----------
        array : array of any shape

        Returns
        -------
        result : callable
            Returns the copy (an ndarray), or None as long as it is not complete. It never waits.
            The copy has the contents of the array at the time of the call, or later ones.
        """
        ...

    def zeros(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return zeros on the device.

        Parameters
        ----------
        shape : tuple of int
        like : array
            An array of the wanted dtype.

        Returns
        -------
        array : array of the given shape
        """
        ...

    def store_zeros(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return a new store, filled with zeros.

        Parameters
        ----------
        shape : tuple of int
            (n, ...).
        like : array
            An array of the wanted dtype.

        Returns
        -------
        store : array of shape (n, ...)
        """
        ...

    def to_store(self, array: Array) -> Array:
        """Return an array as a store: on the device if it fits there, else on the host.

        Parameters
        ----------
        array : array of any device, of shape (n, ...)

        Returns
        -------
        store : array of shape (n, ...)
        """
        ...

    def take(self, store: Array, slots: Ints) -> Array:
        """Return rows of a store as a new array on the device.

        Parameters
        ----------
        store : array of shape (n, ...)
        slots : ndarray of shape (b,)
            The indices of the rows.

        Returns
        -------
        rows : array of shape (b, ...)
        """
        ...

    def put(self, store: Array, slots: Ints, values: Array) -> None:
        """Set rows of a store.

        Parameters
        ----------
        store : array of shape (n, ...), overwritten
        slots : ndarray of shape (b,)
            The indices of the rows.
        values : array of shape (b, ...) or (1, ...)
            On the device. A single row is written to all slots.
        """
        ...

    def pack_rows(self, A: Array, rows: Slices, packed: Array) -> None:
        """Copy some rows to where they follow one another, for a message.

        Parameters
        ----------
        A : array of shape (p, k)
        rows : tuple of slices
        packed : array of shape (q, k) or larger, overwritten
        """
        ...

    def unpack_rows(self, packed: Array, A: Array, rows: Slices) -> None:
        """Copy rows back from where `pack_rows` has put them.

        Parameters
        ----------
        packed : array of shape (q, k) or larger
        A : array of shape (p, k), overwritten
        rows : tuple of slices
        """
        ...

    def explain_out_of_memory(self) -> AbstractContextManager[None]:
        """Return a context for all work on the device.

        If the device runs out of memory, the context raises an `OutOfMemoryError` that says what
        to reduce. At the end it frees the device memory that kernels keep between calls.
        """
        ...

    def without_gradients(self) -> AbstractContextManager[None]:
        """Return a context in which automatic differentiation is off."""
        ...

    def mix(self, old: Array, new: Array, weight: Array | float) -> Array:
        """Return (1 − weight) old + weight new.

        Parameters
        ----------
        old, new : array of the same shape
        weight : float, or array that broadcasts to that shape

        Returns
        -------
        mixed : array of the same shape
        """
        ...

    def concatenate(self, arrays: list[Array], axis: int) -> Array:
        """Return device arrays joined along an existing axis.

        Parameters
        ----------
        arrays : list of arrays whose shapes differ at most along `axis`
        axis : int

        Returns
        -------
        joined : array
        """
        ...

    def mark_used(self, last_used: Ints, code: Array, now: int) -> None:
        """Set the time of last use to `now` for every atom with a nonzero coefficient.

        Parameters
        ----------
        last_used : array of int of shape (k,), overwritten
        code : array of shape (b, k)
        now : int
            The number of samples seen so far.
        """
        ...

    def clear_atoms(self, B: Array, C: Array, atoms: Array) -> None:
        """Set the columns of B, and the rows and columns of C, of some atoms to zero.

        Parameters
        ----------
        B : array of shape (p, k), overwritten
        C : array of shape (k, k), overwritten
        atoms : array of bool of shape (k,)
        """
        ...

    def clear_pairs(self, E: Array, atoms: Array) -> None:
        """Set the rows and columns of some atoms to zero, in the matrices of all features.

        Parameters
        ----------
        E : array of shape (p, k (k + 1) / 2), overwritten
            Upper triangles, as in `pairs`.
        atoms : array of bool of shape (k,)
        """
        ...

    def pairs(self, A: Array, weights: Array | None) -> Array:
        """Return ω aaᵀ of every row a: the products of all pairs of its entries.

        Parameters
        ----------
        A : array of shape (m, k)
        weights : array of shape (m,), or None
            None means ones.

        Returns
        -------
        pairs : array of shape (m, k (k + 1) / 2)
            Upper triangles, row after row.
        """
        ...

    def weighted_grams(self, weights: Matrix, D: Array, rows: Slices) -> Array:
        """Return Σ_f ω_f d_f d_fᵀ over some features for every sample.

        Parameters
        ----------
        weights : array or csc_array of shape (b, p)
        D : array of shape (p, k)
        rows : tuple of slices
            The features.

        Returns
        -------
        grams : array of shape (b, k, k)
        """
        ...

    def correlate(self, X: Matrix, D: Array, rows: Slices) -> Array:
        """Return X D over some features: the correlation of every sample with every atom.

        Parameters
        ----------
        X : array or csc_array of shape (b, p)
        D : array of shape (p, k)
        rows : tuple of slices
            The features.

        Returns
        -------
        beta : array of shape (b, k)
        """
        ...

    def gram(self, D: Array, rows: Slices) -> Array:
        """Return DᵀD over some features.

        Parameters
        ----------
        D : array of shape (p, k)
        rows : tuple of slices
            The features.

        Returns
        -------
        G : array of shape (k, k)
        """
        ...

    def combine(self, weights: Array, grams: Array) -> Array:
        """Return weighted sums of Gram matrices: Σ_g ω[g] G_g for every row ω.

        Parameters
        ----------
        weights : array of shape (m, R)
        grams : array of shape (R, k, k)

        Returns
        -------
        combined : array of shape (m, k, k)
        """
        ...

    def squared_norms(self, X: Matrix, rows: Slices) -> Array:
        """Return ‖x‖² of every sample over some features.

        Parameters
        ----------
        X : array or csc_array of shape (b, p)
        rows : tuple of slices
            The features.

        Returns
        -------
        sq_norm : array of shape (b,)
        """
        ...

    def observe(self, X: Matrix, D: Array, rows: Slices) -> tuple[Array, Array]:
        """Return what `correlate` and `squared_norms` do, at once.

        Returns
        -------
        beta : array of shape (b, k)
        sq_norm : array of shape (b,)
        """
        ...

    def accumulate(
        self, B: Array, X: Matrix, code: Array, decay: float, rows: Slices | None = None
    ) -> None:
        """Do B ← decay B + Xᵀ code on some features.

        Parameters
        ----------
        B : array of shape (p, k), overwritten
        X : array or csc_array of shape (b, p)
        code : array of shape (b, k)
        decay : float
        rows : tuple of slices, optional
            The features; by default all.
        """
        ...

    def sum_parts(self, parts: Array) -> Array:
        """Return the sum of some matrices, in their order: rounding is reproducible.

        Parameters
        ----------
        parts : array of shape (n, q, k)

        Returns
        -------
        total : array of shape (q, k)
            Valid until the next call.
        """
        ...

    def solve_codes(
        self,
        grams: Array,
        beta: Array,
        sq_norm: Array,
        penalty: CodePenalty,
        tol: float,
        code: Array,
    ) -> tuple[Array, Array]:
        """Minimise ½ αᵀGα − αᵀβ + ½‖x‖² + λΩ(α) for every sample.

        Parameters
        ----------
        grams : array of shape (1, k, k) or (b, k, k)
            One Gram matrix for all samples, or one per sample.
        beta : array of shape (b, k)
        sq_norm : array of shape (b,)
            ‖x‖², estimated in the same way as `beta` and `grams`.
        penalty : CodePenalty
        tol : float
            Stop when the duality gap is at most `tol` times the objective, or at the resolution of
            the floating type. With 0, stop when the codes do not change any more. Without a
            penalty there is no duality gap; the decrease that single coordinates can reach takes
            its place.
        code : array of shape (b, k), overwritten
            The starting point on entry, the solution on return.

        Returns
        -------
        objective : array of shape (b,)
        gap : array of shape (b,)
        """
        ...

    def update_atoms(
        self, D: Array, B: Array, C: Array, rows: Slices, budget: Array, ball: AtomBall
    ) -> None:
        """Do one Gauss–Seidel pass over the atoms on some features.

        For j = 1 … k: u = dⱼ + (bⱼ − D cⱼ) / Cⱼⱼ, then dⱼ = projection of u onto ‖·‖ ≤ budgetⱼ.
        An atom with Cⱼⱼ at or below `smallest_curvature` stays as it is.

        Parameters
        ----------
        D : array of shape (p, k), overwritten
        B : array of shape (p, k)
        C : array of shape (k, k)
        rows : tuple of slices
            The features.
        budget : array of shape (k,)
        ball : AtomBall
        """
        ...

    def update_part(
        self, D: Array, B: Array, C: Array, budget: Array, total: Callable[[Array], Array]
    ) -> None:
        """Do what `update_atoms` does in the ℓ2 ball, on a part of the features.

        Other processes do the same, at the same time, on the other features.

        Parameters
        ----------
        D : array of shape (q, k), overwritten
        B : array of shape (q, k)
        C : array of shape (k, k)
        budget : array of shape (k,)
        total : callable
            Returns the sum of a vector, or of a symmetric matrix, over all parts.
        """
        ...

    def update_atoms_by_feature(
        self,
        D: Array,
        B: Array,
        C: Array,
        E: Array,
        ridge: Array | None,
        rows: Slices,
        budget: Array,
        ball: AtomBall,
    ) -> None:
        """Do what `update_atoms` does where every feature has C_f = C + E_f + ridge_f I of its own.

        For j = 1 … k: dⱼ = the minimum over ‖·‖ ≤ budgetⱼ of Σ_f ½ c_f d_f² − u_f d_f, with
        c_f = (C_f)ⱼⱼ and u_f = c_f d_fⱼ + (b_fⱼ − (D C_f)_fⱼ). Features with c_f at or below
        `smallest_curvatures`, of which nothing is known, become zero. An atom that has no other
        features stays as it is.

        Parameters
        ----------
        D : array of shape (p, k), overwritten
        B : array of shape (p, k)
        C : array of shape (k, k)
        E : array of shape (p, k (k + 1) / 2)
            Upper triangles, as in `pairs`.
        ridge : array of shape (p,), or None
            None means zeros.
        rows : tuple of slices
            The features.
        budget : array of shape (k,)
        ball : AtomBall
        """
        ...

    def atom_norms(self, D: Array, rows: Slices, ball: AtomBall) -> Array:
        """Return μ‖d‖₁ + (1−μ)‖d‖₂² of every atom over each of some runs of features.

        Parameters
        ----------
        D : array of shape (p, k)
        rows : tuple of n slices
            The runs of features.
        ball : AtomBall

        Returns
        -------
        norms : array of shape (n, k)
        """
        ...


CANCELLATION = 1000
"""Rounding errors ε that a difference of two sums over many samples may have."""

MAX_SWEEPS = 10_000
"""Sweeps of coordinate descent after which a code is returned even if it has not converged."""


def smallest_curvature(C: Array) -> float:
    """Return the Cⱼⱼ up to which the update of an atom is only rounding noise.

    |Cᵢⱼ| may reach √(Cᵢᵢ Cⱼⱼ), so bⱼ − D cⱼ is known to about ε √(max C · Cⱼⱼ). This exceeds Cⱼⱼ
    itself once Cⱼⱼ < ε² max C. Below the smallest normal number, 1 / Cⱼⱼ may overflow.
    """
    eps, tiny = precision(C.dtype)
    return max(eps**2 * float(C.diagonal().max()), tiny)


def smallest_curvatures(C: Array, E: Array) -> Array:
    """Return, for every atom, the (C + E_f)ⱼⱼ up to which there is only rounding noise in it.

    Where E_f takes away all of C, the rest is a few ε Cⱼⱼ.
    """
    eps, tiny = precision(C.dtype)
    largest = float(E[:, places(len(C)).diagonal()].max(initial=0.0))
    floors: Array = np.maximum(CANCELLATION * eps * np.diagonal(C), max(eps**2 * largest, tiny))
    return floors


@cache
def precision(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return ε and the smallest normal number of a floating type."""
    limits = np.finfo(dtype)
    return float(limits.eps), float(limits.tiny)
