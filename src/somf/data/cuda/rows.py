"""Minibatches made of rows that the device can read: its own, or pinned ones of the host."""

from typing import Any

import torch
import triton
import triton.language as tl

N_PROGRAMS = 20
"""Programs that read rows: enough to keep the bus busy, few enough to leave room to compute."""

ENTRIES_AT_ONCE = 4096
"""Entries of a row that a program works on at once."""

N_WARPS = 4
"""Warps of a program."""


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
        Whether the integers in `source` are unsigned, although its type is a signed one.

    Returns
    -------
    bad : tensor of int of shape (1,)
        Not zero if there are entries that are not finite. It is in the memory of the host, and
        is valid when the device has finished.
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
    """Arrange rows; all programs work on pieces of the same few rows at a time.

    So entries that are written out of order meet their neighbours in the cache.
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
