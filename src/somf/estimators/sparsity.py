"""Warnings about codes that are empty, or as good as dense."""

import warnings
from dataclasses import replace

from somf.data import Source, loader_for
from somf.errors import ParameterError, SparsityWarning
from somf.inference.inspection import Inspection
from somf.kernels import kernels_for
from somf.training.config import TrainingConfig
from somf.training.density_probes import CodeProbe
from somf.typing import Array, Ints

NEARLY_ALL = 0.95
"""The share of samples with empty codes, and of entries that are not zero, worth a warning."""

FEWEST_ATOMS = 10
"""With fewer atoms codes may well be dense."""

USUAL_DENSITY = 0.1
"""The density of codes for which a λ is suggested."""


def warn_about_codes(
    config: TrainingConfig, found: Inspection, components: Array, source: Source, ids: Ints
) -> None:
    """Warn if an ℓ1 penalty has left nothing of codes, or has hardly any effect on them.

    Parameters
    ----------
    config : TrainingConfig
        That of the fit, with λ known.
    found : Inspection
        What samples with the given ids tell.
    components : ndarray of shape (k, p)
    source : Source
    ids : ndarray of int
    """
    penalty = config.penalty
    if penalty.l1 == 0 or found.n_samples == 0:
        return
    if found.n_empty > NEARLY_ALL * found.n_samples:
        share = found.n_empty / found.n_samples
        what = f"{share:.0%} of codes are empty: alpha={penalty.alpha:.3g} is too large"
    elif found.density > NEARLY_ALL and len(components) >= FEWEST_ATOMS:
        what = f"Codes have density {found.density:.0%}: alpha={penalty.alpha:.3g} is too small"
    else:
        return
    text = f"{what} for samples of norm {found.mean_norm:.3g}."
    if (alpha := _suitable_alpha(config, components, source, ids)) is not None:
        text += f" alpha={alpha:.3g} would give codes of density {USUAL_DENSITY} on these atoms."
    text += ' alpha="auto" with code_density finds such a value.'
    warnings.warn(text, SparsityWarning, stacklevel=5)


def _suitable_alpha(
    config: TrainingConfig, components: Array, source: Source, ids: Ints
) -> float | None:
    """Return the λ for codes of the usual density, if there is one."""
    kernels = kernels_for(config.device)
    X = loader_for(config.device, source, components.dtype).load(ids)
    probe = CodeProbe(kernels, X, replace(config, code_density=USUAL_DENSITY))
    try:
        alpha = probe.alpha(kernels.to_device(components.T.copy()))
    except ParameterError:  # atoms explain nothing of these samples
        return None
    return alpha if probe.is_reached else None
