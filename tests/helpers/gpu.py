"""GPU kernels in tests: on a GPU, else under Triton's interpreter, else skipped."""

import os
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from somf.kernels.host import to_host

HAS_GPU = False
"""Whether torch finds a GPU."""


def patch_triton_once():
    """Let Triton's interpreter replace its language once per module, not at every call.

    Half of the interpreter's time was spent on that.
    """
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, set()

    def patch_once(function):
        if function.__module__ not in patched:
            patch(function)
            patched.add(function.__module__)
        return SimpleNamespace(restore=lambda: None)

    interpreter._patch_lang = patch_once


def look_up_types_once():
    """Let Triton's interpreter make its table of types once, not at every operation."""
    from triton.language import pointer_type
    from triton.runtime import interpreter

    find = cache(interpreter._get_np_dtype)

    def found(kind):
        element = kind.scalar
        return np.dtype(np.uint64) if isinstance(element, pointer_type) else find(element)

    interpreter._get_np_dtype = found


def leave_out_checks_that_nobody_reads():
    """Let Triton's interpreter not look for overflows, a third of its time.

    It asserts that there is none only if its option `debug` is set, and looks for them anyway.
    """
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    options = builder.options
    if getattr(options, "sanitize_overflow", False) and not getattr(options, "debug", True):
        builder.options = replace(options, sanitize_overflow=False)


if find_spec("torch") is None or find_spec("triton") is None:
    MISSING = 'torch and Triton are not installed: pip install "somf[cuda]"'
else:
    import torch

    MISSING = ""
    HAS_GPU = torch.cuda.is_available()
    if not HAS_GPU:
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it at the definition of a kernel
        patch_triton_once()
        look_up_types_once()
        leave_out_checks_that_nobody_reads()

NEEDS_CUDA = pytest.mark.skipif(bool(MISSING), reason=MISSING)
"""Marks a test that needs torch and Triton; the interpreter is enough."""

NEEDS_GPU = pytest.mark.skipif(not HAS_GPU, reason="there is no NVIDIA GPU")
"""Marks a test that needs a real GPU."""


class CudaOnHost:
    """The GPU kernels with NumPy arrays as arguments and results."""

    def __getattr__(self, name):
        from somf.kernels.cuda import kernels

        def call(*arguments):
            on_device = [
                kernels.to_device(a) if isinstance(a, np.ndarray) or sp.issparse(a) else a
                for a in arguments
            ]
            result = getattr(kernels, name)(*on_device)
            for argument, tensor in zip(arguments, on_device, strict=True):
                if isinstance(argument, np.ndarray):
                    argument[...] = to_host(tensor)
            if isinstance(result, tuple):
                return tuple(map(to_host, result))
            return None if result is None else to_host(result)

        return call
