"""A terabyte on a small machine: all patches of a scene of 5 million pixels.

    python -m benchmarks.terabyte [--samples 20000] [--rounds 3] [--rows 4500] [--folder scratch]

The scene has 4,500 × 1,150 pixels × 224 channels in uint16, 2.3 GB: mixtures of endmembers whose
shares vary smoothly, plus noise. It is written once and kept in the folder. Its patches of 16 × 16
are a matrix of 5.1 million samples × 57,344 features, 1.17 TB in float32, which is never stored.

Each case is fitted in a process of its own for a bounded number of samples (k = 100, λ = 0.1,
batches of 50, r = 4), and reports

- memory: `RssAnon`, memory that the process has allocated; `RssFile`, resident pages of mapped
  files (the scene, and the scratch files of per-sample statistics), which the system may evict; the
  peak of both together; and per-sample statistics one by one;
- milliseconds per iteration, from the file, from memory, and for parts of the scene; cases take
  turns.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.machine import write_results
from benchmarks.scenes import ALPHA, BATCH, K
from benchmarks.settings import ONE_EPOCH, PAPER
from benchmarks.summaries import summary
from somf import DictionaryLearning, ImagePatches
from somf.callbacks import Progress
from somf.data.readahead.memory_map import is_mapped
from somf.typing import Array

ROWS = 4500
"""Rows of the scene."""

COLUMNS = 1150
"""Columns of the scene."""

CHANNELS = 224
"""Channels of the scene."""

PATCH = 16
"""Rows and columns of a patch."""

N_ENDMEMBERS = 12
"""Spectra that pixels are mixtures of."""

GRID = 25
"""Pixels between the grid points at which shares of endmembers are drawn."""

REDUCTION = 4
"""r."""

WARM_UP = 20
"""Iterations that are not counted."""


def make_scene(path: Path, n_rows: int) -> None:
    """Write the scene, 50 rows at a time."""
    rng = np.random.default_rng(0)
    shape = (n_rows, COLUMNS, CHANNELS)
    steps = rng.standard_normal((N_ENDMEMBERS, CHANNELS))
    spectra = np.cumsum(steps, axis=1)
    spectra = 0.15 + 0.7 * (spectra - spectra.min()) / np.ptp(spectra)
    grid = rng.standard_normal((n_rows // GRID + 2, COLUMNS // GRID + 2, N_ENDMEMBERS))
    across = interpolation(COLUMNS, grid.shape[1])
    aside = path.with_suffix(".part")
    scene = np.lib.format.open_memmap(aside, mode="w+", dtype=np.uint16, shape=shape)
    down = interpolation(n_rows, grid.shape[0])
    for top in range(0, n_rows, 50):
        field = np.einsum("ia,jb,abm->ijm", down[top : top + 50], across, grid, optimize=True)
        shares = np.exp(3 * field)
        shares /= shares.sum(axis=2, keepdims=True)
        block = (shares @ spectra).astype(np.float32)
        block += 0.01 * rng.standard_normal(block.shape, dtype=np.float32)
        scene[top : top + 50] = np.clip(block, 0, 1) * 10_000
    scene.flush()
    del scene
    aside.replace(path)


def interpolation(n: int, n_knots: int) -> Array:
    """Return the matrix (n, n_knots) of linear interpolation."""
    at = np.arange(n) / GRID
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(n_knots)))


def resident() -> dict[str, int]:
    """Return the resident memory of this process by kind, and its peak, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kinds = ("RssAnon", "RssFile", "RssShmem", "VmHWM")
    entries = (line.split(":") for line in lines)
    return {name: int(value.split()[0]) // 1024 for name, value in entries if name in kinds}


def fit(image: Any, n_samples: int) -> dict[str, Any]:
    """Fit some samples; return memory and times."""
    warm_up()
    before = resident()
    begin = perf_counter()
    patches = ImagePatches(image, PATCH)
    seconds: list[float] = []
    memory: list[dict[str, int]] = []

    def record(progress: Progress) -> bool:
        seconds.append(progress.compute_seconds)
        if progress.n_iter % 10 == 0:
            memory.append(resident())
        return progress.n_samples_seen >= n_samples

    model = DictionaryLearning(
        K,
        alpha=ALPHA,
        reduction=REDUCTION,
        batch_size=BATCH,
        callbacks=[record],
        random_state=0,
        **PAPER,
        **ONE_EPOCH,
    ).fit(patches)
    steady = 1e3 * np.diff(seconds[WARM_UP:])
    kept = model._state.memory.arrays()
    return {
        "shape": patches.shape,
        "TB in float32": patches.shape[0] * patches.shape[1] * 4 / 1e12,
        "samples seen": model.n_samples_seen_,
        "milliseconds per iteration": summary(steady.tolist()),
        "mean milliseconds per iteration": float(steady.mean()),
        "longest iteration, ms": float(steady.max()),
        "samples per second": BATCH * 1e3 / median(steady),
        "seconds before the first iteration": perf_counter() - begin - seconds[-1],
        "MB before the fit": before,
        "MB at most": {name: max(m[name] for m in memory) for name in memory[0]},
        "per-sample statistics": {
            name: {
                "shape": array.shape,
                "MB": round(array.nbytes / 2**20, 1),
                "in": "a scratch file" if is_mapped(array) else "memory",
            }
            for name, array in kept.items()
        },
        "per-sample positions of patches, MB": round(patches.positions.nbytes / 2**20, 1),
        "order of the epoch, MB": round(8 * patches.shape[0] / 2**20, 1),
        "dictionary and surrogate, MB": round(
            sum(a.nbytes for n, a in model._state.arrays().items() if "memory." not in n) / 2**20, 1
        ),
    }


def warm_up() -> None:
    """Import and compile all kernels on a small image of the same type."""
    image = np.random.default_rng(0).integers(0, 9, (40, 40, CHANNELS), dtype=np.uint16)
    model = DictionaryLearning(10, reduction=REDUCTION, random_state=0, **PAPER, **ONE_EPOCH)
    model.fit(ImagePatches(image, PATCH))


def run_case(scene: Path, case: str, n_rows: int, n_samples: int) -> dict[str, Any]:
    """Fit in a process of its own."""
    command = [
        sys.executable, "-m", "benchmarks.terabyte", "--case", case, "--scene", str(scene),
        "--rows", str(n_rows), "--samples", str(n_samples),
    ]  # fmt: skip
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    anon = result["MB at most"]["RssAnon"]
    print(
        f"{case:8}{result['shape'][0]:>10,} samples: "
        f"{result['milliseconds per iteration']['median']:6.1f} ms per iteration, "
        f"{result['samples per second']:6.0f} samples/s, RssAnon at most {anon} MB",
        flush=True,
    )
    return result


def time_of(result: dict[str, Any]) -> float:
    """Return the median milliseconds of an iteration."""
    return float(result["milliseconds per iteration"]["median"])


def middle(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of the round whose time is the median."""
    return sorted(results, key=time_of)[len(results) // 2]


def forget(path: Path) -> None:
    """Ask the system to drop the pages of a file."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    """Write the scene unless it exists; measure, print, write results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "somf")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/terabyte.json"))
    parser.add_argument("--case", choices=("file", "memory"), help=argparse.SUPPRESS)
    parser.add_argument("--scene", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        image = np.load(options.scene, mmap_mode="r" if options.case == "file" else None)
        print(json.dumps(fit(image[: options.rows], options.samples)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    scene = options.folder / f"scene-{options.rows}.npy"
    if not scene.exists():
        make_scene(scene, options.rows)
    forget(scene)
    cold = run_case(scene, "file", options.rows, options.samples)
    with open(scene, "rb", buffering=0) as file:
        while file.read(2**24):
            pass
    parts = (max(32, options.rows // 100), max(64, options.rows // 10), options.rows)
    cases = [*(("file", n) for n in parts), ("memory", options.rows)]
    rounds = [
        {case: run_case(scene, *case, options.samples) for case in cases}
        for _ in range(options.rounds)
    ]
    results = {
        "scene": [options.rows, COLUMNS, CHANNELS],
        "k": K,
        "batch": BATCH,
        "reduction": REDUCTION,
        "rounds": options.rounds,
        "from the file, not in the page cache": cold,
        "from the file": middle([r["file", options.rows] for r in rounds]),
        "from memory": middle([r["memory", options.rows] for r in rounds]),
        "file / memory, iteration": summary(
            [time_of(r["file", options.rows]) / time_of(r["memory", options.rows]) for r in rounds]
        ),
        "parts of the scene": [middle([r["file", n] for r in rounds]) for n in parts],
    }
    write_results(options.output, results)


if __name__ == "__main__":
    main()
