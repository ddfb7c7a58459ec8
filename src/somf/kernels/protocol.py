"""The heavy arithmetic of an iteration, once per device, with one set of signatures.

`reference` is the obvious NumPy version and the oracle of the tests, `cpu` the fast one, and `cuda`
the one for GPUs. A kernel writes to the arguments that its docstring marks as overwritten and to no
others. "Array" means an array of the device: NumPy's, or a tensor on a GPU; the code around the
kernels is the same for both and uses only what both understand.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from somf.penalties import AtomBall, CodePenalty
from somf.typing import Array, Ints, Matrix, Slices


class Kernels(Protocol):
    """What a device has to offer.

    Attributes
    ----------
    IS_ASYNCHRONOUS : bool
        Whether looking at a result has to wait for all the work that has been handed out.
    """

    IS_ASYNCHRONOUS: bool

    def to_device(self, array: Matrix) -> Matrix:
        """Return an array as one of the device; one that is there already is not copied."""
        ...

    def copy_async(self, array: Array) -> Callable[[], Array | None]:
        """Return a function that returns an array as it is now, on the host.

        As long as the device is not through with it, the function returns None; it never waits.
        """
        ...

    def store(self, array: Array) -> Array:
        """Return an array on the device if there is room for it, else as it is."""
        ...

    def zeros(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return zeros of the type of `like` on the device."""
        ...

    def scratch(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return zeros for `take` and `put`: on the device, or wherever there is room for them."""
        ...

    def explain_out_of_memory(self) -> AbstractContextManager[None]:
        """Return a context that says, if the device is short of memory, what to reduce."""
        ...

    def without_gradients(self) -> AbstractContextManager[None]:
        """Return a context in which no time is spent on what only gradients would need."""
        ...

    def take(self, store: Array, slots: Ints) -> Array:
        """Return rows of an array, wherever it is stored, as a new array on the device.

        Parameters
        ----------
        store : array of shape (n, ...)
        slots : ndarray of shape (b,)
        """
        ...

    def put(self, store: Array, slots: Ints, values: Array) -> None:
        """Set rows of an array, wherever it is stored.

        Parameters
        ----------
        store : array of shape (n, ...), overwritten
        slots : ndarray of shape (b,)
        values : array of shape (b, ...) or (1, ...)
            On the device; one row is for all of them.
        """
        ...

    def mix(self, old: Array, new: Array, weight: Array | float) -> Array:
        """Return (1 − weight) old + weight new."""
        ...

    def concatenate(self, arrays: list[Array], axis: int) -> Array:
        """Return arrays of the device side by side."""
        ...

    def mark_used(self, last_used: Ints, code: Array, now: int) -> None:
        """Note the time for every atom that a code uses.

        Parameters
        ----------
        last_used : array of shape (k,), overwritten
        code : array of shape (b, k)
        now : int
        """
        ...

    def clear_atoms(self, B: Array, C: Array, atoms: Array) -> None:
        """Set all that refers to some atoms to zero.

        Parameters
        ----------
        B : array of shape (p, k), overwritten
        C : array of shape (k, k), overwritten
        atoms : array of bool of shape (k,)
        """
        ...

    def correlate(self, X: Matrix, D: Array, rows: Slices) -> Array:
        """Return X D over some rows of D, the correlation of every sample with every atom.

        Parameters
        ----------
        X : ndarray or csc_array of shape (b, p)
        D : ndarray of shape (p, k)
        rows : tuple of slices

        Returns
        -------
        beta : ndarray of shape (b, k)
        """
        ...

    def gram(self, D: Array, rows: Slices) -> Array:
        """Return DᵀD over some rows.

        Parameters
        ----------
        D : ndarray of shape (p, k)
        rows : tuple of slices

        Returns
        -------
        G : ndarray of shape (k, k)
        """
        ...

    def combine(self, weights: Array, grams: Array) -> Array:
        """Return sums of Gram matrices, Σ_g ω[g] G_g for every row ω.

        Parameters
        ----------
        weights : ndarray of shape (m, R)
        grams : ndarray of shape (R, k, k)

        Returns
        -------
        combined : ndarray of shape (m, k, k)
        """
        ...

    def squared_norms(self, X: Matrix, rows: Slices) -> Array:
        """Return ‖x‖² of every sample over some features.

        Parameters
        ----------
        X : ndarray or csc_array of shape (b, p)
        rows : tuple of slices

        Returns
        -------
        sq_norm : ndarray of shape (b,)
        """
        ...

    def accumulate(self, B: Array, X: Matrix, code: Array, decay: float) -> None:
        """Do B ← decay B + Xᵀ code.

        Parameters
        ----------
        B : ndarray of shape (p, k), overwritten
        X : ndarray or csc_array of shape (b, p)
        code : ndarray of shape (b, k)
        decay : float
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
        """Minimise ½ αᵀGα − αᵀβ + ½‖x‖² + λΩ(α) for every sample, from the given start.

        Parameters
        ----------
        grams : ndarray of shape (1, k, k) or (b, k, k)
            One Gram matrix for all samples, or one for each.
        beta : ndarray of shape (b, k)
        sq_norm : ndarray of shape (b,)
            ‖x‖², in the same units as `beta` and `grams`.
        penalty : CodePenalty
        tol : float
            Stop at a duality gap of at most `tol` times the objective, or at what the floating
            type resolves; 0 goes on until codes do not change any more. Where there is no penalty
            at all there is no such gap; then it is the decrease that single coordinates offer.
        code : ndarray of shape (b, k), overwritten
            Start on entry, solution on return.

        Returns
        -------
        objective : ndarray of shape (b,)
        gap : ndarray of shape (b,)
        """
        ...

    def update_atoms(
        self, D: Array, B: Array, C: Array, rows: Slices, budget: Array, ball: AtomBall
    ) -> None:
        """Do one Gauss–Seidel pass over the atoms on some rows.

        For j = 1 … k: u = dⱼ + (bⱼ − D cⱼ) / Cⱼⱼ, then dⱼ = projection of u onto ‖·‖ ≤ budgetⱼ.
        An atom whose Cⱼⱼ drowns in the rounding of the others has no information, and stays.

        Parameters
        ----------
        D : ndarray of shape (p, k), overwritten
        B : ndarray of shape (p, k)
        C : ndarray of shape (k, k)
        rows : tuple of slices
        budget : ndarray of shape (k,)
        ball : AtomBall
        """
        ...

    def atom_norms(self, D: Array, rows: Slices, ball: AtomBall) -> Array:
        """Return μ‖d‖₁ + (1−μ)‖d‖₂² of every column over some rows.

        Parameters
        ----------
        D : ndarray of shape (p, k)
        rows : tuple of slices
        ball : AtomBall

        Returns
        -------
        norms : ndarray of shape (k,)
        """
        ...


MAX_SWEEPS = 10_000
"""Sweeps of coordinate descent after which a code is taken as it is."""


def smallest_curvature(C: Array) -> float:
    """Return the Cⱼⱼ below which an atom's update is rounding noise.

    |Cᵢⱼ| may reach √(Cᵢᵢ Cⱼⱼ), so bⱼ − D cⱼ is known to about ε √(max C · Cⱼⱼ), which exceeds
    Cⱼⱼ itself once Cⱼⱼ < ε² max C.
    """
    return float(np.finfo(C.dtype).eps ** 2 * np.diagonal(C).max(initial=0.0))
