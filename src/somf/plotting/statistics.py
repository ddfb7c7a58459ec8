"""The history of a fit, and the usage of atoms."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from somf.errors import ParameterError
from somf.inference.usage import usage_of
from somf.plotting.arguments import given_or_new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTORY_LABELS = {
    "n_samples_seen": "samples seen",
    "n_iter": "iterations",
    "compute_seconds": "seconds of computation",
    "wall_seconds": "seconds",
}
"""Columns of ``history_`` that `plot_history` can draw the objective against, with labels."""


OBJECTIVE_LABELS = {
    "objective": "validation objective",
    "training_objective": "objective of minibatches",
}
"""Columns of ``history_`` with an objective, the better one first, with labels."""


def plot_history(
    model: Any,
    x: str = "compute_seconds",
    *,
    label: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the objective of a fit against time, iterations or samples.

    This is the objective on the validation data, or, without any, that of minibatches before they
    were learned from.

    Parameters
    ----------
    model : fitted estimator, or its ``history_``
    x : {"compute_seconds", "wall_seconds", "n_samples_seen", "n_iter"}
        The horizontal axis.
    label : str, optional
        Name of the curve in a legend.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    if not isinstance(model, Mapping):
        check_is_fitted(model)
    history = model if isinstance(model, Mapping) else model.history_
    if x not in HISTORY_LABELS:
        raise ParameterError("x", f"be one of {sorted(HISTORY_LABELS)}", x)
    column = next((name for name in OBJECTIVE_LABELS if name in history), None)
    if column is None:
        raise ParameterError(
            "history",
            "have a column 'objective' or 'training_objective'",
            history,
            "It is recorded by fit(X), not by partial_fit(X).",
            got=str(sorted(history)),
        )
    ax = given_or_new_axes(ax)
    ax.plot(history[x], history[column], marker="o", markersize=4, label=label)
    ax.set_xlabel(HISTORY_LABELS[x])
    ax.set_ylabel(OBJECTIVE_LABELS[column])
    return ax


def plot_usage(codes: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw how many samples use each atom, most used first, and the density of the codes.

    The density is the fraction of the codes that is not zero, which is the mean height of the bars.
    If no code is zero, as with a squared ℓ2 penalty, the bars are the mean magnitudes of the codes.

    Parameters
    ----------
    codes : ndarray or sparse matrix of shape (n_samples, n_components)
        The result of `transform`.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : Axes
    """
    usage = usage_of(codes)
    heights = (usage.size if usage.is_dense else usage.usage)[usage.order]
    ax = given_or_new_axes(ax)
    places = np.arange(1, len(heights) + 1)
    ax.fill_between(places, heights, step="mid", alpha=0.35, linewidth=0)
    ax.step(places, heights, where="mid")
    ax.locator_params("x", integer=True)
    ax.set_xlabel("atoms, most used first")
    ax.set_ylim(bottom=0)
    ax.margins(x=0.01)
    if usage.is_dense:
        ax.set_ylabel("mean size of codes")
        ax.set_title("No code is zero")
        return ax
    density, k = usage.density, len(heights)
    ax.axhline(density, color="0.4", linestyle="--", linewidth=1)
    ax.set_ylabel("fraction of samples that use it")
    ax.set_title(
        f"{density:.1%} of the codes are not zero: {density * k:.1f} atoms per sample\n"
        f"{usage.n_unused} of {k} atoms unused",
        fontsize="medium",
    )
    return ax
