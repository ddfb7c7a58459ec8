"""The dictionary update on a GPU, a block of atoms at a time, a handful of launches per block.

The mathematics is that of `cpu_atoms`; what is sequential inside a block is done by one program.
"""

import threading
from typing import Any

import torch
import triton
import triton.language as tl

from somf.kernels.cuda.codes import SMALLEST_WIDTH
from somf.penalties import AtomBall
from somf.typing import Slices

ATOMS_PER_BLOCK = 32
ATOMS_PER_PANEL = 16
FEATURES_AT_ONCE = 4096

_of_this_thread = threading.local()


def update_atoms(D: Any, B: Any, C: Any, rows: Slices, budget: Any, ball: AtomBall) -> None:
    """See `Kernels.update_atoms`."""
    q = sum(s.stop - s.start for s in rows)
    key = (q, C.shape[0], D.dtype, ball)
    updates: dict[Any, Update] = _of_this_thread.__dict__.setdefault("updates", {})
    if key not in updates:
        updates[key] = Update(D.new_empty((q, C.shape[0])), ball)
    updates[key](D, B, C, rows, budget)


def forget_graphs() -> None:
    """Let go of what `update_atoms` keeps on the device between two calls."""
    _of_this_thread.__dict__.pop("updates", None)


class Update:
    """The update on a number of rows, recorded once as a graph of launches and then replayed.

    On its own the host would take longer to launch the small pieces than the device to do them.

    Parameters
    ----------
    D : tensor of shape (q, k)
        Memory to work in.
    ball : AtomBall
    """

    def __init__(self, D: Any, ball: AtomBall) -> None:
        k = D.shape[1]
        self.D, self.B, self.C = D, torch.empty_like(D), D.new_empty((k, k))
        self.budget = D.new_empty(k)
        self.ball = ball
        self.n_calls = 0
        self.graph: Any = None

    def __call__(self, D: Any, B: Any, C: Any, rows: Slices, budget: Any) -> None:
        """Do what `update_atoms` says."""
        torch.cat([D[s] for s in rows], out=self.D)
        torch.cat([B[s] for s in rows], out=self.B)
        self.C.copy_(C)
        self.budget.copy_(budget)
        self.n_calls += 1
        if D.is_cuda and self.n_calls == 2:  # the first call compiles what it needs
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self._work()
        if self.graph is None:
            self._work()
        else:
            self.graph.replay()
        for s, part in zip(rows, self.D.split([s.stop - s.start for s in rows]), strict=True):
            D[s] = part

    def _work(self) -> None:
        curvature = self.C.diagonal()
        # See `smallest_curvature`; here it stays on the device.
        usable = curvature > torch.finfo(self.C.dtype).eps ** 2 * curvature.max()
        if self.ball.l1_ratio == 0.0 and not self.ball.positive:
            _update_in_l2_ball(self.D, self.B, self.C, usable, self.budget)
        else:
            _update_in_any_ball(self.D, self.B, self.C, usable, self.budget, self.ball)


def _update_in_l2_ball(D: Any, B: Any, C: Any, usable: Any, budget: Any) -> None:
    """Update atoms in the ℓ2 ball without touching the features one atom at a time.

    With R = B_J − D C_J, every new atom of the block is a combination of the columns of
    P = [D_J, R]. Norms come from the small Gram matrix PᵀP, the atoms from one product.
    """
    (q, k), M = D.shape, ATOMS_PER_BLOCK
    steps = torch.where(usable, 1 / torch.where(usable, C.diagonal(), 1), 0).double()
    couplings = C.double() * steps
    P = D.new_zeros((q, 2 * M))
    weights = D.new_zeros((2 * M, M))
    for start in range(0, k, M):
        J = slice(start, min(start + M, k))
        m = J.stop - start
        if m < M:
            P.zero_()
        P[:, :m] = D[:, J]
        torch.addmm(B[:, J], D, C[:, J], alpha=-1, out=P[:, M : M + m])
        K, among = P.T @ P, couplings[J, J]
        _combine[(1,)](K, among, k, steps[J], usable[J], budget[J], weights, m, M=M, num_warps=4)
        D[:, J] = (P @ weights)[:, :m]


@triton.jit
def _combine(gram, couplings, stride, steps, usable, budget, weights, m, M: tl.constexpr):
    """Write the (2M, M) weights that make the new atoms out of [D_J, R], given its Gram matrix K.

    K times what has been moved is kept next to it, so that a norm costs no product with K. What
    the next atom needs from memory is on its way while the present one is dealt with.
    """
    atom = tl.arange(0, M)
    column = tl.arange(0, 2 * M)
    moved = tl.zeros([M, 2 * M], dtype=tl.float64)  # new atoms minus old ones
    image = tl.zeros([M, 2 * M], dtype=tl.float64)  # times K
    next_old, next_pull = _images(gram, 0, column, M)
    next_coupling, next_step, next_radius, next_known = _facts(
        couplings, stride, steps, usable, budget, 0, atom
    )
    for j in range(m):
        old_image, pull_image = next_old.to(tl.float64), next_pull.to(tl.float64)
        coupling, step = next_coupling[:, None], next_step
        radius, known = next_radius.to(tl.float64), next_known
        following = tl.minimum(j + 1, m - 1)
        next_old, next_pull = _images(gram, following, column, M)
        next_coupling, next_step, next_radius, next_known = _facts(
            couplings, stride, steps, usable, budget, following, atom
        )
        old = (column == j).to(tl.float64)
        u = old + step * (column == M + j).to(tl.float64) - tl.sum(moved * coupling, axis=0)
        u_image = old_image + step * pull_image - tl.sum(image * coupling, axis=0)
        sq_norm = tl.sum(u * u_image, axis=0)
        outside = sq_norm > radius
        shrink = tl.sqrt(tl.maximum(radius, 0.0) / tl.where(outside, sq_norm, 1.0))
        shrink = tl.where(outside, shrink, 1.0)
        u = tl.where(known, shrink * u, old)
        is_this = (atom == j)[:, None]
        moved = tl.where(is_this, (u - old)[None, :], moved)
        image = tl.where(is_this & known, (shrink * u_image - old_image)[None, :], image)
        tl.store(weights + column * M + j, u)


@triton.jit
def _images(gram, j, column, M: tl.constexpr):
    """Return K times an atom of the block, and times its column of R."""
    return tl.load(gram + j * 2 * M + column), tl.load(gram + (M + j) * 2 * M + column)


@triton.jit
def _facts(couplings, stride, steps, usable, budget, j, atom):
    """Return how an atom depends on those before it, its step, its budget, and if it is usable."""
    coupling = tl.load(couplings + atom * stride + j, mask=atom < j, other=0.0)
    return coupling, tl.load(steps + j), tl.load(budget + j), tl.load(usable + j)


def _update_in_any_ball(D: Any, B: Any, C: Any, usable: Any, budget: Any, ball: AtomBall) -> None:
    """Update atoms in any ball, on transposed panels where each atom is contiguous."""
    q, k = D.shape
    ratio = torch.full((1,), ball.l1_ratio, dtype=torch.float64, device=D.device)
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
            budget[J],
            ratio,
            q,
            J.stop - start,
            POSITIVE=ball.positive,
            BLOCK=min(FEATURES_AT_ONCE, max(SMALLEST_WIDTH, triton.next_power_of_2(q))),
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
