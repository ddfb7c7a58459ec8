"""The kernels on the CPU: BLAS for matrix products, Numba for sequential loops.

Threads share the rows, which are features or samples, in parallel regions (see `regions`), and call
BLAS from inside them. Functions are compiled once per type and cached on disk. Floating-point sums
may be reordered; NaN and infinity keep their meaning.
"""

from somf.kernels.cpu.atoms import update_atoms
from somf.kernels.cpu.by_feature import update_atoms_by_feature
from somf.kernels.cpu.codes import solve_codes
from somf.kernels.cpu.marks import mark_used
from somf.kernels.cpu.norms import atom_norms, squared_norms
from somf.kernels.cpu.observation import observe
from somf.kernels.cpu.packing import pack_rows, unpack_rows
from somf.kernels.cpu.pairs import pairs, weighted_grams
from somf.kernels.cpu.part import update_part
from somf.kernels.cpu.products import accumulate, combine, correlate, gram, sum_parts
from somf.kernels.host import (
    IS_ASYNCHRONOUS,
    clear_atoms,
    clear_pairs,
    concatenate,
    copy_async,
    explain_out_of_memory,
    mix,
    put,
    store_zeros,
    take,
    to_device,
    to_store,
    without_gradients,
    zeros,
)

__all__ = [
    "IS_ASYNCHRONOUS",
    "accumulate",
    "atom_norms",
    "clear_atoms",
    "clear_pairs",
    "combine",
    "concatenate",
    "copy_async",
    "correlate",
    "explain_out_of_memory",
    "gram",
    "mark_used",
    "mix",
    "observe",
    "pack_rows",
    "pairs",
    "put",
    "solve_codes",
    "squared_norms",
    "store_zeros",
    "sum_parts",
    "take",
    "to_device",
    "to_store",
    "unpack_rows",
    "update_atoms",
    "update_atoms_by_feature",
    "update_part",
    "weighted_grams",
    "without_gradients",
    "zeros",
]
