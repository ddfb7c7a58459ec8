"""Cells × genes of AnnData objects, which are recognised without an import of anndata."""

from typing import Any

import numpy as np

from somf.data.formats.hdf5 import hdf5_group_source
from somf.data.formats.zarr import zarr_group_source
from somf.data.sources.recognition import comes_from
from somf.errors import DataError, ParameterError, ParameterTypeError
from somf.typing import Ints


def is_annotated(X: Any) -> bool:
    """Return whether X is an AnnData object, or of a class derived from it."""
    return comes_from(X, "anndata", "AnnData")


def matrix_of(adata: Any, layer: str | None) -> Any:
    """Return X or a layer of an AnnData object; a sparse matrix in a file as a source.

    Parameters
    ----------
    adata : AnnData
    layer : str or None

    Raises
    ------
    ParameterError
        If there is no such layer.
    DataError
        If the object has no X.
    """
    layers = sorted(map(str, adata.layers.keys()))
    if layer is not None and layer not in layers:
        raise ParameterError("layer", f"be None or one of {layers}", layer)
    found = adata.X if layer is None else adata.layers[layer]
    if found is None:
        raise DataError(f"adata.X must be a matrix, got None. Choose one of the layers {layers}.")
    if not comes_from(found, "anndata", "BaseCompressedSparseDataset"):
        return found
    is_of_hdf5 = comes_from(found.group, "h5py", "Group")
    return hdf5_group_source(found.group) if is_of_hdf5 else zarr_group_source(found.group)


def chosen_genes(adata: Any, mask_var: Any) -> Ints:
    """Return the columns of the genes of a mask.

    Parameters
    ----------
    adata : AnnData
    mask_var : str or array-like of bool of shape (n_vars,)
        A column of ``adata.var``, or one truth value for every gene.

    Raises
    ------
    ParameterError
        If it is not a mask, or chooses no gene.
    """
    rule = f"be the name of a column of adata.var, or an array of {adata.n_vars} truth values"
    if isinstance(mask_var, str) and mask_var not in adata.var:
        raise ParameterError("mask_var", rule, mask_var)
    mask = np.asarray(adata.var[mask_var] if isinstance(mask_var, str) else mask_var)
    if mask.dtype != np.bool_:
        raise ParameterTypeError("mask_var", rule, mask_var, got=f"{mask.dtype}")
    if mask.shape != (adata.n_vars,):
        raise ParameterError("mask_var", rule, mask_var, got=f"shape {mask.shape}")
    if not mask.any():
        raise ParameterError("mask_var", "choose at least one gene", mask_var, got="none")
    return np.flatnonzero(mask)
