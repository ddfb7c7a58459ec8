"""Functions that are inlined are not compiled to machine code, and compute the same."""

import importlib

import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from somf.kernels.cpu import inlining
from somf.kernels.cpu.jit import body, inner, jit


def half_sum(x):
    """Return half of a sum."""
    total = 0.0
    for entry in x:
        total += entry
    return total / 2


def called(function):
    """Return a compiled function that calls another one."""
    return jit(lambda x: function(x) + 1.0, cache=False)


def machine_code(function):
    """Return the address of the machine code of a compiled function's only version; 0 if none."""
    (version,) = function.overloads.values()
    return int(version.library.get_pointer_to_function(version.fndesc.llvm_func_name))


@pytest.mark.parametrize("decorator", [inner, body])
def test_an_inlined_function_computes_the_same_without_machine_code(decorator):
    x = np.arange(10.0)
    without, usual = decorator(half_sum), inner(half_sum, pipeline_class=Compiler)
    assert called(without)(x) == called(usual)(x) == 23.5
    assert machine_code(without) == 0
    assert machine_code(usual) != 0


def test_another_numba_that_lacks_what_is_replaced_is_noticed_on_import(monkeypatch):
    for owner in JITCodeLibrary.__mro__:
        if "_finalize_final_module" in vars(owner):
            monkeypatch.delattr(owner, "_finalize_final_module")
    with pytest.raises(ImportError, match="another way"):
        importlib.reload(inlining)
