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
    return MATRICES[kind]


MATRICES = {
    "npy": "rows.npy",
    "several": "a1.npy a2.npy",
    "pattern": "'a*.npy'",
    "npz": "rows.npz",
    "raw": "rows.bin --raw-shape 300x24 --raw-dtype float64",
    "transposed": "columns.npy --transposed",
    "hdf5": "rows.h5 --dataset rows",
    "zarr": "rows.zarr",
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
