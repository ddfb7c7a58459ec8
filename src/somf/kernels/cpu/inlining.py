"""Compilers of functions that are always inlined: machine code of their own is never generated.

Numba optimises every function that it compiles, and generates its machine code, even if the
function is then a part of others. That took a quarter of the seconds of a first fit, and Numba has
no public option for it. With a version of Numba that lacks what is changed here, this module
cannot be imported, and functions are compiled as usual.
"""

import sys
from typing import Any

from numba._dynfunc import make_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import AnnotateTypes, NativeLowering

METHODS = (
    "_optimize_functions",
    "_optimize_final_module",
    "_finalize_dynamic_globals",
    "_finalize_final_module",
)
"""The methods of Numba's libraries of code that are called or replaced."""

if not (all(hasattr(JITCodeLibrary, name) for name in METHODS) and hasattr(Flags, "no_compile")):
    raise ImportError("this version of Numba generates machine code in another way")


class _InlinedCode(JITCodeLibrary):
    """A function that has no machine code: what calls it takes in its LLVM code."""

    def _optimize_functions(self, module: Any) -> None:
        """Leave that to the optimisation of the whole."""
        module.data_layout = self._codegen._data_layout

    def _finalize_final_module(self) -> None:
        """Do what goes before the generation of machine code."""
        self._finalize_dynamic_globals()
        self._finalized = True


class _UnoptimisedCode(_InlinedCode):
    """A function that LLVM optimises only as a part of what calls it."""

    def _optimize_final_module(self) -> None:
        """Do nothing."""


@register_pass(mutates_CFG=False, analysis_only=True)
class _OmitMachineCode(AnalysisPass):
    """Lets a function be kept as an `_InlinedCode`."""

    _name, library = "somf_omit_machine_code", _InlinedCode

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Set what Numba's passes put the function into."""
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class _OmitOptimisation(_OmitMachineCode):
    """Lets a function be kept as an `_UnoptimisedCode`."""

    _name, library = "somf_omit_optimisation", _UnoptimisedCode


@register_pass(mutates_CFG=False, analysis_only=True)
class _Announce(AnalysisPass):
    """Lets compiled functions find a function that has no machine code."""

    _name = "somf_announce"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Make what stands for the function in Python, and tell Numba which code it stands for."""
        result, library = state["cr"], state.library
        name, no_address = result.fndesc.qualname, 0
        function = make_function(
            sys.modules[__name__], name, "", no_address, result.env, (library,)
        )
        state.targetctx.insert_user_function(function, result.fndesc, [library])
        state["cr"] = result._replace(cfunc=function)
        return False


class InnerCompiler(CompilerBase):
    """Numba's compiler up to LLVM code."""

    omit = _OmitMachineCode

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(self.omit, AnnotateTypes)
        passes.add_pass_after(_Announce, NativeLowering)
        passes.finalize()
        return [passes]


class BodyCompiler(InnerCompiler):
    """Numba's compiler up to LLVM code that is not optimised."""

    omit = _OmitOptimisation
