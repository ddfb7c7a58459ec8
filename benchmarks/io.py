"""What it costs to fit data that is on disk rather than in memory.

    python -m benchmarks.io [--samples 4000] [--rounds 5] [--folder scratch]

Data: patches of Indian Pines, p = 51,200 in float32, k = 100, λ = 0.1, batches of 50, r = 4 and 12.
The same samples are fitted for one epoch from memory, from a memory map (`.npy`), from HDF5 and
Zarr (chunks of 16 rows; not compressed, and compressed as the libraries do by themselves), from a
transposed memory map, and as patches of the scene in memory and in a file. All take turns, in
another order in every round; the ratio to the fit from memory is that of the same round. What is in
memory is fitted after the same reading as the memory map: files that are dropped from the page
cache leave memory that a virtual machine may give back, and that is slow to use again.

- warm: the files are in the page cache, so that nothing but the work of reading is measured.
- cold: the page cache is told to forget them before every fit. Then the disk must deliver, and the
  rate at which it does is measured next to the rate at which the fit from memory consumes.

Beside them stands what the system takes for itself, in seconds of a core: all bytes of the files
read in pieces, in random order, by a program that does nothing else, through the page cache and
past it; and, for compressed files, what the libraries take to read them in order.
"""

import argparse
import json
import mmap
import os
import resource
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
from somf.data.readahead.background import aio

CHUNK_ROWS = 16
PATCH_BYTES = 51_200 * 4
REDUCTIONS = (4, 12)
FLOORS = "seconds of a core for reading alone"
COMPRESSED = ("HDF5, gzip", "Zarr, zstd")


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

    columns = np.ascontiguousarray(train.image)
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


def files_in(folder: Path) -> list[Path]:
    """Return all files of a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


def core_seconds() -> float:
    """Return the seconds that cores have spent on this process, and on the system for it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def remember_at_random(files: list[Path], piece: int) -> tuple[float, float]:
    """Read files in pieces, one at a time, in random order; return MB/s and seconds of a core."""
    room = bytearray(piece)
    size, begin, used = 0, perf_counter(), core_seconds()
    for path, at in pieces_of(files, piece):
        file = os.open(path, os.O_RDONLY)
        size += os.preadv(file, [room], at)
        os.close(file)
    return size / (perf_counter() - begin) / 1e6, core_seconds() - used


def read_past_cache(files: list[Path], piece: int) -> tuple[float, float]:
    """Read files in pieces, a minibatch at a time, past the page cache; return the same."""
    n_at_once = max(1, BATCH * PATCH_BYTES // piece)
    room = mmap.mmap(-1, n_at_once * piece, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    room.write(bytes(len(room)))
    at = np.frombuffer(room, np.uint8).ctypes.data + piece * np.arange(n_at_once)
    reads, places = aio.Reads(n_at_once), pieces_of(files, piece)
    size, begin, used = 0, perf_counter(), core_seconds()
    for start in range(0, len(places), n_at_once):
        some = places[start : start + n_at_once]
        opened = np.array([os.open(path, os.O_RDONLY | os.O_DIRECT) for path, _ in some])
        offsets, lengths = np.array([offset for _, offset in some]), np.full(len(some), piece)
        n_left = reads.begin(np.arange(len(some)), opened, offsets, at[: len(some)], lengths)
        for file in opened.tolist():
            os.close(file)
        while n_left:
            _, n_read = reads.finished(1.0)
            size, n_left = size + int(n_read.sum()), n_left - len(n_read)
    return size / (perf_counter() - begin) / 1e6, core_seconds() - used


def pieces_of(files: list[Path], piece: int) -> list[tuple[Path, int]]:
    """Return files and offsets, shuffled."""
    places = [(path, at) for path in files for at in range(0, path.stat().st_size, piece)]
    return [places[i] for i in np.random.default_rng(0).permutation(len(places)).tolist()]


def fit(X: Any, reduction: float) -> dict[str, float]:
    """Fit one epoch; return its seconds in the loop and those before it, and those of cores."""
    model = DictionaryLearning(
        K, alpha=ALPHA, reduction=reduction, batch_size=BATCH, random_state=0
    )
    begin, used = perf_counter(), core_seconds()
    model.fit(X)
    seconds = model.history_["compute_seconds"][-1]
    return {
        "loop": seconds,
        "start": perf_counter() - begin - seconds,
        "cores": core_seconds() - used,
    }


def floors(sources: dict[str, tuple[Callable[[], Any], list[Path]]]) -> dict[str, dict[str, float]]:
    """Return seconds of a core that reading alone takes, whoever does it."""
    result: dict[str, dict[str, float]] = {}
    for name, (open_it, files) in sources.items():
        if name in COMPRESSED:
            source, used = open_it(), core_seconds()
            step = 10 * CHUNK_ROWS
            for start in range(0, source.shape[0], step):
                source.rows(np.arange(start, min(start + step, source.shape[0])))
            result[name] = {"decompressed in order": core_seconds() - used}
        elif files:
            piece = piece_of(name)
            remember(files)
            result[name] = {"from the page cache": remember_at_random(files, piece)[1]}
            forget(files)
            result[name]["from the disk"] = remember_at_random(files, piece)[1]
            if aio.IS_AVAILABLE:
                forget(files)
                past = read_past_cache(files, piece)[1]
                result[name]["from the disk, past the page cache"] = past
    return result


def measure(folder: Path, n: int, n_rounds: int) -> dict[str, Any]:
    """Return seconds of an epoch from every kind of source, warm and cold."""
    sources = write(folder, n)
    for open_it, files in sources.values():
        forget(files)
        fit(open_it(), REDUCTIONS[0])  # compiles
    result: dict[str, Any] = {FLOORS: floors(sources)}
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
                        remember(files or sources["memory map"][1])
                    times[name].append(fit(open_it(), reduction))
            result[f"r = {reduction}, {state}"] = {
                name: _row(times, rates, name, n) for name in sources if times[name]
            }
            print_table(f"r = {reduction}, {state}", result[f"r = {reduction}, {state}"])
    return result


def disk_rates(name: str, files: list[Path]) -> tuple[float, float]:
    """Return MB/s of files that are not in memory, in order, and in pieces as a fit wants them."""
    forget(files)
    in_order = remember(files)
    forget(files)
    at_random, _ = remember_at_random(files, piece_of(name))
    forget(files)
    return in_order, at_random


def piece_of(name: str) -> int:
    """Return how many bytes a fit wants at a time."""
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
        "seconds of all cores": median(t["cores"] for t in times[name]),
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
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to put files (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/io.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        result = measure(Path(folder), options.samples, options.rounds)
    cases = {case: rows for case, rows in result.items() if case != FLOORS}
    needed = options.samples * 51_200 * 4 / 1e6
    report = {
        "machine": facts(),
        "shape": [options.samples, 51_200],
        "k": K,
        "batch": BATCH,
        "rows per chunk": CHUNK_ROWS,
        "rounds": options.rounds,
        "MB/s that a fit from memory consumes": {
            case: needed / rows["memory"]["seconds"]["median"] for case, rows in cases.items()
        },
        FLOORS: result[FLOORS],
        "cases": cases,
    }
    options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
