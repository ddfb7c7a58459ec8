"""Warnings about codes that are empty, or as good as dense."""

import warnings
from dataclasses import replace

import numpy as np

from somf.data import Loader, Source, loader_for
from somf.data.sources.normalized import NormalizedSource
from somf.errors import ParameterError, SparsityWarning
from somf.kernels import kernels_for
from somf.kernels.cpu.threads import threads
from somf.training.density_probes import CodeProbe
from somf.training.fitting import Fit
from somf.typing import Ints

NEARLY_ALL = 0.95
"""The share of samples with empty codes, and of entries that are not zero, worth a warning."""

FEWEST_ATOMS = 10
"""With fewer atoms codes may well be dense."""

USUAL_DENSITY = 0.1
"""The density of codes for which a λ is suggested."""

SAMPLES = 300
"""Samples that are read again for it, at most."""

ENTRIES = 2**23
"""Entries of these samples, at most."""


def warn_about_codes(fit: Fit, source: Source) -> None:
    """Warn if an ℓ1 penalty has left nothing of codes, or has hardly any effect on them.

    The codes are those of the last minibatch. Samples are read again only for a warning.

    Parameters
    ----------
    fit : Fit
    source : Source
        What was fitted.
    """
    code, penalty = fit.last_code, fit.config.penalty
    if penalty.l1 == 0 or code is None or len(code) == 0:
        return
    is_empty = ~(code != 0).any(axis=1)
    density = np.count_nonzero(code) / code.size
    if is_empty.mean() > NEARLY_ALL:
        what = f"{is_empty.mean():.0%} of codes are empty: alpha={penalty.alpha:.3g} is too large"
    elif density > NEARLY_ALL and code.shape[1] >= FEWEST_ATOMS:
        what = f"Codes have density {density:.0%}: alpha={penalty.alpha:.3g} is too small"
    else:
        return
    with threads(fit.config.n_threads):
        norm, alpha = _suitable_alpha(fit, source)
    if norm == 0:  # codes of samples that are zero are empty
        return
    text = f"{what} for samples of norm {norm:.3g}."
    if alpha is not None:
        text += f" alpha={alpha:.3g} would give codes of density {USUAL_DENSITY} on these atoms."
    advice = 'alpha="auto" with code_density finds such a value'
    advice += "." if isinstance(source, NormalizedSource) else "; normalize=True scales samples."
    warnings.warn(SparsityWarning(text, advice), stacklevel=4)


def _suitable_alpha(fit: Fit, source: Source) -> tuple[float, float | None]:
    """Return the typical norm of samples, and the λ for codes of the usual density, if any."""
    config, state = fit.config, fit.state
    loader = loader_for(config.device, source, state.dtype, state.permutation)
    X = loader.load(_some_samples(source, state.seed))
    probe = CodeProbe(kernels_for(config.device), X, replace(config, code_density=USUAL_DENSITY))
    norm = float(np.median(np.sqrt(probe.sq_norms)))
    try:
        alpha = probe.alpha(state.D)
    except ParameterError:  # atoms explain nothing of these samples
        return norm, None
    return norm, alpha if probe.is_reached else None


def _some_samples(source: Source, seed: int) -> Ints:
    """Return a few samples, by random, that are cheap to read together."""
    most = max(1, min(SAMPLES, int(ENTRIES / source.entries_per_row)))
    ids = np.arange(source.shape[0])
    # The first samples of an epoch: few chunks have to be read for them.
    return np.sort(Loader(source, np.dtype(np.float64)).order(ids, seed, 0)[:most])
