"""The kernels on the CPU: BLAS for matrix products, Numba for what is sequential.

Work is shared out by rows of features, or by samples, among the threads of `threads`. Numba
functions are serial, release the GIL, and are compiled once per type and cached on disk. Sums over
floats may be reordered; NaN and infinity keep their meaning.
"""

from somf.kernels.cpu.atoms import update_atoms
from somf.kernels.cpu.codes import solve_codes
from somf.kernels.cpu.products import (
    accumulate,
    atom_norms,
    combine,
    correlate,
    gram,
    squared_norms,
)
from somf.kernels.host import *  # noqa: F403 (arrays of the host are the same for all its kernels)
from somf.kernels.host import __all__ as _of_the_host

__all__ = [  # noqa: PLE0604 (all are strings)
    "accumulate",
    "atom_norms",
    "combine",
    "correlate",
    "gram",
    "solve_codes",
    "squared_norms",
    "update_atoms",
    *_of_the_host,
]
