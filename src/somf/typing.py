"""Names for the arrays that pass between the parts."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array: TypeAlias = npt.NDArray[Any]
"""A real floating array, float32 or float64."""

Ints: TypeAlias = npt.NDArray[np.int64]
"""Sample ids, counts, permutations."""

Matrix: TypeAlias = Array | sp.csc_array
"""A minibatch, dense (in C order) or, so that features can be picked, CSC; never anything else."""

Rows: TypeAlias = Array | sp.csr_array
"""Samples as a source gives them: of any real type, dense or CSR."""

Slices: TypeAlias = tuple[slice, ...]
"""Rows of D and B, in runs with a start and a stop."""

History: TypeAlias = dict[str, list[float]]
"""The records of a fit: columns of equal length, one entry per record."""
