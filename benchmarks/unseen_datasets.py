"""Data on which few defaults were chosen: small, wide, skewed, redundant, or hardly structured.

All of them are made here, or come with scikit-learn, so that they need no network.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.datasets import Dataset
from somf import ImagePatches
from somf.typing import Array, Rows


def cancer() -> Dataset:
    """Return 30 standardised measurements of 569 tumours."""
    from sklearn.datasets import load_breast_cancer

    X = load_breast_cancer().data
    return _of("cancer", (X - X.mean(axis=0)) / X.std(axis=0), 100, "DictionaryLearning", 20, 0.5)


def positive_cancer() -> Dataset:
    """Return the same measurements, each divided by its maximum."""
    from sklearn.datasets import load_breast_cancer

    X = load_breast_cancer().data
    return _of("cancer, NMF", X / X.max(axis=0), 100, "NMF", 8, 0.0)


def wine() -> Dataset:
    """Return 13 measurements of 178 wines as they are: one is a hundred times the others."""
    from sklearn.datasets import load_wine

    return _of("wine, raw", load_wine().data, 38, "NMF", 4, 0.0)


def diabetes() -> Dataset:
    """Return 10 measurements of 442 patients; entries are small."""
    from sklearn.datasets import load_diabetes

    return _of("diabetes", load_diabetes().data, 100, "DictionaryLearning", 12, 0.01)


def iris() -> Dataset:
    """Return four measurements of 150 flowers."""
    from sklearn.datasets import load_iris

    return _of("iris", load_iris().data, 30, "NMF", 3, 0.0)


def digits_parts() -> Dataset:
    """Return handwritten digits as they are, for parts."""
    from sklearn.datasets import load_digits

    return _of("digits, NMF", load_digits().data, 300, "NMF", 16, 0.0)


def low_rank() -> Dataset:
    """Return samples whose singular values decay slowly."""
    from sklearn.datasets import make_low_rank_matrix

    X = make_low_rank_matrix(5000, 300, effective_rank=20, tail_strength=0.3, random_state=0)
    return _of("low rank", X * 70.0, 1000, "DictionaryLearning", 40, 0.1)


def heavy_tails() -> Dataset:
    """Return sparse combinations of atoms with codes and noise of infinite variance."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((30, 100)) / 10
    code = rng.standard_t(1.5, (6000, 30)) * (rng.random((6000, 30)) < 0.1)
    X = code @ atoms + 0.02 * rng.standard_t(1.5, (6000, 100))
    # A sample of norm 10⁴ would decide the objective alone.
    X = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 50.0)
    return _of("heavy tails", X, 1500, "DictionaryLearning", 30, 0.1)


def norms() -> Dataset:
    """Return samples whose norms differ by orders of magnitude."""
    rng = np.random.default_rng(1)
    X = _bumps(rng, 5000, 200, 12) * rng.lognormal(0, 1.5, (5000, 1))
    return _of("norms", X, 1000, "NMF", 12, 0.0)


def scales() -> Dataset:
    """Return features whose scales differ by orders of magnitude."""
    rng = np.random.default_rng(2)
    code = rng.standard_normal((4000, 25)) * (rng.random((4000, 25)) < 0.15)
    X = code @ rng.standard_normal((25, 120)) + 0.3 * rng.standard_normal((4000, 120))
    return _of("scales", X * rng.lognormal(-2, 1.5, 120), 1000, "DictionaryLearning", 25, 0.1)


def duplicates() -> Dataset:
    """Return 60 different samples, each many times."""
    rng = np.random.default_rng(3)
    rows = np.abs(rng.standard_normal((60, 80))) ** 3
    X = rows[rng.integers(60, size=3000)]
    return _of("duplicates", X, 500, "NMF", 15, 0.0)


def very_few() -> Dataset:
    """Return 50 samples to learn from."""
    rng = np.random.default_rng(4)
    return _of("very few", _bumps(rng, 80, 150, 6), 30, "NMF", 6, 0.0)


def overcomplete() -> Dataset:
    """Return fewer samples than atoms."""
    rng = np.random.default_rng(5)
    X = _bumps(rng, 160, 100, 10) - 0.2
    return _of("fewer samples than atoms", X, 100, "DictionaryLearning", 100, 0.1)


def five_features() -> Dataset:
    """Return many samples of five features."""
    rng = np.random.default_rng(6)
    atoms = rng.standard_normal((8, 5))
    code = rng.exponential(1.0, (40_000, 8)) * (rng.random((40_000, 8)) < 0.2)
    X = code @ atoms + 0.05 * rng.standard_normal((40_000, 5))
    return _of("five features", X, 2000, "DictionaryLearning", 8, 0.1)


def topics(problem: Any = "NMF", alpha: float = 0.0) -> Dataset:
    """Return word counts of documents with 30 topics, 100,000 words, as CSR of weighted counts."""
    rng = np.random.default_rng(7)
    n, p, k = 5000, 100_000, 30
    popularity = 1.0 / np.arange(10, p + 10)
    words = [rng.permutation(p) for _ in range(k)]
    shares = rng.dirichlet(np.full(k, 0.1), n)
    rows, columns = [], []
    for i, share in enumerate(shares):
        length = rng.integers(50, 150)
        topic = rng.choice(k, length, p=share)
        rank = rng.choice(p, length, p=popularity / popularity.sum())
        columns.append(np.array([words[t][r] for t, r in zip(topic, rank, strict=True)]))
        rows.append(np.full(length, i))
    entries = (np.concatenate(rows), np.concatenate(columns))
    X = sp.csr_array(sp.coo_array((np.ones(len(entries[0])), entries), shape=(n, p)))
    X.sum_duplicates()
    used = np.bincount(X.indices, minlength=p)
    X.data = (1 + np.log(X.data)) * np.log(n / np.maximum(used, 1))[X.indices]
    lengths = np.sqrt(X.multiply(X).sum(axis=1))
    X = sp.csr_array(sp.diags_array(1 / lengths) @ X)
    name = "topics" if problem == "NMF" else "topics, DL"
    return _of(name, X, 800, problem, k, alpha)


def noise() -> Dataset:
    """Return noise of many features: nothing can be learned."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((1500, 3000)) / np.sqrt(3000)
    return _of("noise", X, 300, "DictionaryLearning", 50, 0.1)


def correlated() -> Dataset:
    """Return smooth random signals, whose neighbouring features are nearly equal."""
    rng = np.random.default_rng(9)
    X = np.cumsum(rng.standard_normal((6000, 500)), axis=1)
    X -= X.mean(axis=1, keepdims=True)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return _of("correlated", X, 1000, "DictionaryLearning", 50, 0.1)


def pictures(alpha: float, name: str) -> Dataset:
    """Return grey patches of a photograph."""
    from sklearn.datasets import load_sample_image

    image = load_sample_image("china.jpg").mean(axis=2)
    source = ImagePatches(image, 12)
    chosen = np.sort(np.random.default_rng(10).permutation(source.shape[0])[:21_000])
    X = source.rows(chosen)
    return _of(name, X, 1000, "DictionaryLearning", 100, alpha)


def dropout() -> Dataset:
    """Return counts of programmes of genes, of which many are not detected, as CSR."""
    rng = np.random.default_rng(11)
    programmes = rng.gamma(0.3, 1.0, (12, 1500))
    shares = rng.dirichlet(np.full(12, 0.3), 6000) * rng.lognormal(0.0, 0.5, (6000, 1))
    X = rng.poisson(4.0 * shares @ programmes) * (rng.random((6000, 1500)) < 0.4)
    X = np.log1p(X)
    return _of("dropout", sp.csr_array(X), 1000, "NMF", 12, 0.0)


def spectra() -> Dataset:
    """Return mixtures of eight smooth spectra, with little noise."""
    rng = np.random.default_rng(12)
    return _of("spectra", _bumps(rng, 4000, 300, 8, noise=0.002), 1000, "NMF", 8, 0.0)


def spectrogram() -> Dataset:
    """Return the magnitudes of the spectrum of notes that are played one after another."""
    rng = np.random.default_rng(13)
    rate, hop, size, n = 16_000, 256, 1024, 3000
    time = np.arange(n * hop + size) / rate
    signal = 0.003 * rng.standard_normal(len(time))
    for _ in range(700):
        pitch, start = 110 * 2 ** (rng.integers(30) / 12), rng.random() * time[-1]
        since = np.maximum(time - start, 0.0)
        envelope = np.where(time > start, np.exp(-3 * since), 0.0) * rng.random()
        for overtone in range(1, 9):
            signal += envelope / overtone * np.sin(2 * np.pi * pitch * overtone * since)
    frames = np.lib.stride_tricks.sliding_window_view(signal, size)[::hop][:n]
    return _of("spectrogram", np.abs(np.fft.rfft(frames * np.hanning(size))), 500, "NMF", 30, 0.0)


def maps() -> Dataset:
    """Return time points of signals with sources in few voxels."""
    rng = np.random.default_rng(14)
    voxels = np.arange(4000)
    centres, widths = rng.integers(4000, size=15), rng.integers(40, 150, size=15)
    sources = np.exp(-(((voxels - centres[:, None]) / widths[:, None]) ** 2))
    X = rng.standard_normal((300, 15)) @ sources + 0.5 * rng.standard_normal((300, 4000))
    return _of("maps", X, 60, "SparsePCA", 15, 1e-3)


def _bumps(rng: np.random.Generator, n: int, p: int, k: int, noise: float = 0.02) -> Array:
    """Return non-negative mixtures of k smooth curves over p features."""
    grid = np.linspace(0, 1, p)
    curves = np.zeros((k, p))
    for i in range(k):
        for _ in range(4):
            curves[i] += rng.random() * np.exp(
                -(((grid - rng.random()) / (0.02 + 0.1 * rng.random())) ** 2)
            )
    X = rng.dirichlet(np.full(k, 0.4), n) @ curves
    return np.asarray(np.maximum(X + noise * rng.standard_normal((n, p)), 0))


def _of(name: str, X: Rows, n_held_out: int, problem: Any, k: int, alpha: float) -> Dataset:
    X = X[np.random.default_rng(99).permutation(X.shape[0])].astype(np.float32)
    return Dataset(name, X[n_held_out:], X[:n_held_out], problem, k, alpha)


UNSEEN: dict[str, Callable[[], Dataset]] = {
    "cancer": cancer,
    "cancer, NMF": positive_cancer,
    "wine, raw": wine,
    "diabetes": diabetes,
    "iris": iris,
    "digits, NMF": digits_parts,
    "low rank": low_rank,
    "heavy tails": heavy_tails,
    "norms": norms,
    "scales": scales,
    "duplicates": duplicates,
    "very few": very_few,
    "fewer samples than atoms": overcomplete,
    "five features": five_features,
    "topics": topics,
    "topics, DL": lambda: topics("DictionaryLearning", 0.1),
    "noise": noise,
    "correlated": correlated,
    "grey, large λ": lambda: pictures(0.4, "grey, large λ"),
    "grey, tiny λ": lambda: pictures(0.005, "grey, tiny λ"),
    "dropout": dropout,
    "spectra": spectra,
    "spectrogram": spectrogram,
    "maps": maps,
}
"""The data sets by name."""
