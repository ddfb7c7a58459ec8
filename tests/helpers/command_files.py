"""Files of every kind, for tests of the command."""

import numpy as np
import pytest
import scipy.sparse as sp


def write_data():
    """Write an image and a matrix to the working directory."""
    rng = np.random.default_rng(0)
    image = np.cumsum(np.cumsum(rng.standard_normal((36, 40, 3)), axis=0), axis=1)
    np.save("scene.npy", image.astype(np.float32))
    rows = rng.standard_normal((300, 5)) @ rng.standard_normal((5, 24))
    np.save("rows.npy", rows / np.linalg.norm(rows, axis=1, keepdims=True))


def write_rows(kind):
    """Write the matrix as a file of some kind; return the arguments that open it."""
    rows = np.load("rows.npy")
    if kind in ("several", "pattern"):
        np.save("a1.npy", rows[:100])
        np.save("a2.npy", rows[100:])
    elif kind == "npz":
        sp.save_npz("rows.npz", sp.csr_array(rows))
    elif kind == "raw":
        rows.tofile("rows.bin")
    elif kind == "transposed":
        np.save("columns.npy", np.ascontiguousarray(rows.T))
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py", reason="HDF5 comes with the extra 'hdf5'")
        with h5py.File("rows.h5", "w") as file:
            file["other"], file["rows"] = rows[:5], rows
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr", reason="Zarr comes with the extra 'zarr'")
        zarr.save_array("rows.zarr", rows)
    elif kind == "csv":
        pytest.importorskip("pyarrow", reason="text comes with the extra 'arrow'")
        np.savetxt("rows.csv", rows, delimiter=",", header=NAMES, comments="")
    elif kind == "parquet":
        pa = pytest.importorskip("pyarrow", reason="Parquet comes with the extra 'arrow'")
        table = pa.table({f"x{i}": rows[:, i] for i in range(24)})
        pytest.importorskip("pyarrow.parquet").write_table(table, "rows.parquet")
    elif kind == "mat":
        pytest.importorskip("scipy.io").savemat("rows.mat", {"rows": rows})
    elif kind == "mtx":
        pytest.importorskip("scipy.io").mmwrite("columns.mtx", sp.coo_array(rows.T))
    elif kind == "h5ad":
        write_h5ad(rows)
    elif kind == "nii":
        nibabel = pytest.importorskip("nibabel", reason="NIfTI comes with the extra 'nifti'")
        image = rows.T.reshape(4, 3, 2, 300, order="F")
        nibabel.save(nibabel.Nifti1Image(image, np.eye(4)), "rows.nii.gz")
    return MATRICES[kind]


def write_h5ad(rows):
    """Write the matrix as an AnnData object with a sparse layer."""
    h5py = pytest.importorskip("h5py", reason="AnnData comes with the extra 'hdf5'")
    X = sp.csr_array(rows)
    with h5py.File("cells.h5ad", "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file["X"] = np.ones_like(rows)
        layer = file.create_group("layers/scaled")
        layer.attrs.update({"encoding-type": "csr_matrix", "shape": X.shape})
        for name in ("data", "indices", "indptr"):
            layer[name] = getattr(X, name)
        file["var/_index"] = NAMES.split(",")
        file.create_group("obs")


NAMES = ",".join(f"x{i}" for i in range(24))
"""Names of features."""


MATRICES = {
    "npy": "rows.npy",
    "several": "a1.npy a2.npy",
    "pattern": "'a*.npy'",
    "npz": "rows.npz",
    "raw": "rows.bin --raw-shape 300x24 --raw-dtype float64",
    "transposed": "columns.npy --transposed",
    "hdf5": "rows.h5 --dataset rows",
    "zarr": "rows.zarr",
    "csv": "rows.csv",
    "parquet": "rows.parquet",
    "mat": "rows.mat",
    "mtx": "columns.mtx --transposed",
    "h5ad": "cells.h5ad --dataset layers/scaled",
    "nii": "rows.nii.gz",
}
"""Arguments that open the matrix, by the kind of its file."""


def write_image(kind):
    """Write the image as a file of some kind; return its name."""
    image = np.load("scene.npy")
    if kind == "mat":
        scipy_io = pytest.importorskip("scipy.io")
        scipy_io.savemat("image.mat", {"cube": image})
    elif kind == "tif":
        tifffile = pytest.importorskip("tifffile", reason="TIFF comes with the extra 'images'")
        tifffile.imwrite("image.tif", image, photometric="rgb")
    elif kind == "hdr":
        envi = pytest.importorskip("spectral.io.envi", reason="ENVI comes with the extra 'images'")
        envi.save_image("image.hdr", image)
    elif kind == "h5":
        h5py = pytest.importorskip("h5py", reason="HDF5 comes with the extra 'hdf5'")
        with h5py.File("image.h5", "w") as file:
            file["other"] = image[:5, :5]
            file.create_dataset("cube", data=image, chunks=(7, 7, 3), compression="gzip")
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr", reason="Zarr comes with the extra 'zarr'")
        zarr.save_array("image.zarr", image)
    elif kind == "png":
        pil = pytest.importorskip("PIL.Image", reason="PNG comes with the extra 'images'")
        pil.fromarray(np.clip(image + 100, 0, 255).astype(np.uint8)).save("image.png")
    else:
        np.save("image.npy", image)
    return f"image.{kind}"


DATASETS = {"h5": "cube"}
"""Names of images in files that hold several."""


IMAGES = ("npy", "mat", "tif", "hdr", "h5", "zarr", "png")
"""Kinds of files for the image."""
