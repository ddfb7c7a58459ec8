"""How SciPy's readers are asked for sparse arrays."""

import scipy

AS_ARRAYS: dict[str, bool] = (
    {"spmatrix": False} if [int(n) for n in scipy.__version__.split(".")[:2]] >= [1, 18] else {}
)
"""Arguments for them. SciPy warns if they are missing from 1.18 on; older versions lack some."""
