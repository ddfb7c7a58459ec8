"""All that can be measured of a dictionary on data, in one pass that holds one chunk at a time."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from somf.inference.coding import CodedChunk, Coder
from somf.inference.stationarity import Gradient
from somf.inference.usage import Usage
from somf.inference.variance import AtomShares, Variance
from somf.kernels.host import to_host
from somf.penalties import AtomBall, CodePenalty
from somf.typing import Array, Ints


@dataclass(frozen=True, kw_only=True)
class Measurement(Usage):
    """A dictionary on data: how much each atom is used, and how well samples are explained.

    Attributes
    ----------
    objective : float
    stationarity_gap : float or None
    explained_variance : float
        One less Σ‖x − Dα‖² / Σ‖x − x̄‖², over known entries: 1 is perfect, and the mean x̄ as
        the reconstruction of all samples has 0. NaN if all samples are the same.
    explained_variance_ratio : ndarray of shape (k,), or None
        The share of every atom in it: Σ αⱼ (2 dⱼᵀx − dⱼᵀDα) / Σ‖x − x̄‖², with samples and codes
        less their means. For principal components this is what PCA has under the name. Other atoms
        overlap, and one that makes up for others has a negative share. The sum is 1 less the
        variance of x − Dα over that of x. None where entries are unknown or have weights.
    reconstruction_err : float
        ‖X − codes @ components‖, the Frobenius norm, over known entries.
    relative_error : float
        √(Σ‖x − Dα‖² / Σ‖x‖²): the same over ‖X‖.
    n_samples_with : ndarray of shape (k + 1,)
        How many samples use 0, 1, … k atoms.
    """

    objective: float
    stationarity_gap: float | None
    explained_variance: float
    explained_variance_ratio: Array | None
    reconstruction_err: float
    relative_error: float
    n_samples_with: Ints


def measure(
    coder: Coder,
    chunks: Iterable[CodedChunk],
    ball: AtomBall,
    with_gap: bool,
    user_penalty: CodePenalty | None = None,
) -> Measurement:
    """Measure a dictionary on samples.

    Parameters
    ----------
    coder : Coder
    chunks : iterable of CodedChunk
        The samples, coded by `coder`.
    ball : AtomBall
    with_gap : bool
        Whether to measure the stationarity gap, which takes precise codes.
    user_penalty : CodePenalty, optional
        That of the codes that the user gets, if it is another one: all but objective and gap is
        about these.
    """
    k, n = coder.D.shape[1], 0
    total, total_size = 0.0, np.zeros(k)
    n_users, n_samples_with = np.zeros(k, np.int64), np.zeros(k + 1, np.int64)
    for_user = coder.with_penalty(user_penalty)
    gradient = Gradient(coder) if with_gap else None
    variance, shares = Variance(for_user), AtomShares(for_user)
    for chunk in chunks:
        n += len(chunk.objective)
        total += float(chunk.objective.sum(dtype=np.float64))
        if gradient is not None:
            gradient.add(chunk)
        shown = chunk
        if for_user is not coder:
            shown = CodedChunk(chunk.X, *for_user.code(chunk.X))
        variance.add(shown)
        shares.add(shown)
        codes = to_host(shown.code)
        used = codes != 0
        n_users += used.sum(axis=0)
        total_size += np.abs(codes).sum(axis=0, dtype=np.float64)
        n_samples_with += np.bincount(used.sum(axis=1), minlength=k + 1)
    return Measurement(
        n_samples=n,
        n_users=n_users,
        size=total_size / n,
        objective=total / n,
        stationarity_gap=None if gradient is None else gradient.stationarity_gap(ball),
        explained_variance=variance.explained,
        explained_variance_ratio=shares.of(variance),
        reconstruction_err=variance.error,
        relative_error=variance.relative_error,
        n_samples_with=n_samples_with,
    )
