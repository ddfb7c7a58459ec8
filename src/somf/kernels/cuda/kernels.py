"""The kernels on a GPU: torch for matrix products, Triton for sequential loops.

No kernel waits for the device, except `solve_codes` for ridge codes without a penalty.
"""

from somf.kernels.cuda.atoms import update_atoms, update_part
from somf.kernels.cuda.by_feature import (
    clear_pairs,
    pairs,
    update_atoms_by_feature,
    weighted_grams,
)
from somf.kernels.cuda.codes import solve_codes
from somf.kernels.cuda.device import (
    IS_ASYNCHRONOUS,
    clear_atoms,
    concatenate,
    copy_async,
    explain_out_of_memory,
    mark_used,
    mix,
    put,
    store_zeros,
    take,
    to_device,
    to_store,
    without_gradients,
    zeros,
)
from somf.kernels.cuda.products import (
    accumulate,
    atom_norms,
    combine,
    correlate,
    gram,
    observe,
    squared_norms,
    sum_parts,
)
from somf.kernels.host import pack_rows, unpack_rows

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
