"""What an epoch costs from every kind of file, against the same samples in memory.

    python -m benchmarks.kinds [--samples 9000] [--cells 20000] [--rounds 3] [--folder scratch]

Dense samples are normal random numbers in float32, sparse ones counts of a Poisson distribution of
which three in a hundred are not zero. Each kind is opened, which converts some of them once, and
fitted for one epoch with k = 30, λ = 0.1, batches of 100 and r = 4. Every round fits all kinds, in
another order, and a ratio compares the fits of one kind and from memory in the same round. Both
the CPU seconds of all threads, which other processes disturb little, and the seconds of the clock
are kept. Files are in the page cache: only the work of reading is measured, and `benchmarks.io` has
cold files.
"""

import argparse
import gzip
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any
from unittest import mock

import numpy as np
import scipy.io
import scipy.sparse as sp

from benchmarks.machine import facts, seconds_of_others
from benchmarks.settings import ONE_EPOCH, PAPER
from benchmarks.speed import summary
from somf import DictionaryLearning
from somf.data import Source, as_source, open_source

P = 2000
"""Features."""

CHUNK_ROWS = 250
"""Rows of a chunk, a row group or a record batch: 2 MB."""

NARROW_P = 200
"""Features of tables that are read in chunks."""

DENSITY = 0.03
"""The share of counts that are not zero."""

SETTINGS: dict[str, Any] = {"alpha": 0.1, "reduction": 4, "batch_size": 100, "random_state": 0}
"""Parameters of the fits."""

Openers = dict[str, Callable[[], Source]]
"""How to open the samples, by kind."""


def write_arrays(folder: Path, X: Any) -> Openers:
    """Write files of arrays; return how to open each."""
    import h5py
    import zarr

    np.save(folder / "X.npy", X)
    np.savez(folder / "stored.npz", X=X)
    np.savez_compressed(folder / "packed.npz", X=X)
    chunks = (CHUNK_ROWS, P)
    for name, packing in (("X", None), ("packed", "gzip")):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file.create_dataset("X", data=X, chunks=chunks, compression=packing)
    zarr.create_array(folder / "X.zarr", data=X, chunks=chunks, compressors=None)
    zarr.create_array(folder / "packed.zarr", data=X, chunks=chunks)
    scipy.io.savemat(folder / "X.mat", {"X": X})
    with h5py.File(folder / "new.mat", "w") as file:
        file.create_dataset("X", data=X.T, chunks=(P, CHUNK_ROWS), compression="gzip")
    with scipy.io.netcdf_file(folder / "X.nc", "w") as file:
        for axis, length in zip(("sample", "feature"), X.shape, strict=True):
            file.createDimension(axis, length)
        file.createVariable("X", "f4", ("sample", "feature"))[:] = X
    names = {
        ".npy": "X.npy",
        ".npz, dense": "stored.npz",
        ".npz, dense, compressed": "packed.npz",
        "HDF5": "X.h5",
        "HDF5, gzip": "packed.h5",
        "Zarr": "X.zarr",
        "Zarr, zstd": "packed.zarr",
        ".mat": "X.mat",
        ".mat 7.3": "new.mat",
        "NetCDF-3": "X.nc",
    }
    return {kind: _opener(folder / name) for kind, name in names.items()}


def write_tables(folder: Path, X: Any) -> Openers:
    """Write tables and images; return how to open each."""
    import nibabel
    import pyarrow as pa
    from pyarrow import csv, parquet

    table = pa.table({f"x{i}": X[:, i] for i in range(P)})
    csv.write_csv(table, folder / "X.csv")
    parquet.write_table(table, folder / "X.parquet", row_group_size=CHUNK_ROWS)
    image = nibabel.Nifti1Image(X.T.reshape(20, 10, 10, len(X), order="F"), np.eye(4))
    nibabel.save(image, folder / "X.nii")
    nibabel.save(image, folder / "X.nii.gz")
    names = {
        ".csv": "X.csv",
        "Parquet, unpacked": "X.parquet",
        ".nii": "X.nii",
        ".nii.gz": "X.nii.gz",
    }
    return {kind: _opener(folder / name) for kind, name in names.items()}


def write_narrow_tables(folder: Path, X: Any) -> Openers:
    """Write tables of few columns; return how to open each."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    table = pa.table({f"x{i}": X[:, i] for i in range(X.shape[1])})
    n_rows = CHUNK_ROWS * P // X.shape[1]
    parquet.write_table(table, folder / "narrow.parquet", row_group_size=n_rows)
    feather.write_feather(table, folder / "narrow.feather", chunksize=n_rows)
    return {
        "Parquet": lambda: _open_as_if_large(folder / "narrow.parquet"),
        "Feather": lambda: _open_as_if_large(folder / "narrow.feather"),
    }


def _open_as_if_large(path: Path) -> Source:
    """Open a table like those that are too large to be unpacked into memory."""
    with mock.patch("somf.data.formats.arrow.SMALL_TABLE", 0):
        return open_source(path)


def write_sparse(folder: Path, X: sp.csr_array) -> Openers:
    """Write sparse matrices; return how to open each."""
    import h5py
    import zarr

    sp.save_npz(folder / "X.npz", X)
    for name, matrix, packing in (
        ("rows", X, None),
        ("packed", X, "gzip"),
        ("columns", sp.csc_array(X), "gzip"),
    ):
        with h5py.File(folder / f"{name}.h5ad", "w") as file:
            _put(file.create_group("X"), matrix, chunks=True, compression=packing)
    root = zarr.open_group(folder / "sparse.zarr", mode="w")
    _put(root.create_group("X"), X)
    scipy.io.mmwrite(folder / "X.mtx", sp.coo_array(X.T))
    with open(folder / "X.mtx", "rb") as file:
        (folder / "X.mtx.gz").write_bytes(gzip.compress(file.read(), 1))
    scipy.io.savemat(folder / "sparse.mat", {"X": sp.csc_array(X)})
    return {
        ".npz, sparse": _opener(folder / "X.npz"),
        ".h5ad, CSR": _opener(folder / "rows.h5ad"),
        ".h5ad, CSR, gzip": _opener(folder / "packed.h5ad"),
        ".h5ad, CSC, gzip": _opener(folder / "columns.h5ad"),
        "Zarr, CSR, zstd": _opener(folder / "sparse.zarr"),
        ".mtx.gz": _opener(folder / "X.mtx.gz", transposed=True),
        ".mat, sparse": _opener(folder / "sparse.mat"),
    }


def _opener(path: Path, transposed: bool = False) -> Callable[[], Source]:
    return lambda: open_source(path, transposed=transposed)


def _put(group: Any, X: Any, **options: Any) -> None:
    """Write a sparse matrix as AnnData does."""
    group.attrs.update({"encoding-type": f"{X.format}_matrix", "shape": list(X.shape)})
    create = group.create_dataset if options else group.create_array
    for name in ("data", "indices", "indptr"):
        create(name, data=getattr(X, name), **options)


def fit(open_it: Callable[[], Source]) -> dict[str, float]:
    """Return the CPU seconds to open a source and to fit it, and the seconds of the epoch."""
    begin = process_time()
    source = open_it()
    opened = process_time()
    model = DictionaryLearning(30, **SETTINGS, **PAPER, **ONE_EPOCH).fit(source)
    return {
        "open": opened - begin,
        "CPU": process_time() - opened,
        "clock": model.history_["compute_seconds"][-1],
    }


def measure(openers: Openers, X: Any, n_rounds: int) -> dict[str, Any]:
    """Return CPU seconds to open each kind, and what an epoch costs against memory."""
    openers = {"memory": lambda: as_source(X)} | openers
    times: dict[str, list[dict[str, float]]] = {kind: [] for kind in openers}
    fit(openers["memory"])  # compiles
    for round_ in range(n_rounds):
        for kind in np.random.default_rng(round_).permutation(list(openers)).tolist():
            times[kind].append(fit(openers[kind]))
    result = {}
    for kind, runs in times.items():
        pairs = list(zip(runs, times["memory"], strict=True))
        row: dict[str, Any] = {"CPU seconds to open": median(run["open"] for run in runs)}
        for what in ("CPU", "clock"):
            row[f"{what} seconds"] = median(run[what] for run in runs)
            row[f"ratio, {what}"] = summary([own[what] / other[what] for own, other in pairs])
        result[kind] = row
        print(
            f"{kind:26}{row['CPU seconds to open']:8.2f} s to open, "
            f"{row['ratio, CPU']['median']:5.2f} × CPU, "
            f"{row['ratio, clock']['median']:5.2f} × clock"
        )
    return result


def main() -> None:
    """Measure, print the results and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=9000)
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to put files (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/kinds.json"))
    options = parser.parse_args()
    begin, others = perf_counter(), seconds_of_others()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.samples, P), dtype=np.float32)
    counts = sp.random_array(
        (options.cells, P),
        density=DENSITY,
        format="csr",
        dtype=np.float32,
        rng=rng,
        data_sampler=lambda size: rng.poisson(2, size).astype(np.float32) + 1,
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        dense = write_arrays(folder, X) | write_tables(folder, X)
        result = measure(dense, X, options.rounds)
        narrow = X.reshape(-1, NARROW_P)
        narrow_result = measure(write_narrow_tables(folder, narrow), narrow, options.rounds)
        sparse = write_sparse(folder, sp.csr_array(counts))
        sparse_result = measure(sparse, sp.csr_array(counts), options.rounds)
    core_seconds = (perf_counter() - begin) * (os.cpu_count() or 1)
    report = {
        "machine": facts(),
        "shape": [options.samples, P],
        "narrow shape": list(narrow.shape),
        "sparse shape": [options.cells, P],
        "density": DENSITY,
        "rounds": options.rounds,
        "share of the cores that other processes had": (seconds_of_others() - others)
        / core_seconds,
        "kinds": result,
        "narrow kinds": narrow_result,
        "sparse kinds": sparse_result,
    }
    options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
