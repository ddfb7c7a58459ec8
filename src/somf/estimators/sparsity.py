"""Warnings about codes that are empty or as good as dense, and atoms of another density."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from somf.data import Loader, Source, loader_for
from somf.data.sources.normalized import NormalizedSource
from somf.errors import ParameterError, ScaleError, SparsityWarning
from somf.kernels import kernels_for
from somf.kernels.cpu.threads import threads
from somf.training.config import TrainingConfig
from somf.training.density_probes import CodeProbe, density_of_atoms, next_alpha
from somf.typing import Array, Ints

NEARLY_ALL = 0.95
"""The share of samples with empty codes, and of entries that are not zero, worth a warning."""

FEWEST_SAMPLES = 10
"""Fewer samples than these may well have empty codes, or dense ones, in `transform`."""

FEWEST_ATOMS = 10
"""With fewer atoms codes may well be dense, unless λ has no effect."""

NO_EFFECT = 1e-3
"""λ has hardly any effect below this fraction of the one at which all codes are empty."""

USUAL_DENSITY = 0.1
"""The density of codes for which a λ is suggested."""

SAMPLES = 300
"""Samples that are read again for it, at most."""

ENTRIES = 2**23
"""Entries of these samples, at most."""

MISS = 0.25
"""The relative difference from `atom_density` that is worth a warning."""


@dataclass
class CodeCounts:
    """How many codes there were, and how many of them were empty.

    Attributes
    ----------
    n_samples, n_empty, n_entries, n_used : int
        Codes, those that are empty, their entries, and those that are not zero.
    """

    n_samples: int = 0
    n_empty: int = 0
    n_entries: int = 0
    n_used: int = 0

    @classmethod
    def of(cls, code: Array | None) -> "CodeCounts":
        """Return the counts of some codes, of shape (b, k)."""
        counts = cls()
        for _ in counts.counted([] if code is None else [code]):
            pass
        return counts

    def counted(self, codes: Iterable[Array]) -> Iterator[Array]:
        """Yield codes as they are, and count them."""
        for code in codes:
            used = np.count_nonzero(code, axis=1)
            self.n_samples += len(used)
            self.n_empty += int(np.count_nonzero(used == 0))
            self.n_entries += code.size
            self.n_used += int(used.sum())
            yield code


def warn_about_codes(
    counts: CodeCounts,
    config: TrainingConfig,
    components: Array,
    source: Source,
    of_transform: bool = False,
) -> None:
    """Warn if an ℓ1 penalty has left nothing of codes, or has hardly any effect on them.

    Samples are read again only for a warning.

    Parameters
    ----------
    counts : CodeCounts
    config : TrainingConfig
    components : ndarray of shape (k, p)
    source : Source
        What was coded.
    of_transform : bool
        Whether the codes are those of `transform`, rather than those of a fit.
    """
    penalty = config.transform_penalty if of_transform else config.penalty
    fewest = FEWEST_SAMPLES if of_transform else 1
    if penalty.l1 == 0 or counts.n_samples < fewest:
        return
    empty, density = counts.n_empty / counts.n_samples, counts.n_used / counts.n_entries
    if max(empty, density) <= NEARLY_ALL:
        return
    probed = replace(config, penalty=penalty, code_density=USUAL_DENSITY)
    with threads(config.n_threads):
        norm, top, alpha = _suitable_alpha(probed, components, source)
    if norm == 0:  # codes of samples that are zero are empty
        return
    is_large = empty > NEARLY_ALL
    if not is_large and len(components) < FEWEST_ATOMS and penalty.alpha > NO_EFFECT * top:
        return
    what = f"{empty:.0%} of codes are empty" if is_large else f"Codes have density {density:.0%}"
    name = "alpha" if config.transform_alpha is None or not of_transform else "transform_alpha"
    text = (
        f"{what}: {name}={penalty.alpha:.3g} is too {'large' if is_large else 'small'} for samples "
        f"of norm {norm:.3g}."
    )
    if alpha is not None:
        name = "transform_alpha" if of_transform else "alpha"
        text += f" {name}={alpha:.3g} would give codes of density {USUAL_DENSITY} on these atoms."
    if of_transform:
        advice = "Are the samples on the scale of those of the fit?"
    else:
        advice = 'alpha="auto" with code_density finds such a value'
        is_scaled = isinstance(source, NormalizedSource)
        advice += "." if is_scaled else "; normalize=True scales samples."
    warnings.warn(f"{text} {advice}", SparsityWarning, stacklevel=4)


def warn_about_atoms(target: float, alpha: float, components: Array) -> None:
    """Warn if atoms are not as dense as requested, by more than one feature.

    Parameters
    ----------
    target : float
        The density that is wanted.
    alpha : float
        The λ that was found for it.
    components : ndarray of shape (k, p)
    """
    D = components.T
    density, target = density_of_atoms(D), max(target, 1 / len(D))
    if abs(density - target) <= max(MISS * target, 1 / len(D)):
        return
    better = next_alpha(alpha, density, target, len(D))
    warnings.warn(
        f"Atoms have density {density:.3g} with alpha={alpha:.3g}, which was found on a part of "
        f"the data for atom_density={target:.3g}. alpha={better:.3g} should come closer.",
        SparsityWarning,
        stacklevel=4,
    )


def _suitable_alpha(
    config: TrainingConfig, components: Array, source: Source
) -> tuple[float, float, float | None]:
    """Return the norm of samples, the λ of empty codes, and that of the usual density, if any."""
    kernels = kernels_for(config.device)
    X = loader_for(config.device, source, components.dtype).load(_some_samples(source))
    D = kernels.to_device(np.ascontiguousarray(components.T))
    probe = CodeProbe(kernels, X, config)
    norm = float(np.median(np.sqrt(probe.sq_norms)))
    try:
        alpha = probe.alpha(D)
    except (ParameterError, ScaleError):  # atoms explain nothing of these samples, or all of it
        return norm, 0.0, None
    return norm, probe.top, alpha if probe.is_reached else None


def _some_samples(source: Source) -> Ints:
    """Return a few samples that are cheap to read together, the same in every call."""
    most = max(1, min(SAMPLES, int(ENTRIES / source.entries_per_row)))
    ids = np.arange(source.shape[0])
    # The first samples of an epoch: few chunks have to be read for them.
    return np.sort(Loader(source, np.dtype(np.float64)).order(ids, 0, 0)[:most])
