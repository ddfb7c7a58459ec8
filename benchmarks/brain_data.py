"""Simulated runs: networks in the MNI brain, each with a time series of its own in every subject.

Brains, networks, drifts and noise are made so that the truth is known. The mask is that of the
MNI152 template, which comes with nilearn.
"""

from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from nilearn.datasets import load_mni152_brain_mask
from nilearn.masking import unmask
from scipy.ndimage import gaussian_filter, gaussian_filter1d


@dataclass(frozen=True)
class Simulation:
    """Runs of several subjects, and the maps that they are made of.

    Parameters
    ----------
    paths : list of Path
        The runs, NIfTI files.
    mask : Nifti1Image
    maps : ndarray of shape (n_networks, n_voxels)
        Of unit norm.
    """

    paths: list[Path]
    mask: nibabel.Nifti1Image
    maps: np.ndarray


def simulate(
    folder: Path,
    *,
    n_subjects: int = 6,
    n_networks: int = 12,
    scans: tuple[int, int] = (60, 90),
    resolution: int = 6,
    noise: float = 1.0,
    ending: str = ".nii.gz",
    seed: int = 0,
) -> Simulation:
    """Write the runs of several subjects, which differ in length, to a folder.

    Parameters
    ----------
    folder : Path
    n_subjects, n_networks : int
    scans : tuple of int
        The least and the largest number of scans of a run.
    resolution : int
        Millimetres of a voxel.
    noise : float
        Standard deviation of the noise, half of it smooth in space, where that of a network is
        about one at its centre.
    ending : str
        ``".nii"`` or ``".nii.gz"``.
    seed : int

    Returns
    -------
    simulation : Simulation
    """
    rng = np.random.default_rng(seed)
    mask = load_mni152_brain_mask(resolution=resolution)
    inside = mask.get_fdata().astype(bool)
    networks = np.stack([_network(inside, resolution, rng) for _ in range(n_networks)])
    paths = []
    for subject in range(n_subjects):
        n_scans = int(rng.integers(scans[0], scans[1] + 1))
        own = networks * rng.uniform(0.6, 1.4, (n_networks, 1, 1, 1))
        series = gaussian_filter1d(rng.standard_normal((n_scans, n_networks)), 1.5, axis=0)
        rows = (series / series.std(0)) @ own[:, inside]
        rows += _noise(inside, n_scans, noise, rng)
        rows += np.outer(np.linspace(-1, 1, n_scans), rng.standard_normal(rows.shape[1]))
        rows = 10 * rows + rng.uniform(800, 1200, rows.shape[1])
        paths.append(folder / f"sub-{subject:02d}_bold{ending}")
        unmask(rows.astype(np.float32), mask).to_filename(paths[-1])
    maps = networks[:, inside]
    return Simulation(paths, mask, maps / np.linalg.norm(maps, axis=1, keepdims=True))


def _network(inside: np.ndarray, resolution: int, rng: np.random.Generator) -> np.ndarray:
    """Return one to four smooth blobs inside the brain, zero elsewhere, with a maximum of one."""
    voxels = np.argwhere(inside)
    network = np.zeros(inside.shape)
    for centre in rng.choice(voxels, rng.integers(1, 5), replace=False):
        width = rng.uniform(8, 14) / resolution
        distance = ((np.indices(inside.shape).T - centre) ** 2).sum(-1).T
        network = np.maximum(network, rng.uniform(0.7, 1) * np.exp(-distance / (2 * width**2)))
    return np.where(inside & (network > 0.3), network, 0)


def _noise(inside: np.ndarray, n_scans: int, size: float, rng: np.random.Generator) -> np.ndarray:
    """Return noise of shape (n_scans, n_voxels), half of its variance smooth in space."""
    rows = rng.standard_normal((n_scans, np.count_nonzero(inside)))
    for scan in range(n_scans):
        smooth = gaussian_filter(rng.standard_normal(inside.shape), 1.5)
        rows[scan] += smooth[inside] / smooth.std()
    return rows * (size / np.sqrt(2))
