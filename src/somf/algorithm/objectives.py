"""The objectives of minibatches, and whether numbers have become too large or too small."""

import math

import numpy as np

from somf.algorithm.state import State
from somf.errors import ScaleError
from somf.kernels import Kernels
from somf.kernels.host import to_host
from somf.typing import Array

STEPS_BETWEEN_CHECKS = 64
"""Iterations on an asynchronous device between two checks of its results for overflow."""


class Objectives:
    """Collects the objectives of minibatches.

    An asynchronous device would have to be waited for, so it is not checked at every step.

    Parameters
    ----------
    state : State
    kernels : Kernels
    """

    def __init__(self, state: State, kernels: Kernels) -> None:
        self.state, self.kernels = state, kernels
        self._unchecked: list[Array] = []
        self._sums: list[float] = []

    def add(self, objective: Array) -> None:
        """Add those of the samples of a minibatch, on the device."""
        self._unchecked.append(objective)
        if not self.kernels.IS_ASYNCHRONOUS or len(self._unchecked) == STEPS_BETWEEN_CHECKS:
            self.check()

    def take(self) -> list[float]:
        """Return the sums over the minibatches since the last call."""
        self.check()
        taken, self._sums = self._sums, []
        return taken

    def check(self) -> None:
        """Raise ScaleError if an objective has overflowed since the last check."""
        objectives, self._unchecked = self._unchecked, []
        if not objectives:
            return
        if len(objectives) == 1:
            objective = to_host(objectives[0])
            parts = [objective]
        else:
            sizes = [len(part) for part in objectives]
            objective = to_host(self.kernels.concatenate(objectives, axis=0))
            parts = np.split(objective, np.cumsum(sizes)[:-1])
        totals = [float(np.add.reduce(part, dtype=np.float64)) for part in parts]
        if not math.isfinite(sum(totals)) and not np.isfinite(objective).all():
            self.check_atoms()
            raise ScaleError(
                "The objective overflows", objective.dtype, "X is too large. Scale it down."
            )
        self._sums += totals

    def check_atoms(self) -> None:
        """Raise ScaleError if atoms have overflowed."""
        if not np.isfinite(to_host(self.state.D)).all():
            raise ScaleError(
                "The update of the atoms overflows",
                self.state.dtype,
                "X is too large, or alpha too large for X. Scale X, or choose a smaller alpha.",
            )

    def check_codes(self, code: Array | None) -> None:
        """Raise ScaleError if the codes of the last minibatch were too small to update atoms."""
        if code is None or not to_host(code).any():
            return
        dtype = self.state.dtype
        if to_host(self.state.C.diagonal()).max() < np.finfo(dtype).tiny:
            raise ScaleError(
                "The squares of the codes underflow",
                dtype,
                "X is too small, or alpha too large. Scale X up, or choose a smaller alpha.",
            )
