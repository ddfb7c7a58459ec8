"""Minibatches made of rows that the device can read: its own, or pinned ones of the host."""

from typing import Any

import torch
import triton
import triton.language as tl

N_PROGRAMS = 20
"""Enough to keep the bus busy; many more would be in the way of what the device computes."""
ENTRIES_AT_ONCE, N_WARPS = 4096, 4


def arrange_rows(source: Any, picked: Any, places: Any, rows: Any, is_unsigned: bool) -> Any:
    """Pick rows, convert them, put their entries in order and look for NaN and infinity.

    Parameters
    ----------
    source : tensor of shape (n, p)
        C-contiguous.
    picked : tensor of int of shape (b,)
    places : tensor of int of shape (p,), or None
        Where every entry of a row goes.
    rows : tensor of shape (b, p), overwritten
    is_unsigned : bool
        Whether the integers in `source` are without sign, whatever its type says.

    Returns
    -------
    bad : tensor of int of shape (1,)
        Not zero if there are entries that are not finite. It is in the memory of the host, and
        true when the device is done.
    """
    b, p = rows.shape
    bad = torch.zeros(1, dtype=torch.int32, pin_memory=rows.is_cuda)
    if b > 0:
        _arrange[(N_PROGRAMS,)](
            source,
            picked,
            rows if places is None else places,
            rows,
            bad,
            b,
            p,
            N_PROGRAMS=N_PROGRAMS,
            HAS_PLACES=places is not None,
            UNSIGNED=is_unsigned,
            BLOCK=ENTRIES_AT_ONCE,
            num_warps=N_WARPS,
        )
    return bad


@triton.jit
def _arrange(
    source,
    picked,
    places,
    rows,
    bad,
    b,
    p,
    N_PROGRAMS: tl.constexpr,
    HAS_PLACES: tl.constexpr,
    UNSIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Programs share the work piece by piece, so that all of them are at a few rows at a time.

    Entries that are written out of order then meet their neighbours in the cache.
    """
    per_row = tl.cdiv(p, BLOCK)
    kind: tl.constexpr = rows.dtype.element_ty
    n_bad = 0
    for piece in range(tl.program_id(0), b * per_row, N_PROGRAMS):
        i = (piece // per_row).to(tl.int64)
        column = piece % per_row * BLOCK + tl.arange(0, BLOCK)
        inside = column < p
        x = tl.load(source + tl.load(picked + i) * p + column, mask=inside, other=0)
        if UNSIGNED:
            x = x.to(tl.int32) & ((1 << source.dtype.element_ty.primitive_bitwidth) - 1)
        x = x.to(kind)
        place = column
        if HAS_PLACES:
            place = tl.load(places + column, mask=inside, other=0)
        tl.store(rows + i * p + place, x, mask=inside)
        n_bad += tl.sum((x - x != 0).to(tl.int32), axis=0)  # not for NaN and infinity
    if n_bad > 0:
        tl.store(bad, 1)
