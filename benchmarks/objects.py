"""What an epoch costs from arrays and data frames of other libraries, and from sharded Zarr.

    python -m benchmarks.objects [--samples 36000] [--rounds 3] [--folder scratch]

Samples are normal random numbers in float32, 2,000 features each, more than what is converted at
once. Each kind is made a source, and fitted for one epoch with k = 30, λ = 0.1, batches of 100 and
r = 4. Every round fits all kinds, in another order, and a ratio compares the CPU time of the fit of
one kind and of that from memory in the same round. Files are in the page cache.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.machine import facts, seconds_of_others
from benchmarks.settings import ONE_EPOCH, PAPER
from benchmarks.speed import summary
from somf import DictionaryLearning
from somf.data import as_source

P = 2000
"""Features."""

SETTINGS: dict[str, Any] = {"alpha": 0.1, "reduction": 4, "batch_size": 100, "random_state": 0}
"""Parameters of the fits."""


def objects(X: Any) -> dict[str, Any]:
    """Return the samples as objects of other libraries."""
    import dask.array
    import pandas
    import polars
    import pyarrow
    import xarray

    names = [f"x{i}" for i in range(P)]
    frame = pandas.DataFrame(X, columns=names, copy=False)
    mixed = frame.astype(dict.fromkeys(names[::2], "float64"))
    table = pyarrow.table({name: X[:, i] for i, name in enumerate(names)})
    chunked = dask.array.from_array(X, chunks=(1000, 500))
    return {
        "memory": X,
        "pandas, one block": frame,
        "pandas, mixed types": mixed,
        "polars": polars.from_arrow(table),
        "pyarrow": table,
        "xarray in memory": xarray.DataArray(X, dims=("sample", "feature")),
        "Dask, chunks of 1,000 × 500": chunked,
        "Dask, with some arithmetic": (chunked - chunked.mean(axis=0).compute()) * 2,
    }


def stored(folder: Path, X: Any) -> dict[str, str]:
    """Write Zarr arrays, with and without shards; return how to open each."""
    import zarr

    layouts = {
        "Zarr, chunks of 2 MB": {"chunks": (250, P)},
        "Zarr, shards of 32 MB, chunks of 2 MB": {"chunks": (250, P), "shards": (4000, P)},
        "Zarr, shards of 32 MB, chunks of 32 kB": {"chunks": (4, P), "shards": (4000, P)},
    }
    paths = {}
    for i, (name, layout) in enumerate(layouts.items()):
        paths[name] = str(folder / f"{i}.zarr")
        array = zarr.create_array(paths[name], shape=X.shape, dtype=X.dtype, **layout)
        for start in range(0, len(X), 4000):
            array[start : start + 4000] = X[start : start + 4000]
    return paths | {"the first of them, by file://": f"file://{next(iter(paths.values()))}"}


def fit(X: Any) -> tuple[float, float]:
    """Return the CPU seconds to make a source, and those of one epoch, of all threads."""
    begin = process_time()
    source = as_source(X)
    opened = process_time()
    DictionaryLearning(30, **SETTINGS, **PAPER, **ONE_EPOCH).fit(source)
    return opened - begin, process_time() - opened


def measure(kinds: dict[str, Any], n_rounds: int) -> dict[str, Any]:
    """Return CPU seconds to open each kind, and those of an epoch against memory."""
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    fit(kinds["memory"])  # compiles
    for round_ in range(n_rounds):
        for kind in np.random.default_rng(round_).permutation(list(kinds)).tolist():
            times[kind].append(fit(kinds[kind]))
    result = {}
    for kind, pairs in times.items():
        against = zip(pairs, times["memory"], strict=True)
        result[kind] = {
            "open, seconds": median(opened for opened, _ in pairs),
            "epoch, seconds": median(epoch for _, epoch in pairs),
            "ratio": summary([own[1] / other[1] for own, other in against]),
        }
        row = result[kind]
        print(f"{kind:40}{row['open, seconds']:8.2f} s to open, {row['ratio']['median']:5.2f} ×")
    return result


def main() -> None:
    """Measure, print the results and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=36_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to put files (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/objects.json"))
    options = parser.parse_args()
    begin, others = perf_counter(), seconds_of_others()
    X = np.random.default_rng(0).standard_normal((options.samples, P), dtype=np.float32)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        result = measure(objects(X) | stored(Path(name), X), options.rounds)
    core_seconds = (perf_counter() - begin) * (os.cpu_count() or 1)
    report = {
        "machine": facts(),
        "shape": [options.samples, P],
        "rounds": options.rounds,
        "share of the cores that other processes had": (seconds_of_others() - others)
        / core_seconds,
        "kinds": result,
    }
    options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
