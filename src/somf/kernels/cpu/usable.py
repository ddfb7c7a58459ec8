"""Which atoms an update moves."""

import numpy as np

from somf.kernels.cpu.jit import inner
from somf.typing import Array


@inner
def usable_atoms(C: Array, eps: float, tiny: float) -> Array:
    """Return which atoms are updated; `smallest_curvature` says why others are not."""
    largest = 0.0
    for j in range(len(C)):
        largest = max(largest, C[j, j])
    usable = np.empty(len(C), np.bool_)
    for j in range(len(C)):
        usable[j] = C[j, j] > max(eps * eps * largest, tiny)
    return usable
