"""The dictionary update on a part of the features, with other processes on the other parts.

The mathematics is that of `somf.kernels.cpu.atoms`. Between the regions of a block of atoms, its
Gram matrix is summed over all parts.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from somf.kernels.cpu.atoms import (
    ATOMS_PER_BLOCK,
    atom_weights,
    last_block,
    panel_gram,
    split_atoms,
)
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.products import PER_BLAS_OPERATION
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import shares
from somf.kernels.cpu.threads import threads_for
from somf.kernels.protocol import smallest_curvature
from somf.typing import Array, Ints


def update_part(
    D: Array, B: Array, C: Array, budget: Array, total: Callable[[Array], Array]
) -> None:
    """See `Kernels.update_part`."""
    usable = C.diagonal() > smallest_curvature(C)
    q, k = len(D), len(C)
    blocks, width = split_atoms(k, ATOMS_PER_BLOCK)  # all parts must have the same blocks
    threads = threads_for(PER_BLAS_OPERATION * 2.0 * q * width * (k + 4 * width))
    pieces, edges = shares((slice(0, q),), threads.count)
    panel = threads.buffer("panel", (q, 2 * width), D.dtype)
    grams = threads.buffer("panel grams", (threads.count, 2 * width, 2 * width), D.dtype)
    weights = np.zeros((0, 0), D.dtype)
    for first, last in pairwise(blocks.tolist()):
        m = last - first
        K = np.empty((2 * m, 2 * m))
        _begin_block(
            threads.count,
            D,
            B,
            C,
            usable,
            first,
            pieces,
            edges,
            panel,
            weights,
            grams,
            K,
        )
        K[:] = total(K.astype(D.dtype))
        weights = np.empty((2 * m, m), D.dtype)
        _end_block(1, K, C, usable, budget, first, weights)
    _write_last(threads.count, D, pieces, edges, panel, weights)


@region
def _begin_block(
    launcher: int,
    D: Array,
    B: Array,
    C: Array,
    usable: Array,
    first: int,
    pieces: Ints,
    edges: Ints,
    panel: Array,
    weights: Array,
    grams: Array,
    K: Array,
) -> None:
    """Write the atoms of the block before, fill the panel of this one, and compute its Gram."""
    m = len(K) // 2
    K[:] = panel_gram(launcher, D, B, C, usable, first, m, pieces, edges, panel, weights, grams)


@region
def _end_block(
    _: int, K: Array, C: Array, usable: Array, budget: Array, first: int, weights: Array
) -> None:
    """Compute the weights of the panel in the new atoms."""
    weights[:] = atom_weights(K, C, usable, budget, first, len(K) // 2)


@region
def _write_last(
    launcher: int, D: Array, pieces: Ints, edges: Ints, panel: Array, weights: Array
) -> None:
    """Write the atoms of the last block."""
    in_parallel(last_block, launcher, len(edges) - 1, D, pieces, edges, panel, weights)
