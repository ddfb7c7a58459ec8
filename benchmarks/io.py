"""What it costs to fit data that is on disk rather than in memory.

    python -m benchmarks.io [--samples 4000] [--rounds 5] [--folder scratch]

Data: patches of Indian Pines, p = 51,200 in float32, k = 100, λ = 0.1, batches of 50, r = 4 and 12.
The same samples are fitted for one epoch from memory, from a memory map (`.npy`), from HDF5 and
Zarr (chunks of 16 rows, not compressed), from a transposed memory map, and as patches of the scene
in memory and in a file. All take turns; the ratio to the fit from memory is that of the same round.

- warm: the files are in the page cache, so that nothing but the work of reading is measured.
- cold: the page cache is told to forget them before every fit. Then the disk must deliver, and the
  rate at which it does is measured next to the rate at which the fit from memory consumes.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.machine import facts
from benchmarks.scenes import indian_pines
from benchmarks.speed import ALPHA, BATCH, K, summary
from somf import DictionaryLearning, ImagePatches
from somf.data import open_source

CHUNK_ROWS = 16
PATCH_BYTES = 51_200 * 4
REDUCTIONS = (4, 12)


def write(folder: Path, n: int) -> dict[str, tuple[Callable[[], Any], list[Path]]]:
    """Write the same samples in every form; return how to open each, and its files."""
    import h5py
    import zarr

    train, _ = indian_pines()
    picked = np.random.default_rng(0).permutation(train.shape[0])[:n]
    X = train.rows(picked)
    scene = folder / "scene.npy"
    np.save(scene, np.ascontiguousarray(train.image))
    npy, turned, hdf5, chunked = (
        folder / name for name in ("X.npy", "transposed.npy", "X.h5", "X.zarr")
    )
    np.save(npy, X)
    np.save(turned, np.ascontiguousarray(X.T))
    with h5py.File(hdf5, "w") as file:
        file.create_dataset("X", data=X, chunks=(CHUNK_ROWS, X.shape[1]))
    array = zarr.create_array(
        chunked, shape=X.shape, chunks=(CHUNK_ROWS, X.shape[1]), dtype=X.dtype, compressors=None,
        overwrite=True,
    )  # fmt: skip
    array[:] = X

    def patches(image: Any) -> ImagePatches:
        cut = ImagePatches(image, 16)
        cut.positions = train.positions[picked]
        cut.shape = X.shape
        return cut

    columns = np.ascontiguousarray(train.image)
    return {
        "memory": (lambda: X, []),
        "memory map": (lambda: open_source(npy), [npy]),
        "transposed memory map": (lambda: open_source(turned, transposed=True), [turned]),
        "HDF5": (lambda: open_source(hdf5), [hdf5]),
        "Zarr": (lambda: open_source(chunked), [p for p in chunked.rglob("*") if p.is_file()]),
        "patches in memory": (lambda: patches(columns), []),
        "patches of a file": (lambda: patches(scene), [scene]),
    }


def forget(files: list[Path]) -> None:
    """Ask the system to drop the pages of some files."""
    for path in files:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def remember(files: list[Path]) -> float:
    """Read files from beginning to end; return the rate in MB/s."""
    begin, size = perf_counter(), 0
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while block := file.read(2**24):
                size += len(block)
    return size / (perf_counter() - begin) / 1e6


def remember_at_random(files: list[Path], piece: int) -> float:
    """Read files in pieces, one at a time, in random order; return the rate in MB/s."""
    places = [(path, at) for path in files for at in range(0, path.stat().st_size, piece)]
    size, begin = 0, perf_counter()
    for number in np.random.default_rng(0).permutation(len(places)):
        path, at = places[number]
        with open(path, "rb", buffering=0) as file:
            file.seek(at)
            size += len(file.read(piece))
    return size / (perf_counter() - begin) / 1e6


def fit(X: Any, reduction: float) -> dict[str, float]:
    """Fit one epoch; return its seconds in the loop and those before it."""
    model = DictionaryLearning(
        K, alpha=ALPHA, reduction=reduction, batch_size=BATCH, random_state=0
    )
    begin = perf_counter()
    model.fit(X)
    seconds = model.history_["compute_seconds"][-1]
    return {"loop": seconds, "start": perf_counter() - begin - seconds}


def measure(folder: Path, n: int, n_rounds: int) -> dict[str, Any]:
    """Return seconds of an epoch from every kind of source, warm and cold."""
    sources = write(folder, n)
    fit(sources["memory"][0]()[:200], 4)  # compile
    fit(sources["patches in memory"][0](), 4)
    result: dict[str, Any] = {}
    for reduction in REDUCTIONS:
        for state in ("warm", "cold"):
            times: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
            rates: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
            for _ in range(n_rounds):
                for name, (open_it, files) in sources.items():
                    if files and state == "cold":
                        rates[name].append(disk_rates(name, files))
                    elif files:
                        remember(files)
                    times[name].append(fit(open_it(), reduction))
            result[f"r = {reduction}, {state}"] = {
                name: _row(times, rates, name, n) for name in sources
            }
            print_table(f"r = {reduction}, {state}", result[f"r = {reduction}, {state}"])
    return result


def disk_rates(name: str, files: list[Path]) -> tuple[float, float]:
    """Return MB/s of files that are not in memory, in order, and in pieces as a fit wants them."""
    piece = PATCH_BYTES * (1 if name == "memory map" else CHUNK_ROWS)
    forget(files)
    in_order = remember(files)
    forget(files)
    at_random = remember_at_random(files, piece)
    forget(files)
    return in_order, at_random


def _row(
    times: dict[str, list[dict[str, float]]],
    rates: dict[str, list[tuple[float, float]]],
    name: str,
    n: int,
) -> dict[str, Any]:
    against = "patches in memory" if name.startswith("patches") else "memory"
    pairs = zip(times[name], times[against], strict=True)
    row: dict[str, Any] = {
        "seconds": summary([t["loop"] for t in times[name]]),
        "seconds before the first iteration": median(t["start"] for t in times[name]),
        "samples per second": n / median(t["loop"] for t in times[name]),
        "compared with": against,
        "ratio": summary([a["loop"] / b["loop"] for a, b in pairs]),
    }
    if rates[name]:
        in_order, at_random = zip(*rates[name], strict=True)
        row["disk, MB/s, from beginning to end"] = summary(list(in_order))
        row["disk, MB/s, in random pieces"] = summary(list(at_random))
    return row


def print_table(title: str, rows: dict[str, Any]) -> None:
    """Print seconds and ratios."""
    print(title)
    for name, row in rows.items():
        disk = row.get("disk, MB/s, in random pieces")
        print(
            f"  {name:24}{row['seconds']['median']:8.2f} s  {row['ratio']['median']:5.2f} "
            f"({row['ratio']['low']:.2f} to {row['ratio']['high']:.2f}) × {row['compared with']}"
            + (f", disk {disk['median']:.0f} MB/s" if disk else "")
        )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to put files (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/io.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        result = measure(Path(folder), options.samples, options.rounds)
    needed = options.samples * 51_200 * 4 / 1e6
    report = {
        "machine": facts(),
        "shape": [options.samples, 51_200],
        "k": K,
        "batch": BATCH,
        "rows per chunk": CHUNK_ROWS,
        "rounds": options.rounds,
        "MB/s that a fit from memory consumes": {
            case: needed / rows["memory"]["seconds"]["median"] for case, rows in result.items()
        },
        "cases": result,
    }
    options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
