r"""The penalty Ω on codes and the ball 𝒞 of atoms.

.. math::
    λ Ω(α) = λ (ν ‖α‖_1 + (1-ν) ‖α‖_2^2), \qquad
    ‖d‖ = μ ‖d‖_1 + (1-μ) ‖d‖_2^2 ≤ 1,

either of them also with the constraint that all entries are non-negative. The functions here are
plain NumPy; the kernels have fast versions of those that an iteration calls.
"""

from dataclasses import dataclass

import numpy as np

from somf.typing import Array


@dataclass(frozen=True)
class CodePenalty:
    """The penalty λΩ on a code.

    Parameters
    ----------
    alpha : float
        λ ≥ 0.
    l1_ratio : float
        ν in [0, 1].
    positive : bool
        Whether codes must be non-negative.
    """

    alpha: float
    l1_ratio: float
    positive: bool

    @property
    def l1(self) -> float:
        """Weight of ‖α‖₁."""
        return self.alpha * self.l1_ratio

    @property
    def l2(self) -> float:
        """Weight of ½‖α‖₂² (the paper's Ω has no ½, so this is 2λ(1−ν))."""
        return 2.0 * self.alpha * (1.0 - self.l1_ratio)

    @property
    def has_closed_form(self) -> bool:
        """Whether codes are the solution of a linear system (ridge regression)."""
        return self.l1 == 0.0 and not self.positive

    def value(self, code: Array) -> Array:
        """Return λΩ of every code.

        Parameters
        ----------
        code : ndarray of shape (b, k)
            Also on a device.

        Returns
        -------
        value : ndarray of shape (b,)
        """
        value: Array = self.l1 * abs(code).sum(axis=1) + self.l2 / 2 * (code**2).sum(axis=1)
        return value


@dataclass(frozen=True)
class AtomBall:
    """The convex set that contains every atom.

    Parameters
    ----------
    l1_ratio : float
        μ in [0, 1]: 0 is the ℓ2 ball, 1 the ℓ1 ball.
    positive : bool
        Whether atoms must be non-negative.
    """

    l1_ratio: float
    positive: bool

    def norm(self, D: Array) -> Array:
        """Return μ‖d‖₁ + (1−μ)‖d‖₂² of every column.

        Parameters
        ----------
        D : ndarray of shape (q, k)

        Returns
        -------
        norm : ndarray of shape (k,)
        """
        mu = self.l1_ratio
        norm = mu * np.abs(D).sum(axis=0) + (1.0 - mu) * np.square(D).sum(axis=0)
        return np.asarray(norm)

    def project(self, u: Array, radius: float = 1.0) -> Array:
        """Return the point nearest to `u` whose norm is at most `radius`.

        By the optimality condition it is soft(u, θμ) / (1 + 2θ(1−μ)), with the multiplier θ ≥ 0 at
        which the norm equals the radius. On the support, of size m and sums s₁ = Σ|u|, s₂ = Σu²,
        θ solves (1−μ)θ² + θ = (μ s₁ + (1−μ) s₂ − radius) / (m μ² + 4 radius (1−μ)). A superset of
        the support gives too small a θ. The loop therefore starts with all entries and drops those
        that become zero, until none does.

        Parameters
        ----------
        u : ndarray of shape (q,)
        radius : float
            The budget. If it is not positive, the projection is zero.

        Returns
        -------
        projection : ndarray of shape (q,)
        """
        mu, c = self.l1_ratio, 1.0 - self.l1_ratio
        u = np.maximum(u, 0) if self.positive else u
        if radius <= 0.0:
            return np.zeros_like(u)
        magnitude = np.abs(u).astype(np.float64)
        support = magnitude[magnitude > 0]
        theta = 0.0
        while True:
            excess = mu * support.sum() + c * np.square(support).sum() - radius
            if excess <= 0.0:
                break
            rhs = excess / (support.size * mu**2 + 4.0 * radius * c)
            theta = 2.0 * rhs / (1.0 + np.sqrt(1.0 + 4.0 * c * rhs))
            kept = support[support > theta * mu]
            if kept.size == support.size:
                break
            support = kept
        shrunk = np.maximum(magnitude - theta * mu, 0.0) / (1.0 + 2.0 * theta * c)
        return np.copysign(shrunk, u).astype(u.dtype)

    def project_columns(self, D: Array) -> Array:
        """Return the projection of every column of D, of shape (q, k); those inside stay."""
        return np.column_stack([self.project(u) for u in D.T])

    def weighted_minimum(self, u: Array, c: Array, radius: float = 1.0) -> Array:
        """Return the minimum of Σ ½ c d² − u d over all d whose norm is at most `radius`.

        With c = 1 this is the projection of u. By the optimality condition it is
        soft(u, θμ) / (c + 2θ(1−μ)), with the multiplier θ ≥ 0 at which the norm equals the radius.
        The norm decreases in θ, so bisection finds it.

        Parameters
        ----------
        u : ndarray of shape (q,)
        c : ndarray of shape (q,)
            Positive.
        radius : float
            The budget. If it is not positive, the minimum is zero.

        Returns
        -------
        d : ndarray of shape (q,)
        """
        mu, rest = self.l1_ratio, 1.0 - self.l1_ratio
        if radius <= 0.0 or u.size == 0:
            return np.zeros_like(u)
        size = (np.maximum(u, 0) if self.positive else np.abs(u)).astype(np.float64)

        def point(theta: float) -> Array:
            return np.asarray(np.maximum(size - theta * mu, 0.0) / (c + 2.0 * theta * rest))

        def norm(theta: float) -> float:
            d = point(theta)
            return float(mu * d.sum() + rest * np.square(d).sum())

        low, high = 0.0, largest_multiplier(size, radius, mu)
        if norm(low) <= radius:
            high = low
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if norm(middle) > radius else (low, middle)
        return np.copysign(point(high), u).astype(u.dtype)

    def support(self, Z: Array) -> Array:
        """Return the support function, max ⟨z, d⟩ over all d in the ball, for every column z.

        For μ = 0 and μ = 1 it is the dual norm. The maximiser is soft(z, ημ) / (2η(1−μ)) with
        η² = Σz² / (m μ² + 4(1−μ)), and the maximum is η + Σ(|z| − ημ)² / (4η(1−μ)). Both sums are
        over the support of the maximiser, of size m.

        Parameters
        ----------
        Z : ndarray of shape (p, k)

        Returns
        -------
        support : ndarray of shape (k,)
        """
        mu, c = self.l1_ratio, 1.0 - self.l1_ratio
        magnitude = np.maximum(Z, 0) if self.positive else np.abs(Z)
        if c == 0.0:
            return np.asarray(magnitude.max(axis=0))
        # The function is positively homogeneous: scale by the largest entry against underflow.
        top = magnitude.max(axis=0)
        scaled = (magnitude / np.where(top > 0, top, 1)).T
        return np.array(
            [t * _elastic_support(z[z > 0], mu, c) for t, z in zip(top, scaled, strict=True)]
        )

    def normalise(self, D: Array) -> Array:
        """Return the columns of D scaled to norm one; zero columns stay zero.

        In a non-negative ball, negative entries become zero first.

        Parameters
        ----------
        D : ndarray of shape (q, k)

        Returns
        -------
        D : ndarray of shape (q, k)
        """
        mu, c = self.l1_ratio, 1.0 - self.l1_ratio
        D = np.maximum(D, 0) if self.positive else D
        magnitude = D if self.positive else np.abs(D)
        # Scale by the largest entry against overflow and underflow of the squares.
        top = magnitude.max(axis=0)
        D = D / np.where(top > 0, top, 1)
        l1 = np.abs(D).sum(axis=0) if mu > 0 else np.zeros_like(top)
        l2 = np.einsum("ij,ij->j", D, D)
        # The positive root of c l2 s² + mu l1 s = 1.
        root = mu * l1 + np.sqrt(np.square(mu * l1) + 4.0 * c * l2)
        D *= 2.0 / np.where(root > 0, root, 1)
        return np.asarray(D)


def largest_multiplier(size: Array, radius: float, mu: float) -> float:
    """Return a θ at which the norm of `AtomBall.weighted_minimum` is at most the radius.

    Parameters
    ----------
    size : ndarray of shape (q,)
        |u|.
    radius : float
        Positive.
    mu : float
    """
    top = float(size.max())
    if top == 0.0:
        return 0.0
    bounds = []
    if mu > 0.0:
        bounds.append(top / mu)  # where all entries are zero
    if mu < 1.0:
        # d ≤ |u| / 2θ(1−μ), so that either part of the norm is at most half of the radius.
        l1, l2 = float(size.sum()), top * float(np.sqrt(np.square(size / top).sum()))
        bounds.append(max(mu * l1 / (radius * (1 - mu)), l2 / np.sqrt(2 * radius * (1 - mu))))
    return float(min(bounds))


def _elastic_support(z: Array, mu: float, c: float) -> float:
    """Return the support function of the elastic-net ball at one z > 0, of shape (m,)."""
    eta = 0.0
    while z.size:
        eta = float(np.sqrt(np.square(z).sum() / (z.size * mu**2 + 4.0 * c)))
        kept = z[z > eta * mu]
        if kept.size == z.size:
            return eta + float(np.square(z - eta * mu).sum()) / (4.0 * eta * c)
        z = kept
    return eta
