"""The Triton kernels compile for a GPU, also on a machine without one."""

import os
import subprocess
import sys

from tests.helpers.gpu import NEEDS_CUDA

COMPILE = """
import inspect
import itertools
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from somf.kernels.cuda import atoms as cuda_atoms
from somf.kernels.cuda import codes as cuda_codes
from somf.data.cuda import patches as cuda_patches
from somf.data.cuda import rows as cuda_rows

def compile(kernel, types, constants, n_warps):
    signature = dict(types) | {name: "constexpr" for name in constants}
    if "constexprs" in inspect.signature(ASTSource).parameters:
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    else:  # Triton before 3.3, which needs the arguments in their order
        types = {name: types[name] for name in kernel.arg_names if name in types}
        source = ASTSource(fn=kernel, signature=types, constants=constants)
    triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": n_warps})

for real in ("*fp32", "*fp64"):
    reals = "grams beta sq_norm code objective gap nonzero_value settings"
    codes = dict.fromkeys(reals.split(), real)
    codes |= dict(gram_stride="i32", nonzero_index="*i32", k="i32", max_rounds="i32")
    for K, n_warps in ((cuda_codes.MIN_WIDTH, 1), (1024, 4)):
        for positive, l1, l2 in ((False, True, False), (True, True, True), (True, False, False)):
            constants = dict(POSITIVE=positive, HAS_L1=l1, HAS_L2=l2, K=K)
            compile(cuda_codes._descend, codes, constants, n_warps)
    weights = dict(gram=real, couplings="*fp64", stride="i32", steps="*fp64", usable="*i1")
    weights |= dict(budget=real, weights=real, m="i32")
    compile(cuda_atoms._atom_weights, weights, dict(M=cuda_atoms.ATOMS_PER_BLOCK), 4)
    del weights["m"]  # Triton treats an argument of 1 as a constant
    compile(cuda_atoms._atom_weights, weights, dict(M=cuda_atoms.ATOMS_PER_BLOCK, m=1), 4)
    panel = dict(atoms=real, residual=real, C=real, stride="i32", usable="*i1", budget=real)
    panel |= dict(ratio="*fp64", q="i32", m="i32")
    patches = dict(corners="*i64", offsets="*i64", X=real, rounding="*fp64", p="i32")
    for yes in (False, True):
        compile(cuda_atoms._sweep_panel, panel, dict(POSITIVE=yes, BLOCK=4096), 16)
        for pixels in ("*fp32", "*i16"):
            constants = dict(CENTER=yes, SCALE=yes, BLOCK=4096)
            compile(cuda_patches._cut, dict(pixels=pixels) | patches, constants, 16)
    for numbers, unsigned in (("*fp32", False), ("*fp64", False), ("*i16", True), ("*i64", False)):
        rows = dict(source=numbers, picked="*i64", places="*i64", rows=real, bad="*i32")
        rows |= dict(b="i32", p="i32")
        constants = dict(HAS_PLACES=True, UNSIGNED=unsigned)
        constants |= dict(N_PROGRAMS=cuda_rows.N_PROGRAMS, BLOCK=cuda_rows.ENTRIES_AT_ONCE)
        compile(cuda_rows._arrange, rows, constants, cuda_rows.N_WARPS)
print("all compiled")
"""


@NEEDS_CUDA
def test_all_triton_kernels_compile_for_a_gpu():
    environment = {name: os.environ[name] for name in os.environ if name != "TRITON_INTERPRET"}
    answer = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stdout.strip() == "all compiled", answer.stderr[-2000:]
