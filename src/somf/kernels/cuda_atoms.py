"""The dictionary update on a GPU, a block of atoms at a time, a handful of launches per block.

The mathematics is that of `cpu_atoms`; what is sequential inside a block is done by one program.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from somf.penalties import AtomBall
from somf.typing import Slices

ATOMS_PER_BLOCK = 32
ATOMS_PER_PANEL = 16
FEATURES_AT_ONCE = 4096


def update_atoms(D: Any, B: Any, C: Any, rows: Slices, budget: Any, ball: AtomBall) -> None:
    """See `Kernels.update_atoms`."""
    D_s, B_s = _joined(D, rows), _joined(B, rows)
    curvature = C.diagonal()
    # See `smallest_curvature`; here it stays on the device.
    usable = curvature > torch.finfo(C.dtype).eps ** 2 * curvature.max()
    if ball.l1_ratio == 0.0 and not ball.positive:
        _update_in_l2_ball(D_s, B_s, C, usable, budget)
    else:
        _update_in_any_ball(D_s, B_s, C, usable, budget, ball)
    if len(rows) > 1:
        for s, part in zip(rows, D_s.split([s.stop - s.start for s in rows]), strict=True):
            D[s] = part


def _joined(A: Any, rows: Slices) -> Any:
    """Return some rows of an array in one piece."""
    return A[rows[0]] if len(rows) == 1 else torch.cat([A[s] for s in rows])


def _update_in_l2_ball(D: Any, B: Any, C: Any, usable: Any, budget: Any) -> None:
    """Update atoms in the ℓ2 ball without touching the features one atom at a time.

    With R = (B_J − D C_J) / diag C_J, every new atom of the block is a combination of the columns
    of P = [D_J, R]. Norms come from the small Gram matrix PᵀP, the atoms from one product.
    """
    (q, k), M = D.shape, ATOMS_PER_BLOCK
    inverse = torch.where(usable, 1 / torch.where(usable, C.diagonal(), 1), 0)
    P = D.new_zeros((q, 2 * M))
    weights = D.new_zeros((2 * M, M))
    for start in range(0, k, M):
        J = slice(start, min(start + M, k))
        m = J.stop - start
        if m < M:
            P.zero_()
        P[:, :m] = D[:, J]
        torch.addmm(B[:, J], D, C[:, J], alpha=-1, out=P[:, M : M + m])
        P[:, M : M + m] *= inverse[J]
        K = P.T @ P
        _combine[(1,)](
            K, C[J, J], C.stride(0), usable[J], budget[J].contiguous(), weights, m, M=M, num_warps=2
        )
        D[:, J] = (P @ weights)[:, :m]


@triton.jit
def _combine(gram, C, stride, usable, budget, weights, m, M: tl.constexpr):
    """Write the (2M, M) weights that make the new atoms out of [D_J, R], given its Gram matrix K.

    K times what has been moved is kept next to it, so that a norm costs no product with K. The
    atoms lie in the registers of one thread per column, and only the norm is a common effort.
    """
    atom = tl.arange(0, M)
    column = tl.arange(0, 2 * M)
    moved = tl.zeros([M, 2 * M], dtype=tl.float64)  # new atoms minus old ones
    image = tl.zeros([M, 2 * M], dtype=tl.float64)  # times K
    for j in range(m):
        old = (column == j).to(tl.float64)
        if tl.load(usable + j):
            old_image = tl.load(gram + j * 2 * M + column).to(tl.float64)
            pull_image = tl.load(gram + (M + j) * 2 * M + column).to(tl.float64)
            curvature = tl.load(C + j * stride + j).to(tl.float64)
            coupling = tl.load(C + atom * stride + j, mask=atom < j, other=0.0).to(tl.float64)
            coupling = (coupling / curvature)[:, None]
            u = old + (column == M + j).to(tl.float64) - tl.sum(moved * coupling, axis=0)
            u_image = old_image + pull_image - tl.sum(image * coupling, axis=0)
            sq_norm = tl.sum(u * u_image, axis=0)
            radius = tl.load(budget + j).to(tl.float64)
            outside = sq_norm > radius
            shrink = tl.sqrt(tl.maximum(radius, 0.0) / tl.where(outside, sq_norm, 1.0))
            shrink = tl.where(outside, shrink, 1.0)
            is_this = (atom == j)[:, None]
            moved = tl.where(is_this, (shrink * u - old)[None, :], moved)
            image = tl.where(is_this, (shrink * u_image - old_image)[None, :], image)
            tl.store(weights + column * M + j, shrink * u)
        else:
            tl.store(weights + column * M + j, old)


def _update_in_any_ball(D: Any, B: Any, C: Any, usable: Any, budget: Any, ball: AtomBall) -> None:
    """Update atoms in any ball, on transposed panels where each atom is contiguous."""
    q, k = D.shape
    ratio = torch.tensor([ball.l1_ratio], dtype=torch.float64, device=D.device)
    for start in range(0, k, ATOMS_PER_PANEL):
        J = slice(start, min(start + ATOMS_PER_PANEL, k))
        atoms = D[:, J].T.contiguous()
        residual = torch.addmm(B[:, J].T, C[J], D.T, alpha=-1)
        _sweep_panel[(1,)](
            atoms,
            residual.contiguous(),
            C[J, J],
            C.stride(0),
            usable[J],
            budget[J].contiguous(),
            ratio,
            q,
            J.stop - start,
            POSITIVE=ball.positive,
            BLOCK=min(FEATURES_AT_ONCE, triton.next_power_of_2(q)),
            num_warps=16,
        )
        D[:, J] = atoms.T


@triton.jit
def _sweep_panel(
    atoms,
    residual,
    C,
    stride,
    usable,
    budget,
    ratio,
    q,
    m,
    POSITIVE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Do the Gauss–Seidel pass inside a panel; `atoms` and `residual` (m, q) are overwritten.

    Once an atom has been dealt with, its row of `residual` holds how far it has moved.
    """
    mu = tl.load(ratio)
    for j in range(m):
        radius = tl.load(budget + j).to(tl.float64)
        known = tl.load(usable + j)
        curvature = tl.load(C + j * stride + j)
        for first in range(0, q, BLOCK):
            place = first + tl.arange(0, BLOCK)
            there = place < q
            u = tl.load(residual + j * q + place, mask=there, other=0.0)
            for i in range(j):
                coupling = tl.load(C + i * stride + j)
                u -= coupling * tl.load(residual + i * q + place, mask=there, other=0.0)
            old = tl.load(atoms + j * q + place, mask=there, other=0.0)
            u = tl.where(known, old + u / tl.where(known, curvature, 1.0), old)
            if POSITIVE:
                u = tl.where(known, tl.maximum(u, 0.0), u)
            tl.store(residual + j * q + place, u, mask=there)
        tl.debug_barrier()
        theta = tl.where(known, _multiplier(residual + j * q, q, mu, radius, BLOCK), 0.0)
        gone = known & (radius <= 0)
        cut = (theta * mu).to(curvature.dtype)
        scale = tl.where(gone, 0.0, 1 / (1 + 2 * theta * (1 - mu))).to(curvature.dtype)
        for first in range(0, q, BLOCK):
            place = first + tl.arange(0, BLOCK)
            there = place < q
            u = tl.load(residual + j * q + place, mask=there, other=0.0)
            size = tl.maximum(tl.abs(u) - cut, 0.0) * scale
            new = tl.where(u < 0, -size, size)
            old = tl.load(atoms + j * q + place, mask=there, other=0.0)
            tl.store(atoms + j * q + place, new, mask=there)
            tl.store(residual + j * q + place, new - old, mask=there)
        tl.debug_barrier()


@triton.jit
def _multiplier(u, q, mu, radius, BLOCK: tl.constexpr):
    """Return the multiplier θ of the projection of u; `AtomBall.project` derives it."""
    theta = mu * 0
    n_before = q + 1
    going = radius > 0
    while going:
        n = 0
        l1, l2 = mu * 0, mu * 0
        for first in range(0, q, BLOCK):
            place = first + tl.arange(0, BLOCK)
            size = tl.abs(tl.load(u + place, mask=place < q, other=0.0)).to(tl.float64)
            kept = (size > theta * mu) & (size > 0)
            size = tl.where(kept, size, 0.0)
            n += tl.sum(kept.to(tl.int32), axis=0)
            l1 += tl.sum(size, axis=0)
            l2 += tl.sum(size * size, axis=0)
        excess = mu * l1 + (1 - mu) * l2 - radius
        outside = (excess > 0) & (n < n_before)
        rhs = tl.where(outside, excess / (n * mu * mu + 4 * radius * (1 - mu)), 0.0)
        theta = tl.where(outside, 2 * rhs / (1 + tl.sqrt(1 + 4 * (1 - mu) * rhs)), theta)
        n_before = n
        going = outside & (mu > 0)
    return theta
