"""Tables of `benchmarks.kinds`."""

from typing import Any

from benchmarks.tables.markdown import machine, size, spread, table

DENSE: tuple[tuple[str, str, str, str], ...] = (
    (".npy", "`.npy`, raw numbers", "mapped", "objects"),
    (".npz, dense", "`.npz` of `numpy.savez`", "mapped", "objects"),
    (".npz, dense, compressed", "`.npz` of `savez_compressed`", "unpacked once", "objects"),
    ("HDF5", "HDF5 dataset, NetCDF-4", "mapped if in one piece, else chunked", "strings, complex"),
    ("HDF5, gzip", "the same, compressed", "chunked", "filters that h5py lacks"),
    ("Zarr", "Zarr array (formats 2 and 3)", "chunked", "zipped stores"),
    ("Zarr, zstd", "the same, compressed", "chunked", ""),
    (
        ".csv",
        "`.csv .tsv .txt`, also `.gz`",
        "converted once",
        "text in columns",
    ),
    (
        "Parquet, unpacked",
        "Parquet, Feather 2, Arrow file, up to 256 MB or of more than 256 columns",
        "unpacked once",
        "columns of text, dates, lists; Feather 1; Arrow streams",
    ),
    (".mat", "`.mat` up to version 7", "read into memory", "cells, structs, objects, complex"),
    (".mat 7.3", "`.mat` 7.3", "chunked, transposed", "the same"),
    ("NetCDF-3", "NetCDF-3", "mapped", "CDF-5 (64-bit data)"),
    (".nii", "NIfTI `.nii`", "mapped: volumes × voxels", "pairs of `.hdr` and `.img`; RGB"),
    (".nii.gz", "NIfTI `.nii.gz`", "decompressed once", "the same"),
)
"""Kinds of dense files: the name in the results, what to call it, how it is read, what is not."""

NARROW: tuple[tuple[str, str, str, str], ...] = (
    ("Parquet", "other Parquet", "chunked: row groups, unpacked once if over 64 MB", ""),
    ("Feather", "other Feather", "chunked: record batches, likewise", ""),
)
"""Kinds of files that are measured with fewer features, likewise."""

SPARSE: tuple[tuple[str, str, str, str], ...] = (
    (".npz, sparse", "`.npz` of `scipy.sparse.save_npz`", "read into memory", ""),
    (".h5ad, CSR", "CSR group of HDF5, `.h5ad`", "chunked: runs of rows", "parts in other files"),
    (".h5ad, CSR, gzip", "the same, compressed", "chunked: runs of rows", ""),
    (".h5ad, CSC, gzip", "CSC group of HDF5", "converted once", "parts in other files"),
    ("Zarr, CSR, zstd", "CSR group of Zarr", "chunked: runs of rows", ""),
    (".mtx.gz", "Matrix Market `.mtx`, `.mtx.gz`", "converted once", "dense and complex ones"),
    (".mat, sparse", "sparse in `.mat`", "read into memory; 7.3 converted once", ""),
)
"""Kinds of sparse files, likewise."""


def kinds(results: dict[str, Any]) -> str:
    """Return every kind of file: how it is read, what that costs, and what is not supported."""
    rows = []
    groups = ((DENSE, "kinds"), (NARROW, "narrow kinds"), (SPARSE, "sparse kinds"))
    for names, group in groups:
        measured = results[group]
        for name, kind, how, missing in names:
            row = measured[name]
            opened = f"{row['CPU seconds to open']:.1f}"
            rows.append((kind, how, opened, spread(row["ratio, CPU"]), missing))
    header = ("kind", "how it is read", "to open, s", "epoch against memory", "not supported")
    return table(header, rows)


def setting(results: dict[str, Any]) -> str:
    """Return what was measured, and where."""
    n, p = results["shape"]
    n_narrow, p_narrow = results["narrow shape"]
    n_sparse, p_sparse = results["sparse shape"]
    others = results["share of the cores that other processes had"]
    rows = (
        ("dense samples × features", f"{size(n)} × {size(p)}, float32, {4 * n * p / 1e6:.0f} MB"),
        ("“other” tables", f"{size(n_narrow)} × {size(p_narrow)}"),
        (
            "sparse samples × features",
            f"{size(n_sparse)} × {size(p_sparse)}, {100 * results['density']:.0f} % not zero",
        ),
        ("rounds", results["rounds"]),
        ("machine", machine(results["machine"])),
        ("cores used by other processes", f"{100 * others:.0f} %"),
    )
    return table(("setting", "value"), rows)
