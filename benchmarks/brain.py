"""Maps of brain images by somf, and by nilearn's DictLearning and CanICA.

    python -m benchmarks.brain [--runs "sub-*_bold.nii.gz" --name mine] [--only somf]

Without `--runs`, the data is simulated (`benchmarks.brain_data`). A real run of 260 scans is
`sub-RAPIDTIDETEST.nii.gz` in the source distribution of rapidtide 2.4.0 on PyPI. Runs are divided
into two halves (a single run after half of its scans): maps of one half are judged by the variance
that they explain in the other, by least squares. All libraries get the same mask, smoothing of
4 mm, detrending, standardisation and number of maps; all else is left to them, but for the α of
DictLearning: with its default it finds no map at all in one half of that run. Every fit is a
process with one thread. Seconds are those of the CPU from the call of `fit` to its end, and memory
is the largest amount that could not be taken away (anonymous pages), beyond that of the process
before the fit.
"""

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import threading
import warnings
from collections.abc import Callable
from glob import glob
from pathlib import Path
from time import sleep
from typing import Any

import nibabel
import numpy as np
from nilearn.decomposition import CanICA, DictLearning
from nilearn.image import mean_img
from nilearn.maskers import MultiNiftiMasker
from scipy.optimize import linear_sum_assignment

from benchmarks.brain_data import Simulation, simulate
from benchmarks.machine import write_results
from somf import SparsePCA
from somf.integrations.nilearn import BrainFactorization
from somf.typing import Array

SETTINGS: dict[str, Any] = {
    "smoothing_fwhm": 4,
    "standardize": "zscore_sample",
    "detrend": True,
}
"""How all libraries smooth and clean images."""

CONTENDERS: dict[str, Callable[..., Any]] = {
    "somf": lambda k, **own: BrainFactorization(k, n_threads=1, **own),
    "somf, map_density = 0.4": lambda k, **own: BrainFactorization(
        k, map_density=0.4, n_threads=1, **own
    ),
    "DictLearning, α = 1": lambda k, **own: DictLearning(k, alpha=1, **own),
    "CanICA": lambda k, **own: CanICA(n_components=k, **own),
}
"""The estimators that are compared."""

FITS = ((0, 0), (0, 1), (1, 0))
"""The fits of an estimator: which half of the data, which seed."""

DENSITIES = (0.05, 0.1, 0.2, 0.3)
"""The fractions of voxels that maps are cut to, so that they are compared at the same density."""

FOUND = 0.7
"""The cosine from which on a network of a simulation counts as found."""


def fit(name: str, paths: list[str], mask: str, k: int, seed: int, answer: Any) -> None:
    """Fit in a process of its own; send maps, CPU seconds and bytes of memory.

    Parameters
    ----------
    name : str
        One of `CONTENDERS`.
    paths : list of str
        Runs.
    mask : str
    k : int
    seed : int
    answer : multiprocessing.connection.Connection
    """
    warnings.simplefilter("ignore")
    toy = np.random.default_rng(0).random((60, 30), dtype=np.float32)
    SparsePCA(3, alpha=0.01, n_epochs=1, n_threads=1).fit(toy)  # kernels are compiled or loaded
    model = CONTENDERS[name](k, mask=mask, random_state=seed, **SETTINGS)
    peak, is_done = [_anonymous_bytes()], threading.Event()

    def watch() -> None:
        while not is_done.is_set():
            peak.append(max(peak[-1], _anonymous_bytes()))
            sleep(0.01)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    begin = _cpu_seconds()
    model.fit(paths)
    seconds = _cpu_seconds() - begin
    is_done.set()
    watcher.join()
    answer.send((np.asarray(model.components_, np.float32), seconds, peak[-1] - peak[0]))


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def fit_apart(*arguments: Any) -> tuple[Array, float, int]:
    """Return what `fit` sends, from a new process with one thread."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    os.environ.update(dict.fromkeys(names, "1"))
    process = context.Process(target=fit, args=(*arguments, there))
    process.start()
    there.close()
    found: tuple[Array, float, int] = here.recv()
    process.join()
    return found


def halves(paths: list[str], folder: Path) -> tuple[list[str], list[str]]:
    """Return two halves of some runs; a single run is cut into two files."""
    if len(paths) > 1:
        return paths[::2], paths[1::2]
    image = nibabel.load(paths[0])
    middle = image.shape[3] // 2
    names = [str(folder / f"half-{half}.nii.gz") for half in range(2)]
    for name, scans in zip(names, (slice(middle), slice(middle, None)), strict=True):
        nibabel.save(image.slicer[..., scans], name)
    return [names[0]], [names[1]]


def matched(first: Array, second: Array) -> Array:
    """Return the cosines, without their signs, of maps that are matched one to one."""
    unit = [
        x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in (first, second)
    ]
    cosines = np.abs(unit[0] @ unit[1].T)
    return np.asarray(cosines[linear_sum_assignment(-cosines)])


def explained(maps: Array, rows: Array) -> float:
    """Return the fraction of the variance of rows that maps explain, by least squares."""
    maps = maps[np.any(maps != 0, axis=1)]
    basis = np.linalg.qr(maps.T)[0]
    return float(np.linalg.norm(rows @ basis) ** 2 / np.linalg.norm(rows) ** 2)


def cut(maps: Array, density: float) -> Array | None:
    """Return maps of unit norm with their largest voxels alone, a fraction of all of them.

    None if fewer voxels are not zero.
    """
    unit = maps / np.maximum(np.linalg.norm(maps, axis=1, keepdims=True), 1e-12)
    n_kept = round(density * unit.size)
    if np.count_nonzero(unit) < n_kept:
        return None
    threshold = np.partition(np.abs(unit).ravel(), -n_kept)[-n_kept]
    return np.where(np.abs(unit) >= threshold, unit, 0)


def explained_at(density: float, found: list[Array], rows: list[Array]) -> float | None:
    """Return what maps explain of the other half once they are cut, as the median of the fits."""
    shares = []
    for maps, (half, _) in zip(found, FITS, strict=True):
        kept = cut(maps, density)
        if kept is None:
            return None
        shares.append(explained(kept, rows[1 - half]))
    return float(np.median(shares))


def measure(
    paths: list[str], k: int, names: list[str], truth: Simulation | None, picture: Path | None
) -> dict[str, Any]:
    """Return what all estimators find in some runs.

    Parameters
    ----------
    paths : list of str
    k : int
        Maps.
    names : list of str
        Of `CONTENDERS`.
    truth : Simulation, optional
    picture : Path, optional
        Where to draw maps. They are kept beside it, for the picture of a call with other names.
    """
    with tempfile.TemporaryDirectory() as scratch:
        parts = halves(paths, Path(scratch))
        masker = MultiNiftiMasker(None if truth is None else truth.mask, mask_strategy="epi")
        masker.set_params(**SETTINGS, reports=False).fit(None if truth else paths)
        mask = str(Path(scratch) / "mask.nii.gz")
        nibabel.save(masker.mask_img_, mask)
        rows = [np.concatenate(masker.transform(part)).astype(np.float32) for part in parts]
        result: dict[str, Any] = {
            "runs": len(paths),
            "scans": [len(x) for x in rows],
            "voxels": rows[0].shape[1],
            "k": k,
            "is simulated": truth is not None,
            "libraries": {},
        }
        maps = {}
        for name in names:
            fits = [fit_apart(name, parts[half], mask, k, seed) for half, seed in FITS]
            found = [fitted[0] for fitted in fits]
            entry = {
                "cpu_seconds": [fitted[1] for fitted in fits],
                "bytes": [fitted[2] for fitted in fits],
                "density": [float((x != 0).mean()) for x in found],
                "held-out": [
                    explained(x, rows[1 - half]) for x, (half, _) in zip(found, FITS, strict=True)
                ],
                "held-out at density": {
                    str(density): explained_at(density, found, rows) for density in DENSITIES
                },
                "seeds": float(matched(found[0], found[1]).mean()),
                "halves": float(matched(found[0], found[2]).mean()),
            }
            if truth is not None:
                cosines = [matched(truth.maps, x) for x in found]
                entry["networks found"] = [int((x > FOUND).sum()) for x in cosines]
            result["libraries"][name] = entry
            maps[name] = found[0]
            print(name, entry, flush=True)
        if picture is not None:
            kept = picture.with_suffix(".npz")  # of earlier calls, for other estimators
            maps = (dict(np.load(kept)) if kept.exists() else {}) | maps
            np.savez(kept, **maps)
            draw(maps, masker, mean_img(parts[0], copy_header=True), picture)
        return result


SHOWN = ("somf", "DictLearning, α = 1", "CanICA")
"""The estimators in the picture."""

N_SHOWN = 5
"""Maps of each of them in the picture."""


def draw(maps: dict[str, Array], masker: Any, background: Any, path: Path) -> None:
    """Draw maps of somf, and below each the map of other estimators that is most like it.

    Parameters
    ----------
    maps : dict of ndarray of shape (k, p)
    masker : MultiNiftiMasker
    background : Nifti1Image
    path : Path
    """
    from matplotlib import pyplot as plt

    names = [name for name in SHOWN if name in maps]
    inside = np.asarray(masker.mask_img_.dataobj, bool)
    brain = np.where(inside, background.get_fdata(), np.nan)
    size = (2.4 * N_SHOWN, 2.55 * len(names))
    figure, axes = plt.subplots(
        len(names), N_SHOWN, figsize=size, squeeze=False, layout="constrained"
    )
    for column in range(N_SHOWN):
        reference = maps[names[0]][column]
        energy = np.zeros(inside.shape)
        energy[inside] = reference**2
        level = int(energy.sum(axis=(0, 1)).argmax())  # the slice that has most of the map
        for row, name in enumerate(names):
            products = maps[name] @ reference / np.linalg.norm(maps[name], axis=1).clip(1e-12)
            best = int(np.argmax(np.abs(products)))
            own = np.full(inside.shape, np.nan)
            own[inside] = np.sign(products[best]) * maps[name][best]
            own[own == 0] = np.nan
            largest = np.nanquantile(np.abs(own), 0.98)
            ax = axes[row, column]
            ax.imshow(brain[:, :, level].T, cmap="gray", origin="lower")
            ax.imshow(
                own[:, :, level].T, cmap="RdBu_r", vmin=-largest, vmax=largest, origin="lower"
            )
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
            cosine = abs(products[best]) / np.linalg.norm(reference)
            if row:
                ax.set_title(f"cosine {cosine:.2f}", fontsize=9)
        axes[0, column].set_title(f"map {column + 1}", fontsize=9)
    for row, name in enumerate(names):
        axes[row, 0].set_ylabel(name, fontsize=10)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main() -> None:
    """Measure, print, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", help="a path, or a pattern of paths, of 4-D images")
    parser.add_argument("--name", default="runs", help="what to call them in the results")
    parser.add_argument("--k", type=int, default=20, help="maps of runs that are not simulated")
    parser.add_argument("--only", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/brain.json"))
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    result = {"data": {}}
    if options.output.exists():
        result = json.loads(options.output.read_text())
    with tempfile.TemporaryDirectory() as folder:
        truth, name = None, options.name
        if options.runs is None:
            truth, name = simulate(Path(folder)), "simulated"
        paths = sorted(glob(options.runs)) if truth is None else [str(x) for x in truth.paths]
        if not paths:
            parser.error(f"no file matches {options.runs!r}")
        k = options.k if truth is None else len(truth.maps)
        found = measure(paths, k, options.only, truth, options.picture)
    earlier = result["data"].get(name, {"libraries": {}})["libraries"]
    found["libraries"] = earlier | found["libraries"]
    result["data"][name] = found
    write_results(options.output, {"data": result["data"]})


if __name__ == "__main__":
    main()
