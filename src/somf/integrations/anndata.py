"""Gene programs of single cells: NMF of AnnData objects, as scanpy's functions do it.

The objects may be in memory or backed by a file, of which one minibatch after the other is read.
Nothing here imports anndata: objects are recognised by their class.
"""

from importlib.metadata import version
from typing import Any, Literal

import numpy as np

from somf.data import Source
from somf.data.formats.annotated import chosen_genes, is_annotated
from somf.data.formats.open import annotated_source
from somf.errors import DataError, ParameterError, ParameterTypeError
from somf.estimators.config import Device, InitialAtoms
from somf.estimators.problems import NMF
from somf.typing import Array

__all__ = ["cells", "nmf"]

N_CHECKED = 100
"""How many cells are looked at for negative numbers."""


def cells(adata: Any, *, layer: str | None = None, mask_var: Any = None) -> Source:
    """Return a layer, or some genes, of an AnnData object as the X of any estimator.

    ``model.fit(adata)`` is ``model.fit(cells(adata))``: all genes of ``adata.X``.

    Parameters
    ----------
    adata : AnnData
        In memory, or backed by a file (``anndata.read_h5ad(path, backed="r")``). A view of a backed
        object is read into memory; use `mask_var` to choose genes without that.
    layer : str, optional
        A layer of ``adata.layers``; by default ``adata.X``.
    mask_var : str or array-like of bool of shape (n_vars,), optional
        Which genes to use: a column of ``adata.var``, such as ``"highly_variable"``, or one truth
        value for every gene. By default all.

    Returns
    -------
    source : Source
        Cells × genes; the names of the genes become `feature_names_in_` of a model.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from somf import NMF
    >>> from somf.integrations.anndata import cells
    >>> adata = anndata.AnnData(np.random.default_rng(0).poisson(1.0, (200, 30)).astype("float32"))
    >>> adata.var["highly_variable"] = np.arange(30) < 20
    >>> NMF(5, random_state=0).fit(cells(adata, mask_var="highly_variable")).components_.shape
    (5, 20)
    """
    _check_annotated(adata)
    return annotated_source(adata, layer, mask_var)


def nmf(
    adata: Any,
    n_components: int = 20,
    *,
    key_added: str = "nmf",
    layer: str | None = None,
    mask_var: Any = None,
    alpha: float | Literal["auto"] = 0.0,
    init: InitialAtoms | Array = "auto",
    batch_size: int | Literal["auto"] = "auto",
    n_epochs: int = 100,
    tol: float = 1e-4,
    patience: int = 3,
    dtype: Literal["float32", "float64"] = "float32",
    device: Device = "cpu",
    n_threads: int | None = None,
    verbose: int = 0,
    random_state: Any = 0,
    copy: bool = False,
) -> Any:
    """Learn gene programs by NMF, and store them in an AnnData object as `scanpy.pp.pca` does.

    Parameters
    ----------
    adata : AnnData
        Cells × genes, not negative: counts, normalised counts or their logarithms, not centred.
        It may be backed by a file.
    n_components : int, default=20
        Number of programs, k.
    key_added : str, default="nmf"
        The name of the result; see below.
    layer, mask_var : optional
        Which values and which genes to use; see `cells`. Unlike `scanpy.pp.pca`, the default is
        all genes also if there is a column ``"highly_variable"``.
    alpha, init, batch_size, n_epochs, tol, patience, device, n_threads, verbose : optional
        Those of `somf.NMF`.
    dtype : {"float32", "float64"}, default="float32"
        Type of all computations.
    random_state : int, RandomState or None, default=0
        The same seed gives the same programs.
    copy : bool, default=False
        Whether to return a copy with the result, and leave `adata` as it is.

    Returns
    -------
    adata : AnnData or None
        None unless `copy`. These fields are set:

        ``.obsm["X_nmf"]`` : ndarray of shape (n_obs, n_components)
            The codes: how much each cell uses each program.
        ``.varm["nmf"]`` : ndarray of shape (n_vars, n_components)
            The atoms: the programs, of norm 1. Genes outside of `mask_var` have zeros.
        ``.uns["nmf"]`` : dict
            ``"params"``; ``"objective"``, the mean over cells of half the squared error (and of the
            penalty, if `alpha` is not 0); ``"explained_variance"`` and ``"relative_error"``, those
            of `somf.NMF.measure`; ``"n_epochs"``, the passes over the cells; ``"versions"``.

    Raises
    ------
    ParameterError
        If a parameter is not what it must be.
    DataError
        If there is nothing to learn from, or if numbers are negative.
    """
    _check_annotated(adata)
    _check_writable(adata, copy)
    if not isinstance(key_added, str) or not key_added:
        raise ParameterError("key_added", "be a name", key_added)
    model = NMF(
        n_components,
        alpha=alpha,
        init=init,
        batch_size=batch_size,
        n_epochs=n_epochs,
        tol=tol,
        patience=patience,
        dtype=dtype,
        device=device,
        n_threads=n_threads,
        verbose=verbose,
        random_state=random_state,
    )
    source = cells(adata, layer=layer, mask_var=mask_var)
    _check_not_negative(source)
    model.fit(source)
    target = adata.copy() if copy else adata
    target.obsm[f"X_{key_added}"] = model.transform(source)
    target.varm[key_added] = _of_all_genes(model.components_, adata, mask_var)
    params = {
        "n_components": int(n_components),
        "alpha": float(model.alpha_),
        "layer": layer,
        "mask_var": mask_var if isinstance(mask_var, str | None) else "given as an array",
        "random_state": random_state if isinstance(random_state, int) else None,
    }
    target.uns[key_added] = _results(model, source) | {
        "params": {name: value for name, value in params.items() if value is not None},
        "versions": {"somf": version("somf"), "numpy": np.__version__},
    }
    return target if copy else None


def _results(model: NMF, source: Source) -> dict[str, float]:
    """Return how well a model fits, and how long it took, as numbers that a file can hold."""
    measured = model.measure(source, with_gap=False)
    return {
        "objective": float(measured.objective),
        "explained_variance": float(measured.explained_variance),
        "relative_error": float(measured.relative_error),
        "n_epochs": model.n_samples_seen_ / source.shape[0],
    }


def _of_all_genes(components: Array, adata: Any, mask_var: Any) -> Array:
    """Return atoms as columns, with zeros for genes that they were not learned from."""
    if mask_var is None:
        return np.ascontiguousarray(components.T)
    atoms = np.zeros((adata.n_vars, len(components)), components.dtype)
    atoms[chosen_genes(adata, mask_var)] = components.T
    return atoms


def _check_writable(adata: Any, copy: bool) -> None:
    """Raise an error, before the fit, if anndata would not let its result be stored."""
    if adata.isbacked and adata.is_view:
        hint = "adata.to_memory() reads it; mask_var chooses genes without that."
        raise ParameterError("adata", "not be a view of a file", adata, hint, got="a view")
    if adata.isbacked and copy:
        hint = "The result does not change the file."
        raise ParameterError("copy", "be False for an object in a file", copy, hint)


def _check_not_negative(source: Source) -> None:
    """Raise DataError if one of some cells has a negative number, as centred data has."""
    ids = np.unique(np.linspace(0, source.shape[0] - 1, N_CHECKED).astype(np.intp))
    least = source.rows(ids).min()
    if least < 0:
        raise DataError(
            f"X must not be negative, got {least:.3g}. Take counts, or logarithms of them, and do "
            "not centre them; layer= chooses a layer."
        )


def _check_annotated(adata: Any) -> None:
    if not is_annotated(adata):
        raise ParameterTypeError("adata", "be an AnnData object", adata, got=str(type(adata)))
