"""Type aliases of the arrays that pass between modules."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array: TypeAlias = npt.NDArray[Any]
"""A real floating array, float32 or float64."""

Ints: TypeAlias = npt.NDArray[np.int64]
"""Sample ids, counts, permutations."""

Matrix: TypeAlias = Array | sp.csc_array
"""A minibatch: a dense array in C order, or CSC, whose features can be selected quickly."""

Rows: TypeAlias = Array | sp.csr_array
"""Samples as a source returns them: of any real type, dense or CSR."""

Slices: TypeAlias = tuple[slice, ...]
"""Features, which are rows of D and B, as slices with a start and a stop."""

History: TypeAlias = dict[str, list[float]]
"""The records of a fit: columns of equal length, one entry per record."""
