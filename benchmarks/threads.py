"""How an iteration and `transform` scale with threads, next to the floor.

    python -m benchmarks.threads [--rounds 5] [--threads 1 2 4 8 16] [--picture docs/threads.png]

1. Milliseconds per iteration on Indian Pines (p = 51,200, k = 100, batches of 50, float32), from
   memory: dictionary learning at r = 1, 4, 12, and sparse PCA, NMF and elastic-net atoms at r = 4.
2. The floor: the four matrix products that an iteration cannot avoid (`D_sᵀD_s`, `X_s D_s`, the
   update of B, `D_s C`), by torch's BLAS (MKL on Intel), if torch is installed, else by NumPy's.
3. Seconds of `transform` of 55,400 patches of photographs, k = 256.

Numbers of threads come in another order in every round; medians with quartiles.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs
from threadpoolctl import threadpool_limits

from benchmarks.datasets import photograph_patches
from benchmarks.machine import write_results
from benchmarks.scenes import BATCH, K, indian_pines_cube, split_indian_pines
from benchmarks.settings import ONE_EPOCH, PAPER_WEIGHTS
from benchmarks.stages import StagedFit
from benchmarks.summaries import summary, timed
from somf import NMF, DictionaryLearning, MatrixFactorization, SparsePCA
from somf.kernels.cpu.cores import available_cores
from somf.kernels.cpu.threads import threads
from somf.typing import Array

REDUCTIONS = (1, 4, 12)
"""r, for dictionary learning."""

N_SAMPLES = 3000
"""Patches that the iterations draw from."""

ITERATIONS = 10
"""In a row, per round."""

Work = Callable[[int], float]
"""Given the number of threads, does something and returns a time."""


def iterations(X: Array) -> dict[str, Work]:
    """Return the problems, each a function that runs some iterations, in ms per iteration."""
    positive = np.abs(X)
    elastic = partial(MatrixFactorization, atom_l1_ratio=0.5, l1_ratio=0.0)
    fits = {f"dictionary learning, r = {r}": StagedFit(X, r, "averaged") for r in REDUCTIONS}
    fits["sparse PCA, r = 4"] = StagedFit(X, 4, "averaged", kind=SparsePCA)
    fits["NMF, r = 4"] = StagedFit(positive, 4, "averaged", kind=NMF)
    fits["elastic-net atoms, r = 4"] = StagedFit(X, 4, "averaged", kind=elastic)

    def advance(fit: StagedFit, n_threads: int) -> float:
        with threads(n_threads):
            return fit.advance(ITERATIONS)["total"]

    return {name: partial(advance, fit) for name, fit in fits.items()}


def products(p: int, reduction: float) -> Work:
    """Return a function that times the products of an iteration, in milliseconds."""
    rng = np.random.default_rng(0)
    shapes = ((BATCH, p), (p, K), (p, K), (K, K), (BATCH, K))
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    q = round(p / reduction)
    try:
        import torch
    except ImportError:
        X, D, B, C, code = arrays
        gemm = get_blas_funcs("gemm", (B,))
        update = partial(gemm, 1.0, code.T, X.T, beta=0.99, c=B.T, trans_b=True, overwrite_c=True)
        return partial(_timed, (*_others(X[:, :q], D[:q], C), update), threadpool_limits)
    X, D, B, C, code = map(torch.from_numpy, arrays)
    update = partial(B.addmm_, X.T, code, beta=0.99)
    return partial(_timed, (*_others(X[:, :q], D[:q], C), update), torch.set_num_threads)


def _others(X_s: Any, D_s: Any, C: Any) -> tuple[Callable[[], object], ...]:
    """Return the products that concern the rows of a mask only."""
    return lambda: D_s.T @ D_s, lambda: X_s @ D_s, lambda: D_s @ C


def _timed(
    calls: tuple[Callable[[], object], ...], limit: Callable[[int], object], n_threads: int
) -> float:
    before = limit(n_threads)
    milliseconds = 1e3 * sum(median(timed(call) for _ in range(9)) for call in calls)
    if isinstance(before, threadpool_limits):
        before.restore_original_limits()
    return milliseconds


def transform() -> Work:
    """Return a function that times `transform` of photographs, in seconds."""
    X = photograph_patches(10, 29_200)[:55_400]
    model = DictionaryLearning(
        256,
        alpha=0.1,
        reduction=1,
        batch_size=256,
        random_state=0,
        **PAPER_WEIGHTS,
        **ONE_EPOCH,
    ).fit(X)

    def code(n_threads: int) -> float:
        return timed(partial(model.set_params(n_threads=n_threads).transform, X))

    return code


def draw(result: dict[str, Any], path: Path) -> None:
    """Plot milliseconds per iteration against threads, with the floors, and the other problems."""
    from matplotlib import pyplot as plt

    counts, times = result["threads"], result["times"]
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained", sharey=True)
    colors = plt.get_cmap("Dark2").colors
    learning = [f"dictionary learning, r = {r}" for r in REDUCTIONS]
    others = [name for name in times if name.endswith("r = 4") and "floor" not in name]
    for ax, names in zip(axes, (learning, others), strict=True):
        for name, color in zip(names, colors, strict=False):
            rows = [times[name][str(n)]["median"] for n in counts]
            ax.plot(counts, rows, "o-", color=color, label=name)
        ax.set(xscale="log", yscale="log", xlabel="threads")
        ax.set_xticks(counts, labels=map(str, counts))
        ax.minorticks_off()
        ax.grid(alpha=0.3, which="both", linewidth=0.4)
    for name, color in zip(learning, colors, strict=False):
        rows = times[name.replace("dictionary learning", "floor")]
        floor = [rows[str(n)]["median"] for n in counts]
        axes[0].plot(counts, floor, "--", color=color, linewidth=1)
    axes[0].plot([], [], "--", color="gray", linewidth=1, label="floors")
    axes[0].set_ylabel("milliseconds per iteration")
    for ax in axes:
        ax.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Measure, print, write."""
    cores = available_cores()
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= cores]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=counts)
    parser.add_argument("--indian-pines", type=Path, help="the cube as .npy; else from tensorly")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/threads.json"))
    parser.add_argument("--picture", type=Path, help="where to draw the result")
    options = parser.parse_args()
    cube = indian_pines_cube() if not options.indian_pines else np.load(options.indian_pines)
    patches = split_indian_pines(cube)[0]
    X = patches.rows(np.random.default_rng(0).permutation(patches.shape[0])[:N_SAMPLES])
    works = iterations(X)
    works |= {f"floor, r = {r}": products(X.shape[1], r) for r in REDUCTIONS}
    works["transform, seconds"] = transform()
    for work in works.values():
        for n in (options.threads[0], options.threads[-1]):
            work(n)  # compile, for one thread and for several, and pass the first large steps
    times: dict[str, dict[int, list[float]]] = {name: defaultdict(list) for name in works}
    rng = np.random.default_rng(0)
    for _ in range(options.rounds):
        for name, work in works.items():
            for n in rng.permutation(options.threads).tolist():
                times[name][n].append(work(n))
    result = {
        "threads": options.threads,
        "times": {
            name: {str(n): summary(values) for n, values in rows.items()}
            for name, rows in times.items()
        },
    }
    for name, rows in times.items():
        print(f"{name:<30}" + "".join(f"{n:>4}: {median(rows[n]):7.2f}" for n in options.threads))
    write_results(options.output, result)
    if options.picture is not None:
        draw(result, options.picture)


if __name__ == "__main__":
    main()
