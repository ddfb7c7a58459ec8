"""Rows of an array in pinned memory of the host, which the device reads by itself."""

from typing import Any

import triton
import triton.language as tl

N_PROGRAMS = 256
"""Enough to keep the bus busy; many more would be in the way of what the device computes."""
ENTRIES_AT_ONCE = 1024


def read_rows(source: Any, picked: Any, rows: Any) -> None:
    """Copy rows, as they are.

    Parameters
    ----------
    source : tensor of shape (n, p)
        Rows are contiguous; they lie in pinned memory.
    picked : tensor of int of shape (b,)
    rows : tensor of shape (b, p), overwritten
        Of the type of `source`.
    """
    b, p = rows.shape
    if b == 0:
        return
    n_blocks = triton.cdiv(p, ENTRIES_AT_ONCE)
    share = triton.cdiv(n_blocks, max(1, N_PROGRAMS // b)) * ENTRIES_AT_ONCE
    _read[(b, triton.cdiv(p, share))](
        source, source.stride(0), picked, rows, p, share, BLOCK=ENTRIES_AT_ONCE, num_warps=1
    )


@triton.jit
def _read(source, stride, picked, rows, p, share, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    begin = tl.program_id(1) * share
    row = source + tl.load(picked + i) * stride
    for first in range(begin, tl.minimum(begin + share, p), BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = column < p
        tl.store(rows + i * p + column, tl.load(row + column, mask=inside), mask=inside)
