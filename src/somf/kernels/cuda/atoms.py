"""The dictionary update on a GPU, one block of atoms at a time, with few launches per block.

The mathematics is that of `somf.kernels.cpu.atoms`. One Triton program does the sequential part
inside a block.
"""

import threading
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from somf.kernels.cuda.codes import MIN_WIDTH
from somf.penalties import AtomBall
from somf.typing import Slices

ATOMS_PER_BLOCK = 32
"""Atoms of a block in the ℓ2 ball."""

ATOMS_PER_PANEL = 16
"""Atoms of a block in any other ball."""

MAX_FEATURES_AT_ONCE = 4096
"""Features of an atom that a Triton program holds in registers at the same time."""

_thread_cache = threading.local()
"""The recorded updates of each thread, in the attribute ``updates``."""


def update_atoms(D: Any, B: Any, C: Any, rows: Slices, budget: Any, ball: AtomBall) -> None:
    """See `Kernels.update_atoms`."""
    q = sum(s.stop - s.start for s in rows)
    key = (q, C.shape[0], D.dtype, ball)
    updates: dict[Any, Update] = _thread_cache.__dict__.setdefault("updates", {})
    if key not in updates:
        updates[key] = Update(D.new_empty((q, C.shape[0])), ball)
    updates[key](D, B, C, rows, budget)


def update_part(D: Any, B: Any, C: Any, budget: Any, total: Callable[[Any], Any]) -> None:
    """See `Kernels.update_part`. Messages cannot be recorded, so nothing is."""
    _update_in_l2_ball(D, B, C, _usable(C), budget, total)


def clear_graphs() -> None:
    """Free the device memory that `update_atoms` keeps between calls in this thread."""
    _thread_cache.__dict__.pop("updates", None)


class Update:
    """The update of a fixed number of features, recorded as a CUDA graph and then replayed.

    Without the graph, the host would need more time to launch the many small operations than the
    device needs to run them.

    Parameters
    ----------
    D : tensor of shape (q, k)
        A buffer for the selected rows of the dictionary.
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
        """See `Kernels.update_atoms`; `D` is overwritten."""
        torch.cat([D[s] for s in rows], out=self.D)
        torch.cat([B[s] for s in rows], out=self.B)
        self.C.copy_(C)
        self.budget.copy_(budget)
        self.n_calls += 1
        if D.is_cuda and self.n_calls == 2:  # the first call compiles the kernels
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self._update()
        if self.graph is None:
            self._update()
        else:
            self.graph.replay()
        for s, part in zip(rows, self.D.split([s.stop - s.start for s in rows]), strict=True):
            D[s] = part

    def _update(self) -> None:
        usable = _usable(self.C)
        if self.ball.l1_ratio == 0.0 and not self.ball.positive:
            _update_in_l2_ball(self.D, self.B, self.C, usable, self.budget)
        else:
            _update_in_any_ball(self.D, self.B, self.C, usable, self.budget, self.ball)


def _usable(C: Any) -> Any:
    """Return which atoms are updated: as in `smallest_curvature`, without a copy to the host."""
    curvature, limits = C.diagonal(), torch.finfo(C.dtype)
    return curvature > (limits.eps**2 * curvature.max()).clamp(min=limits.tiny)


def _same(gram: Any) -> Any:
    return gram


def _update_in_l2_ball(
    D: Any, B: Any, C: Any, usable: Any, budget: Any, total: Callable[[Any], Any] = _same
) -> None:
    """Update atoms in the ℓ2 ball without a loop over features for each atom; `D` is overwritten.

    With R = B_J − D C_J, every new atom of the block is a linear combination of the columns of
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
        K, within = total(P.T @ P), couplings[J, J]
        _atom_weights[(1,)](
            K, within, k, steps[J], usable[J], budget[J], weights, m, M=M, num_warps=4
        )
        D[:, J] = (P @ weights)[:, :m]


@triton.jit
def _atom_weights(gram, couplings, stride, steps, usable, budget, weights, m, M: tl.constexpr):
    """Set `weights` (2M, M) to those with which [D_J, R] gives the new atoms.

    `gram` is K, the Gram matrix of [D_J, R]. The products of K with the moves of the atoms are kept
    too, so that a norm needs no product with K. The data of the next atom are loaded while the
    current atom is computed.
    """
    atom = tl.arange(0, M)
    column = tl.arange(0, 2 * M)
    moved = tl.zeros([M, 2 * M], dtype=tl.float64)  # new atoms minus old ones
    K_moved = tl.zeros([M, 2 * M], dtype=tl.float64)  # K times `moved`
    next_old, next_pull = _load_gram_rows(gram, 0, column, M)
    next_coupling, next_step, next_radius, next_usable = _load_atom(
        couplings, stride, steps, usable, budget, 0, atom
    )
    for j in range(m):
        K_old, K_pull = next_old.to(tl.float64), next_pull.to(tl.float64)
        coupling, step = next_coupling[:, None], next_step
        radius, is_usable = next_radius.to(tl.float64), next_usable
        following = tl.minimum(j + 1, m - 1)
        next_old, next_pull = _load_gram_rows(gram, following, column, M)
        next_coupling, next_step, next_radius, next_usable = _load_atom(
            couplings, stride, steps, usable, budget, following, atom
        )
        old = (column == j).to(tl.float64)
        u = old + step * (column == M + j).to(tl.float64) - tl.sum(moved * coupling, axis=0)
        K_u = K_old + step * K_pull - tl.sum(K_moved * coupling, axis=0)
        sq_norm = tl.sum(u * K_u, axis=0)
        outside = sq_norm > radius
        shrink = tl.sqrt(tl.maximum(radius, 0.0) / tl.where(outside, sq_norm, 1.0))
        shrink = tl.where(outside, shrink, 1.0)
        u = tl.where(is_usable, shrink * u, old)
        is_current = (atom == j)[:, None]
        moved = tl.where(is_current, (u - old)[None, :], moved)
        K_moved = tl.where(is_current & is_usable, (shrink * K_u - K_old)[None, :], K_moved)
        tl.store(weights + column * M + j, u)


@triton.jit
def _load_gram_rows(gram, j, column, M: tl.constexpr):
    """Return the rows of the Gram matrix (2M, 2M) that belong to atom j and to its column of R."""
    return tl.load(gram + j * 2 * M + column), tl.load(gram + (M + j) * 2 * M + column)


@triton.jit
def _load_atom(couplings, stride, steps, usable, budget, j, atom):
    """Return the couplings of atom j to earlier atoms, its step, its budget, and its usability."""
    coupling = tl.load(couplings + atom * stride + j, mask=atom < j, other=0.0)
    return coupling, tl.load(steps + j), tl.load(budget + j), tl.load(usable + j)


def _update_in_any_ball(D: Any, B: Any, C: Any, usable: Any, budget: Any, ball: AtomBall) -> None:
    """Update atoms in any ball, on transposed panels (m, q); `D` is overwritten."""
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
            BLOCK=min(MAX_FEATURES_AT_ONCE, max(MIN_WIDTH, triton.next_power_of_2(q))),
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

    After the update of an atom, its row of `residual` holds the new atom minus the old one.
    """
    mu = tl.load(ratio)
    for j in range(m):
        radius = tl.load(budget + j).to(tl.float64)
        is_usable = tl.load(usable + j)
        curvature = tl.load(C + j * stride + j)
        for first in range(0, q, BLOCK):
            feature = first + tl.arange(0, BLOCK)
            is_feature = feature < q
            u = tl.load(residual + j * q + feature, mask=is_feature, other=0.0)
            for i in range(j):
                coupling = tl.load(C + i * stride + j)
                u -= coupling * tl.load(residual + i * q + feature, mask=is_feature, other=0.0)
            old = tl.load(atoms + j * q + feature, mask=is_feature, other=0.0)
            u = tl.where(is_usable, old + u / tl.where(is_usable, curvature, 1.0), old)
            if POSITIVE:
                u = tl.where(is_usable, tl.maximum(u, 0.0), u)
            tl.store(residual + j * q + feature, u, mask=is_feature)
        tl.debug_barrier()
        theta = tl.where(is_usable, _multiplier(residual + j * q, q, mu, radius, BLOCK), 0.0)
        is_zero = is_usable & (radius <= 0)
        cut = (theta * mu).to(curvature.dtype)
        scale = tl.where(is_zero, 0.0, 1 / (1 + 2 * theta * (1 - mu))).to(curvature.dtype)
        for first in range(0, q, BLOCK):
            feature = first + tl.arange(0, BLOCK)
            is_feature = feature < q
            u = tl.load(residual + j * q + feature, mask=is_feature, other=0.0)
            size = tl.maximum(tl.abs(u) - cut, 0.0) * scale
            new = tl.where(u < 0, -size, size)
            old = tl.load(atoms + j * q + feature, mask=is_feature, other=0.0)
            tl.store(atoms + j * q + feature, new, mask=is_feature)
            tl.store(residual + j * q + feature, new - old, mask=is_feature)
        tl.debug_barrier()


@triton.jit
def _multiplier(u, q, mu, radius, BLOCK: tl.constexpr):
    """Return the multiplier θ of the projection of u; `AtomBall.project` has the derivation."""
    theta = mu * 0
    n_before = q + 1
    running = radius > 0
    while running:
        n = 0
        l1, l2 = mu * 0, mu * 0
        for first in range(0, q, BLOCK):
            feature = first + tl.arange(0, BLOCK)
            size = tl.abs(tl.load(u + feature, mask=feature < q, other=0.0)).to(tl.float64)
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
        running = outside & (mu > 0)
    return theta
