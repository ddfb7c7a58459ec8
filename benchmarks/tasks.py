"""Two tasks from beginning to end: noise removed from photographs, and scenes unmixed.

    python -m benchmarks.tasks [--seeds 3] [--only denoising]

Every library learns atoms with its defaults, apart from k, λ and the seed; SPAMS has no rule when
to stop and does five epochs. The same code finishes the task with the atoms of each: orthogonal
matching pursuit and the mean of overlapping patches, or non-negative least squares. The times are
those of learning. `somf` also learns for shorter times, which says when it is as good as another
library. Libraries take turns with every seed. The photographs are those of scikit-learn, Indian
Pines that of tensorly; the other scene is a mixture of smooth spectra.
"""

import argparse
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import decomposition
from sklearn.datasets import load_sample_image

import somf
from benchmarks.contenders import SPAMS_EPOCHS, Times, seconds_of
from benchmarks.machine import write_results
from benchmarks.scenes import indian_pines_cube
from somf.callbacks import Progress
from somf.cli.scenes import synthetic
from somf.data import noise_bound
from somf.typing import Array

RESULTS = Path(__file__).parent / "results" / "tasks.json"
"""Where results are written."""

SIGMA = 25.0
"""The standard deviation of the noise; pixels are from 0 to 255."""

PATCH = 8
"""Height and width of the patches of photographs."""

PHOTOGRAPHS = {"china": (100, 250), "flower": (150, 250)}
"""The photographs, and the upper left corner of the part that is used."""

SIDE = 96
"""Height and width of that part."""

N_ATOMS = 100
"""Atoms for patches of photographs."""

ALPHA = 1.5 * SIGMA
"""λ for patches of photographs, which are centred and not scaled."""

PARTS = (64, 16, 4)
"""`somf` also learns from these parts of the samples that it sees until it stops."""

WITHIN = 0.1
"""Decibels that count as the same."""

BATCH_SIZE = 256
"""Samples of a minibatch of SPAMS."""

Learn = Callable[[Array, int], tuple[Array, Times]]
"""Learns atoms (k, p) from samples (n, p) with a seed, and says how long it took."""


def learn_somf(make: Callable[[int], Any], X: Array, seed: int, n_seen: float = np.inf) -> Any:
    """Return a model of somf that has seen so many samples, and the times of its fit."""

    def is_over(progress: Progress) -> bool:
        return progress.n_samples_seen >= n_seen

    model = make(seed).set_params(callbacks=is_over)
    return model, seconds_of(lambda: model.fit(X))


def learn_scikit(make: Callable[[int], Any], X: Array, seed: int) -> tuple[Array, Times]:
    """Return the atoms of an estimator of scikit-learn, and the times of its fit."""
    model = make(seed)
    times = seconds_of(lambda: model.fit(X))
    return model.components_, times


def learn_spams(alpha: float, k: int, positive: bool, X: Array, seed: int) -> tuple[Array, Times]:
    """Return the atoms of SPAMS after some epochs, and the times of its fit."""
    import spams

    found: list[Array] = []

    def learn() -> None:
        order = np.random.default_rng(seed).permutation(len(X))
        samples = np.asfortranarray(X[order].T)
        found.append(
            spams.trainDL(
                samples,
                D=samples[:, :k].copy(order="F"),
                lambda1=alpha,
                iter=math.ceil(SPAMS_EPOCHS * len(X) / BATCH_SIZE),
                batchsize=BATCH_SIZE,
                posAlpha=positive,
                posD=positive,
                verbose=False,
            )
        )

    times = seconds_of(learn)
    return found[0].T, times


def compare(
    X: Array,
    n_seeds: int,
    make: Callable[[int], Any],
    peers: dict[str, Learn],
    judge: Callable[[Array, int], float],
    is_better: Callable[[float, float], bool],
) -> dict[str, Any]:
    """Return what all libraries reach, and when somf is as good as each of the others.

    Parameters
    ----------
    X : ndarray of shape (n, p), or callable
        The samples, which may depend on the seed.
    n_seeds : int
    make : callable
        Returns the estimator of somf for a seed.
    peers : dict
        The other libraries.
    judge : callable
        Returns how good atoms are, with a seed.
    is_better : callable
        Whether a first result is at least as good as a second one.
    """
    rows: dict[str, dict[str, list[Any]]] = {}
    make(0).set_params(n_epochs=1).fit(_samples(X, 0)[:2000])  # compiles the kernels
    for seed in range(n_seeds):
        samples = _samples(X, seed)
        model, times = learn_somf(make, samples, seed)
        curve = [(judge(model.components_, seed), times)]
        print(f"somf has learned in {times.cpu:.1f} s of CPU", flush=True)
        for part in reversed(PARTS):
            shorter = learn_somf(make, samples, seed, model.n_samples_seen_ / part)
            curve.insert(0, (judge(shorter[0].components_, seed), shorter[1]))
        results = {"somf": curve[-1]}
        for name, learn in peers.items():
            atoms, times = learn(samples, seed)
            results[name] = judge(atoms, seed), times
            print(f"{name} has learned in {times.cpu:.1f} s of CPU", flush=True)
        for name, (quality, times) in results.items():
            sooner = next((t for q, t in curve if is_better(q, quality)), None)
            row = rows.setdefault(name, {})
            found = {
                "quality": quality,
                "wall_seconds": times.wall,
                "cpu_seconds": times.cpu,
                "somf wall_seconds": None if sooner is None else sooner.wall,
                "somf cpu_seconds": None if sooner is None else sooner.cpu,
            }
            for key, value in found.items():
                row.setdefault(key, []).append(value)
            print(f"{name:28} {quality:.4f}  {times.cpu:.2f} s of CPU", flush=True)
    return rows


def _samples(X: Any, seed: int) -> Array:
    samples: Array = X(seed) if callable(X) else X
    return samples


class Photograph:
    """A part of a photograph with noise, in patches.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        top, left = PHOTOGRAPHS[name]
        gray = load_sample_image(f"{name}.jpg").mean(axis=2).astype(np.float32)
        self.clean = gray[top : top + SIDE, left : left + SIDE]

    def noisy(self, seed: int) -> Array:
        """Return the photograph with noise."""
        noise = np.random.default_rng(seed).standard_normal(self.clean.shape, dtype=np.float32)
        return self.clean + np.float32(SIGMA) * noise

    def patches(self, seed: int) -> somf.ImagePatches:
        """Return the patches of the photograph with noise."""
        return somf.ImagePatches(self.noisy(seed), PATCH, scale=False)

    def samples(self, seed: int) -> Array:
        """Return all patches as rows."""
        patches = self.patches(seed)
        return patches.rows(np.arange(patches.shape[0]))

    def decibels(self, atoms: Array, seed: int) -> float:
        """Return the peak signal-to-noise ratio after the noise is removed with atoms."""
        patches = self.patches(seed)
        model = somf.DictionaryLearning(len(atoms), alpha=ALPHA, n_epochs=1, tol=0)
        model.fit(patches.rows(np.arange(2 * len(atoms))))
        model.components_ = np.ascontiguousarray(atoms, dtype=np.float32)
        codes = model.transform(patches, max_error=noise_bound(SIGMA, PATCH**2), sparse=True)
        denoised = np.clip(patches.reconstruct(codes, model.components_), 0, 255)
        return psnr(denoised, self.clean)


def psnr(image: Array, clean: Array) -> float:
    """Return the peak signal-to-noise ratio of pixels from 0 to 255, in decibels."""
    return float(20 * np.log10(255 / np.sqrt(np.mean((image - clean) ** 2))))


def measure_denoising(n_seeds: int) -> dict[str, Any]:
    """Return the results of all libraries on the photographs."""
    found = {}
    for name in PHOTOGRAPHS:
        photograph = Photograph(name)
        rows = compare(
            photograph.samples,
            n_seeds,
            lambda seed: somf.DictionaryLearning(N_ATOMS, alpha=ALPHA, random_state=seed),
            {
                "scikit-learn": partial(
                    learn_scikit,
                    lambda seed: decomposition.MiniBatchDictionaryLearning(
                        N_ATOMS, alpha=ALPHA, random_state=seed
                    ),
                ),
                "SPAMS": partial(learn_spams, ALPHA, N_ATOMS, False),
            },
            photograph.decibels,
            lambda ours, theirs: ours >= theirs - WITHIN,
        )
        noisy = [psnr(photograph.noisy(seed), photograph.clean) for seed in range(n_seeds)]
        n = photograph.patches(0).shape[0]
        found[name] = {"samples": n, "k": N_ATOMS, "noisy": noisy, "libraries": rows}
    return found


class Scene:
    """The pixels of a scene.

    Parameters
    ----------
    cube : ndarray of shape (height, width, channels)
    """

    def __init__(self, cube: Array) -> None:
        X = cube.reshape(-1, cube.shape[2]).astype(np.float32)
        self.X = np.maximum(X, 0) / X.max()

    def error(self, atoms: Array, _: int) -> float:
        """Return ‖X − codes · atoms‖ / ‖X‖ for the best non-negative codes."""
        norms = np.linalg.norm(atoms, axis=1, keepdims=True)
        model = somf.NMF(len(atoms), n_epochs=1, tol=0).fit(self.X[:1000])
        model.components_ = np.ascontiguousarray(
            atoms / np.where(norms > 0, norms, 1), dtype=np.float32
        )
        codes = model.transform(self.X)
        missed = np.linalg.norm(self.X - codes @ model.components_)
        return float(missed / np.linalg.norm(self.X))


def measure_unmixing(n_seeds: int) -> dict[str, Any]:
    """Return the results of all libraries on the scenes."""
    scenes = {"Indian Pines": (indian_pines_cube(), 10), "a mixture": (synthetic(100, 198), 8)}
    found = {}
    for name, (cube, k) in scenes.items():
        scene = Scene(cube)
        rows = compare(
            scene.X,
            n_seeds,
            lambda seed, k=k: somf.NMF(k, random_state=seed),
            {
                "scikit-learn NMF": partial(
                    learn_scikit, lambda seed, k=k: decomposition.NMF(k, random_state=seed)
                ),
                "scikit-learn MiniBatchNMF": partial(
                    learn_scikit, lambda seed, k=k: decomposition.MiniBatchNMF(k, random_state=seed)
                ),
                "SPAMS": partial(learn_spams, 0.0, k, True),
            },
            scene.error,
            lambda ours, theirs: ours <= theirs,
        )
        found[name] = {"samples": scene.X.shape[0], "k": k, "libraries": rows}
    return found


MEASURES = {"denoising": measure_denoising, "unmixing": measure_unmixing}
"""The tasks."""


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=list(MEASURES))
    options = parser.parse_args()
    for task, measure in MEASURES.items():
        if options.only in (None, task):
            found = {task: measure(options.seeds)}
            known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            known.pop("machine", None)
            write_results(RESULTS, known | found)


if __name__ == "__main__":
    main()
