"""Names for the arrays that pass between the parts."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array: TypeAlias = npt.NDArray[Any]
"""A real floating array, float32 or float64."""

Ints: TypeAlias = npt.NDArray[np.int64]
"""Sample ids, counts, permutations."""

Matrix: TypeAlias = Array | sp.csr_array[Any]
"""A batch of samples, dense or CSR; never anything else."""

Rows: TypeAlias = slice | Ints
"""Features, as something that indexes the rows of D: contiguous where possible."""
