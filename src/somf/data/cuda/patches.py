"""Patches of an image that is on the device; one Triton program cuts out one patch."""

from typing import Any

import torch
import triton
import triton.language as tl

FEATURES_AT_ONCE = 4096
"""Entries of a patch that a program works on at once."""


def cut_patches(pixels: Any, corners: Any, offsets: Any, center: bool, scale: bool, X: Any) -> None:
    """Cut out patches and normalise them like `images.cutting.cut_patches`.

    Parameters
    ----------
    pixels : tensor of shape (height * width * channels,)
        Of any type.
    corners : tensor of int of shape (b,)
        Where in `pixels` every patch begins.
    offsets : tensor of int of shape (p,)
        Where every value of a patch is, counted from its beginning.
    center : bool
        Whether to subtract the mean of every patch.
    scale : bool
        Whether to divide every patch, unless it is zero, by its Euclidean norm.
    X : tensor of shape (b, p), overwritten
    """
    b, p = X.shape
    if b == 0:
        return
    _cut[(b,)](
        pixels,
        corners,
        offsets,
        X,
        _rounding(X.dtype, X.device),
        p,
        CENTER=center,
        SCALE=scale,
        BLOCK=min(FEATURES_AT_ONCE, triton.next_power_of_2(p)),
        num_warps=16,
    )


def _rounding(dtype: torch.dtype, device: torch.device) -> Any:
    """Return the part of ‖x‖² below which a centred patch is constant up to rounding."""
    return torch.full((1,), (8 * torch.finfo(dtype).eps) ** 2, dtype=torch.float64, device=device)


@triton.jit
def _cut(
    pixels,
    corners,
    offsets,
    X,
    rounding,
    p,
    CENTER: tl.constexpr,
    SCALE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64)
    corner = pixels + tl.load(corners + i)
    row = X + i * p
    kind: tl.constexpr = X.dtype.element_ty
    first = tl.load(corner + tl.load(offsets)).to(kind)
    spread = tl.zeros([BLOCK], dtype=tl.float64)  # x − first, so that a constant patch has 0
    before = tl.zeros([BLOCK], dtype=tl.float64)
    for start in range(0, p, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < p
        offset = tl.load(offsets + column, mask=inside, other=0)
        x = tl.load(corner + offset, mask=inside, other=0).to(kind)
        tl.store(row + column, x, mask=inside)
        if CENTER or SCALE:
            x = tl.where(inside, x, 0.0)
            before += (x * x).to(tl.float64)
            spread += tl.where(inside, x - first, 0.0).to(tl.float64)
    if CENTER or SCALE:
        tl.debug_barrier()
        mean = (first.to(tl.float64) + tl.sum(spread, axis=0) / p).to(kind)
        after = tl.zeros([BLOCK], dtype=tl.float64)
        for start in range(0, p, BLOCK):
            column = start + tl.arange(0, BLOCK)
            inside = column < p
            x = tl.load(row + column, mask=inside, other=0.0)
            if CENTER:
                x = tl.where(inside, x - mean, 0.0)
            after += (x * x).to(tl.float64)
        total = tl.sum(after, axis=0)
        whole = tl.sum(before, axis=0)
        # An entry is infinite, or squares overflow: an error later, and not zeros.
        is_infinite = whole == float("inf")
        is_flat = (total <= tl.load(rounding) * whole) & (is_infinite == 0)
        factor = tl.where(is_flat, 0.0, 1.0)
        if SCALE:
            factor = tl.where(is_flat, 0.0, 1 / tl.sqrt(tl.where(is_flat, 1.0, total)))
            factor = tl.where(is_infinite, float("nan"), factor)
        for start in range(0, p, BLOCK):
            column = start + tl.arange(0, BLOCK)
            inside = column < p
            x = tl.load(row + column, mask=inside, other=0.0)
            if CENTER:
                x = x - mean
            tl.store(row + column, x * factor.to(kind), mask=inside)
