"""What it costs to fit data that is on disk rather than in memory.

    python -m benchmarks.io [--samples 4000] [--rounds 5] [--folder scratch]

Data: patches of Indian Pines, p = 51,200 in float32, k = 100, λ = 0.1, batches of 50, r = 4 and 12.
The same samples are fitted for one epoch from memory, from a memory map (`.npy`), from HDF5 and
Zarr (chunks of 16 rows, not compressed and compressed with the default of each library), from a
transposed memory map, and as patches of the scene in memory and in a file. Every round fits all of
them, in another order, and a ratio compares two fits of the same round. Before a fit from memory
the same file is read as before a fit from the memory map: memory that the page cache has released
may have gone back to the host of a virtual machine, and is then slow to use again.

- warm: the files are in the page cache. Only the work of reading is measured.
- cold: the files are dropped from the page cache before every fit, so that the disk must deliver.
  Its rate is measured beside the rate at which the fit from memory consumes data.

The CPU time of reading alone is measured, too: a loop reads all bytes of the files in pieces, in
random order, from the page cache and from the disk. Compressed files are read in order by their
library.
"""

import argparse
import json
import os
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.machine import facts, seconds_of_others
from benchmarks.scenes import indian_pines
from benchmarks.settings import ONE_EPOCH, PAPER
from benchmarks.speed import ALPHA, BATCH, K, summary
from somf import DictionaryLearning, ImagePatches
from somf.data import open_source

CHUNK_ROWS = 16
"""Rows of a chunk of HDF5 and Zarr."""

PATCH_BYTES = 51_200 * 4
"""Bytes of a sample."""

REDUCTIONS = (4, 12)
"""Values of r."""

CPU_SECONDS = "CPU seconds of reading alone"
"""Where the results keep the CPU time of reading without a fit."""

COMPRESSED = ("HDF5, gzip", "Zarr, zstd")
"""Sources that are only measured warm."""


def write(folder: Path, n: int) -> dict[str, tuple[Callable[[], Any], list[Path]]]:
    """Write the same samples in every format; return how to open each, and its files."""
    import h5py
    import zarr

    train, _ = indian_pines()
    picked = np.random.default_rng(0).permutation(train.shape[0])[:n]
    X = train.rows(picked)
    scene = folder / "scene.npy"
    np.save(scene, np.ascontiguousarray(train.images[0]))
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
    packed_hdf5, packed_zarr = folder / "packed.h5", folder / "packed.zarr"
    with h5py.File(packed_hdf5, "w") as file:
        file.create_dataset(
            "X", data=X, chunks=(CHUNK_ROWS, X.shape[1]), compression="gzip", compression_opts=1
        )
    zarr.create_array(packed_zarr, data=X, chunks=(CHUNK_ROWS, X.shape[1]), overwrite=True)

    def patches(image: Any) -> ImagePatches:
        cut = ImagePatches(image, 16)
        cut.positions = train.positions[picked]
        cut.shape = X.shape
        return cut

    columns = np.ascontiguousarray(train.images[0])
    return {
        "memory": (lambda: X, []),
        "memory map": (lambda: open_source(npy), [npy]),
        "transposed memory map": (lambda: open_source(turned, transposed=True), [turned]),
        "HDF5": (lambda: open_source(hdf5), [hdf5]),
        "Zarr": (lambda: open_source(chunked), files_in(chunked)),
        COMPRESSED[0]: (lambda: open_source(packed_hdf5), [packed_hdf5]),
        COMPRESSED[1]: (lambda: open_source(packed_zarr), files_in(packed_zarr)),
        "patches in memory": (lambda: patches(columns), []),
        "patches of a file": (lambda: patches(scene), [scene]),
    }


def drop(files: list[Path]) -> None:
    """Drop files from the page cache."""
    for path in files:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_in_order(files: list[Path]) -> float:
    """Read files from beginning to end, into the page cache; return the rate in MB/s."""
    begin, size = perf_counter(), 0
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while block := file.read(2**24):
                size += len(block)
    return size / (perf_counter() - begin) / 1e6


def files_in(folder: Path) -> list[Path]:
    """Return all files of a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


def cpu_seconds() -> float:
    """Return the CPU time of this process, in user mode and in the system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def read_at_random(files: list[Path], piece: int) -> tuple[float, float]:
    """Read files in pieces, one at a time, in random order; return MB/s and CPU seconds."""
    buffer = bytearray(piece)
    size, begin, used = 0, perf_counter(), cpu_seconds()
    for path, offset in pieces_of(files, piece):
        file = os.open(path, os.O_RDONLY)
        size += os.preadv(file, [buffer], offset)
        os.close(file)
    return size / (perf_counter() - begin) / 1e6, cpu_seconds() - used


def pieces_of(files: list[Path], piece: int) -> list[tuple[Path, int]]:
    """Return files and offsets, shuffled."""
    places = [(path, at) for path in files for at in range(0, path.stat().st_size, piece)]
    return [places[i] for i in np.random.default_rng(0).permutation(len(places)).tolist()]


def fit(X: Any, reduction: float) -> dict[str, float]:
    """Fit one epoch; return its seconds in the loop, the seconds before it, and its CPU seconds."""
    model = DictionaryLearning(
        K, alpha=ALPHA, reduction=reduction, batch_size=BATCH, random_state=0, **PAPER, **ONE_EPOCH
    )
    begin, used = perf_counter(), cpu_seconds()
    model.fit(X)
    seconds = model.history_["compute_seconds"][-1]
    return {
        "loop": seconds,
        "start": perf_counter() - begin - seconds,
        "cpu": cpu_seconds() - used,
    }


def reading_alone(
    sources: dict[str, tuple[Callable[[], Any], list[Path]]],
) -> dict[str, dict[str, float]]:
    """Return the CPU seconds that reading takes without a fit."""
    result: dict[str, dict[str, float]] = {}
    for name, (open_it, files) in sources.items():
        if name in COMPRESSED:
            source, used = open_it(), cpu_seconds()
            step = 10 * CHUNK_ROWS
            for start in range(0, source.shape[0], step):
                source.rows(np.arange(start, min(start + step, source.shape[0])))
            result[name] = {"decompressed in order": cpu_seconds() - used}
        elif files:
            piece = piece_of(name)
            read_in_order(files)
            result[name] = {"from the page cache": read_at_random(files, piece)[1]}
            drop(files)
            result[name]["from the disk"] = read_at_random(files, piece)[1]
    return result


def measure(folder: Path, n: int, n_rounds: int) -> dict[str, Any]:
    """Return seconds of an epoch from every kind of source, warm and cold."""
    sources = write(folder, n)
    for open_it, files in sources.values():
        drop(files)
        fit(open_it(), REDUCTIONS[0])  # compiles
    result: dict[str, Any] = {CPU_SECONDS: reading_alone(sources)}
    for reduction in REDUCTIONS:
        for state in ("warm", "cold"):
            times: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
            rates: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
            for round_ in range(n_rounds):
                for name in np.random.default_rng(round_).permutation(list(sources)).tolist():
                    if name in COMPRESSED and state == "cold":
                        continue
                    open_it, files = sources[name]
                    if state == "cold":
                        rates[name].append(disk_rates(name, files or sources["memory map"][1]))
                    else:
                        read_in_order(files or sources["memory map"][1])
                    times[name].append(fit(open_it(), reduction))
            result[f"r = {reduction}, {state}"] = {
                name: _row(times, rates, name, n) for name in sources if times[name]
            }
            print_table(f"r = {reduction}, {state}", result[f"r = {reduction}, {state}"])
    return result


def disk_rates(name: str, files: list[Path]) -> tuple[float, float]:
    """Return MB/s of the disk, in order, and in random pieces as large as those of a fit."""
    drop(files)
    in_order = read_in_order(files)
    drop(files)
    at_random, _ = read_at_random(files, piece_of(name))
    drop(files)
    return in_order, at_random


def piece_of(name: str) -> int:
    """Return how many bytes a fit reads at a time."""
    return PATCH_BYTES * (1 if name.startswith("memory") else CHUNK_ROWS)


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
        "CPU seconds": median(t["cpu"] for t in times[name]),
        "samples per second": n / median(t["loop"] for t in times[name]),
        "compared with": against,
        "ratio": summary([a["loop"] / b["loop"] for a, b in pairs]),
    }
    if rates[name] and not name.endswith("memory"):
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
    """Measure, print the results and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to put files (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/io.json"))
    options = parser.parse_args()
    begin, others = perf_counter(), seconds_of_others()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        result = measure(Path(folder), options.samples, options.rounds)
    core_seconds = (perf_counter() - begin) * (os.cpu_count() or 1)
    cases = {case: rows for case, rows in result.items() if case != CPU_SECONDS}
    needed = options.samples * 51_200 * 4 / 1e6
    report = {
        "machine": facts(),
        "shape": [options.samples, 51_200],
        "k": K,
        "batch": BATCH,
        "rows per chunk": CHUNK_ROWS,
        "rounds": options.rounds,
        "share of the cores that other processes had": (seconds_of_others() - others)
        / core_seconds,
        "MB/s that a fit from memory consumes": {
            case: needed / rows["memory"]["seconds"]["median"] for case, rows in cases.items()
        },
        CPU_SECONDS: result[CPU_SECONDS],
        "cases": cases,
    }
    options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
