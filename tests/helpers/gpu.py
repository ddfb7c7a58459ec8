"""The kernels of a GPU in tests: on a real one, or through Triton's interpreter, or not."""

import os
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp

from somf.kernels.host import to_host

HAS_GPU = False
if find_spec("torch") is None or find_spec("triton") is None:
    MISSING = 'torch and Triton are not installed: pip install "somf[cuda]"'
else:
    import torch

    MISSING = ""
    HAS_GPU = torch.cuda.is_available()
    if not HAS_GPU:
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when kernels are defined

NEEDS_CUDA = pytest.mark.skipif(bool(MISSING), reason=MISSING)
NEEDS_GPU = pytest.mark.skipif(not HAS_GPU, reason="there is no NVIDIA GPU")


class CudaOnHost:
    """The kernels of the GPU, for arrays of the host."""

    def __getattr__(self, name):
        from somf.kernels.cuda import kernels as cuda

        def call(*arguments):
            placed = [
                cuda.to_device(a) if isinstance(a, np.ndarray) or sp.issparse(a) else a
                for a in arguments
            ]
            result = getattr(cuda, name)(*placed)
            for given, used in zip(arguments, placed, strict=True):
                if isinstance(given, np.ndarray):
                    given[...] = to_host(used)
            if isinstance(result, tuple):
                return tuple(map(to_host, result))
            return None if result is None else to_host(result)

        return call
