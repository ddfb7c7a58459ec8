"""How fast a GPU is, its lower bound, and whether it reaches the same objective.

    python -m benchmarks.gpu [--scenes scenes.npy] [--indian-pines cube.npy] [--output …/gpu.json]

1. Seconds per epoch of dictionary learning (λ = 0.1, r = 4) on patches that are cut out on the
   device: Indian Pines (11,700 × 51,200), and, if a file is given, scenes of the same sensor with
   their mirror images (about 100,000 × 52,480), for several k and batch sizes. Next to it the
   floor: bytes and flops that an iteration cannot avoid, at the rates that were measured on this
   device in the same run.
2. The same samples from host memory and from a file, against the time of the transfer alone.
3. The objective on held-out patches after an epoch, on the GPU, on the CPU from the same seed, and
   with products in TF32.
4. Other problems at the same shapes.

The first fit of every shape compiles kernels and is not counted.
"""

import argparse
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.machine import facts, write_results
from benchmarks.scenes import ALPHA, indian_pines_cube, split_indian_pines
from benchmarks.settings import ONE_EPOCH, PAPER
from benchmarks.summaries import timed
from somf import NMF, DictionaryLearning, ImagePatches, MatrixFactorization, SparsePCA
from somf.typing import Array

REDUCTION = 4
"""r."""

SETTING: dict[str, Any] = {"reduction": REDUCTION} | PAPER | ONE_EPOCH
"""One epoch of the paper's algorithm."""

PATCH = 16
"""Rows and columns of a patch."""

N_REPEATS = 3
"""Fits that are timed, after one that compiles."""


def seconds(model: MatrixFactorization, X: Any, n_repeats: int = N_REPEATS) -> dict[str, Any]:
    """Return the seconds of several fits; the first fit compiles and does not count.

    ``seconds`` is the time of the iterations, waiting for data included. The whole fit also
    includes the initial atoms, the transfer of arrays to the device and back, and the recording of
    CUDA graphs.
    """
    epochs, fits = [], []
    for _ in range(n_repeats + 1):
        fits.append(timed(partial(model.fit, X)))
        epochs.append(model.history_["compute_seconds"][-1])
    return {
        "seconds": median(epochs[1:]),
        "runs": epochs[1:],
        "seconds of the whole fit": median(fits[1:]),
    }


def with_mirror_images(scenes: Array) -> ImagePatches:
    """Return patches of scenes (m, height, width, channels) and of two mirror images of each.

    They are stacked into one image, with a line without data between neighbours.
    """
    views = np.concatenate([scenes, scenes[:, ::-1], scenes[:, :, ::-1]])
    n, height, width, channels = views.shape
    image = np.zeros((n * (height + 1), width, channels), dtype=views.dtype)
    mask = np.zeros(image.shape[:2], dtype=bool)
    for number, view in enumerate(views):
        rows = slice(number * (height + 1), number * (height + 1) + height)
        image[rows], mask[rows] = view, True
    return ImagePatches(image, PATCH, mask=mask)


def driver_version() -> str:
    """Return the version of the GPU's driver."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]


def rates() -> dict[str, float]:
    """Return the rates of this device: float32 flops, bytes of its memory, bytes from the host."""
    A = torch.randn((8192, 8192), device="cuda")
    pinned = torch.empty(2**28, dtype=torch.uint8, pin_memory=True)
    large = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(large)

    def rate(work: Any, amount: float) -> float:
        best = 0.0
        for _ in range(5):
            torch.cuda.synchronize()
            begin = perf_counter()
            work()
            torch.cuda.synchronize()
            best = max(best, amount / (perf_counter() - begin))
        return best

    return {
        "flops": rate(lambda: A @ A, 2 * 8192**3),
        "memory bytes": rate(lambda: other.copy_(large), 2 * 2**30),
        "bus bytes": rate(lambda: large[: 2**28].copy_(pinned, non_blocking=True), 2**28),
    }


def floor_of_epoch(n: int, p: int, k: int, b: int, rate: dict[str, float]) -> dict[str, float]:
    """Return flops, bytes and the lower bound of an epoch in seconds.

    An iteration writes and reads its samples, reads the rows of D and B in the mask, and reads and
    writes all of B; its products are X_s D_s, D_sᵀD_s, D_s C and Xᵀα.
    """
    q, n_iter = p / REDUCTION, -(-n // b)
    flops = n_iter * (2 * q * k * (b + 2 * k) + 2 * p * b * k)
    moved = n_iter * 4 * (2 * b * p + 4 * q * k + 2 * p * k)
    return {
        "flops": flops,
        "bytes": moved,
        "seconds": max(flops / rate["flops"], moved / rate["memory bytes"]),
    }


def measure_epochs(
    name: str, patches: ImagePatches, shapes: list[tuple[int, int]], rate: dict[str, float]
) -> list[dict[str, Any]]:
    """Return seconds per epoch on patches that are cut out on the device."""
    rows = []
    for k, b in shapes:
        model = DictionaryLearning(
            k, alpha=ALPHA, batch_size=b, device="cuda", random_state=0, **SETTING
        )
        times = seconds(model, patches)
        floor = floor_of_epoch(*patches.shape, k, b, rate)
        rows.append(
            {
                "data": name,
                "shape": patches.shape,
                "k": k,
                "batch": b,
                **times,
                "milliseconds per iteration": 1e3 * times["seconds"] / -(-patches.shape[0] // b),
                "floor": floor,
            }
        )
        print(
            f"{name:<14}{patches.shape[0]:>8} × {patches.shape[1]:<7}k={k:<6}b={b:<5}"
            f"{times['seconds']:7.2f} s (fit {times['seconds of the whole fit']:.2f} s), "
            f"floor {floor['seconds']:.2f} s",
            flush=True,
        )
    return rows


def measure_outside(patches: ImagePatches, rate: dict[str, float]) -> list[dict[str, Any]]:
    """Return seconds per epoch on samples from host memory, and from a file."""
    model = DictionaryLearning(
        256, alpha=ALPHA, batch_size=256, device="cuda", random_state=0, **SETTING
    )
    X = np.empty(patches.shape, dtype=np.float32)
    for ids in np.array_split(np.arange(len(X)), 64):
        X[ids] = patches.rows(ids)
    rows = []
    times = seconds(model, X, 2)
    least = X.nbytes / rate["bus bytes"]
    rows.append(_outside("host memory", X, times, least, "bus"))
    few = X[: min(len(X), 20_000)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npy"
        np.save(path, few)
        del X
        disk = timed(partial(_read, path))
        times = seconds(model, str(path), 2)
    rows.append(_outside("file", few, times, max(disk, few.nbytes / rate["bus bytes"]), "disk"))
    return rows


def _read(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(2**26):
            pass


def _outside(source: str, X: Array, times: dict[str, Any], least: float, by: str) -> dict[str, Any]:
    print(
        f"from the {source}: {X.nbytes / 1e9:.1f} GB in {times['seconds']:.2f} s, "
        f"{times['seconds'] / least:.2f} × the time of the {by}",
        flush=True,
    )
    return {
        "source": source,
        "shape": X.shape,
        "gigabytes": X.nbytes / 1e9,
        **times,
        f"seconds of the {by}": least,
        "ratio": times["seconds"] / least,
    }


def measure_objectives(train: ImagePatches, test: ImagePatches) -> dict[str, float]:
    """Return the objective on held-out patches after an epoch, by device and precision."""
    objectives = {}
    for name, device, precision in (
        ("GPU", "cuda", "highest"),
        ("GPU, TF32", "cuda", "high"),
        ("CPU", "cpu", "highest"),
    ):
        torch.set_float32_matmul_precision(precision)
        model = DictionaryLearning(
            100, alpha=ALPHA, batch_size=50, device=device, random_state=0, **SETTING
        )
        took = timed(partial(model.fit, train))
        torch.set_float32_matmul_precision("highest")
        objectives[name] = model.set_params(device="cuda").objective(test)
        print(f"objective {objectives[name]:.6f} ({name}, {took:.2f} s)", flush=True)
    return objectives


def measure_variants(patches: ImagePatches) -> dict[str, float]:
    """Return milliseconds per iteration of several problems at k = 100, b = 50."""
    positive = ImagePatches(patches.images[0], PATCH, center=False)
    cases: dict[str, tuple[MatrixFactorization, ImagePatches]] = {
        "dictionary learning": (DictionaryLearning(), patches),
        "dictionary learning, exact codes": (DictionaryLearning(code_estimator="exact"), patches),
        "dictionary learning, incremental": (DictionaryLearning(surrogate="incremental"), patches),
        "dictionary learning, Bernoulli masks": (
            DictionaryLearning(masks="bernoulli", code_estimator="masked"),
            patches,
        ),
        "sparse PCA": (SparsePCA(), patches),
        "NMF": (NMF(), positive),
        "elastic-net atoms": (MatrixFactorization(atom_l1_ratio=0.5, l1_ratio=0.0), patches),
    }
    common = SETTING.copy()
    del common["code_estimator"]  # "auto" is "averaged" at this reduction
    result = {}
    for name, (model, data) in cases.items():
        model.set_params(n_components=100, alpha=ALPHA, batch_size=50, device="cuda", **common)
        n_iter = -(-data.shape[0] // 50)
        result[name] = 1e3 * seconds(model, data, 1)["seconds"] / n_iter
        print(f"{name:<40}{result[name]:.2f} ms per iteration", flush=True)
    return result


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=Path, help="scenes (m, height, width, channels), .npy")
    parser.add_argument("--indian-pines", type=Path, help="the cube as .npy; else from tensorly")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/gpu.json"))
    options = parser.parse_args()
    cube = np.load(options.indian_pines) if options.indian_pines else indian_pines_cube()
    train, test = split_indian_pines(cube)
    device = torch.cuda.get_device_properties(0)
    result: dict[str, Any] = {
        "machine": facts()
        | {
            "gpu": device.name,
            "driver": driver_version(),
            "cuda": torch.version.cuda,
            "torch": torch.__version__,
        },
        "rates": rates(),
    }
    print({name: f"{value:.3g}" for name, value in result["rates"].items()})
    shapes = [(100, 50), (100, 256), (256, 50), (256, 256), (1024, 256)]
    result["epochs"] = measure_epochs("Indian Pines", train, shapes, result["rates"])
    result["objectives"] = measure_objectives(train, test)
    result["milliseconds per iteration"] = measure_variants(train)
    if options.scenes:
        scenes = with_mirror_images(np.load(options.scenes))
        shapes = [(100, 256), (256, 256), (256, 1024), (1024, 256), (1024, 1024)]
        result["epochs"] += measure_epochs("AVIRIS scenes", scenes, shapes, result["rates"])
        result["outside"] = measure_outside(scenes, result["rates"])
    write_results(options.output, result)


if __name__ == "__main__":
    main()
