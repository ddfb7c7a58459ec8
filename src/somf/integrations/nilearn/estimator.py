"""`BrainFactorization`: an estimator of brain maps with the conventions of nilearn."""

import os
from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from somf.errors import ParameterError
from somf.estimators.config import Device, check_params
from somf.estimators.problems import SparsePCA
from somf.integrations.nilearn.initial_maps import initial_maps
from somf.integrations.nilearn.preparation import (
    check_grids,
    checked_confounds,
    fitted_masker,
    prepared_runs,
)
from somf.integrations.nilearn.projection import Projection, project
from somf.integrations.nilearn.runs import library, open_runs
from somf.training.callbacks import Callback
from somf.training.checkpoint import Checkpoint
from somf.typing import Array, History

VOXEL_MAPS = 2
"""Maps that a voxel belongs to, on average, where the density of maps is not given."""

MOST_DENSITY = 0.5
"""The density of maps, where it is not given, is at most this."""

MASKER_SETTINGS = (
    "smoothing_fwhm",
    "standardize",
    "standardize_confounds",
    "detrend",
    "low_pass",
    "high_pass",
    "t_r",
    "target_affine",
    "target_shape",
    "mask_strategy",
    "mask_args",
)
"""The parameters of the estimator that are those of a masker, too."""


class BrainFactorization(BaseEstimator):
    """Sparse maps of brain images, learned from volumes that are streamed from scratch files.

    Every scan of every run is a sample, every voxel of the mask a feature. Maps are sparse and time
    series dense: the setting of the paper, and of `somf.SparsePCA`, which does the work. Runs are
    smoothed, masked and cleaned once, a few volumes at a time, and written as float32 to a scratch
    file if they are larger than 256 MiB. Parameters and attributes have the names that they have in
    `nilearn.decomposition.DictLearning`.

    Parameters
    ----------
    n_components : int, default=20
        Number of maps.
    mask : image, path, NiftiMasker or MultiNiftiMasker, optional
        Where the brain is. By default the mask is computed from the mean volumes of all runs. The
        parameters of a masker replace those from `smoothing_fwhm` to `mask_args`, which must then
        be left at their defaults.
    smoothing_fwhm : float or "fast", default=4
        Width of the Gaussian kernel, in millimetres, that volumes are smoothed with; None for none.
    standardize : {"zscore_sample", "psc", None}, default="zscore_sample"
        How the time series of a voxel is scaled in each run: to unit variance, to per cent of its
        mean, or not at all. True and False stand for the first and the last.
    standardize_confounds : bool, default=True
        Whether confounds are scaled to unit variance before they are removed.
    detrend : bool, default=True
        Whether linear trends are removed.
    low_pass, high_pass : float, optional
        Frequencies in Hertz above, and below, which signals are removed; both need `t_r`.
    t_r : float, optional
        Seconds between two scans.
    target_affine, target_shape : array-like, optional
        The grid that images are resampled to. By default all must have the grid of the mask.
    mask_strategy : str, default="epi"
        How a mask is computed; see `nilearn.maskers.MultiNiftiMasker`.
    mask_args : dict, optional
        More parameters for the computation of a mask.
    alpha : float or "auto", default="auto"
        Weight λ of the penalty on codes of `somf.SparsePCA`. The larger it is, the sparser are the
        maps; the scale of the data does not matter. With ``"auto"`` it is found before the fit, on
        a part of the scans, so that maps have the density `map_density`.
    map_density : float or "auto", default="auto"
        The fraction of voxels that a map shall have on average, where `alpha` is ``"auto"``.
        ``"auto"`` is ``2 / n_components``, but not more than a half: a voxel then belongs to two
        maps on average.
    dict_init : image or path, optional
        Initial maps, a 4-D image with the grid of the mask. By default these are principal
        components of up to 500 scans, rotated by varimax, or scans that are drawn at random if
        there are fewer than two scans for every map.
    reduction, learning_rate, batch_size, n_epochs, tol : optional
        Those of `somf.SparsePCA`.
    device : {"cpu", "cuda"}, default="cpu"
        Where maps are learned.
    n_threads : int, optional
        Threads that compute; by default the cores that the process may use.
    callbacks, checkpoint : optional
        Those of `somf.SparsePCA`. A fit that resumes from a checkpoint masks the images again.
    verbose : int, default=0
        1 shows a progress bar. Runs are always logged to the logger ``somf``.
    random_state : int, RandomState or None, default=None
        The same seed gives the same maps.

    Attributes
    ----------
    components_img_ : Nifti1Image
        The maps, a 4-D image. Each has unit norm, more positive than negative voxels, and those
        that explain most variance come first.
    components_ : ndarray of shape (n_components, n_voxels)
        The maps inside the mask.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The fraction of the variance of the runs of the fit that each map explains alone.
    masker_ : MultiNiftiMasker or NiftiMasker
        Masks, smooths and cleans images like the fit, and makes images of rows.
    mask_img_ : Nifti1Image
        The mask.
    model_ : SparsePCA
        The fitted model, with its atoms in the ℓ1 ball.
    alpha_ : float
        λ of the fit.
    history_ : dict of lists
        That of `model_`.
    n_iter_ : int
        Number of iterations.

    Examples
    --------
    >>> from somf.integrations.nilearn import BrainFactorization
    >>> maps = BrainFactorization(20, smoothing_fwhm=6, t_r=2.0, high_pass=0.01, random_state=0)
    >>> maps.fit(["sub-01_bold.nii.gz", "sub-02_bold.nii.gz"])  # doctest: +SKIP
    >>> maps.components_img_.to_filename("maps.nii.gz")  # doctest: +SKIP
    >>> series = maps.transform("sub-03_bold.nii.gz")[0]  # doctest: +SKIP
    """

    components_: Array
    history_: History

    def __init__(
        self,
        n_components: int = 20,
        *,
        mask: Any = None,
        smoothing_fwhm: Any = 4,
        standardize: Any = "zscore_sample",
        standardize_confounds: bool = True,
        detrend: bool = True,
        low_pass: float | None = None,
        high_pass: float | None = None,
        t_r: float | None = None,
        target_affine: Any = None,
        target_shape: Any = None,
        mask_strategy: str = "epi",
        mask_args: dict[str, Any] | None = None,
        alpha: float | Literal["auto"] = "auto",
        map_density: float | Literal["auto"] = "auto",
        dict_init: Any = None,
        reduction: float | Literal["auto"] = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        n_epochs: int = 100,
        tol: float = 1e-4,
        device: Device = "cpu",
        n_threads: int | None = None,
        callbacks: Iterable[Callback] | Callback = (),
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.mask = mask
        self.smoothing_fwhm = smoothing_fwhm
        self.standardize = standardize
        self.standardize_confounds = standardize_confounds
        self.detrend = detrend
        self.low_pass = low_pass
        self.high_pass = high_pass
        self.t_r = t_r
        self.target_affine = target_affine
        self.target_shape = target_shape
        self.mask_strategy = mask_strategy
        self.mask_args = mask_args
        self.alpha = alpha
        self.map_density = map_density
        self.dict_init = dict_init
        self.reduction = reduction
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.tol = tol
        self.device = device
        self.n_threads = n_threads
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, imgs: Any, y: Any = None, confounds: Any = None) -> Self:  # noqa: ARG002 (scikit-learn)
        """Learn the maps of some runs.

        Parameters
        ----------
        imgs : image, path, pattern of paths, or list of images and paths
            Runs, each of them a 4-D image. They may differ in the number of scans. Files are read a
            few volumes at a time, ``.nii.gz`` once (twice if the mask is computed).
        y : None
            Ignored.
        confounds : list, optional
            For each run an array of shape (n_scans, n_confounds), a data frame, the path of a CSV
            file, a list of these, or None. For a single run they need not be in a list.

        Returns
        -------
        self : object
        """
        model = self._model()
        check_params(vars(model))
        runs = open_runs(imgs)
        own_confounds = checked_confounds(confounds, runs)
        masker = fitted_masker(self.mask, self._masker_settings(), runs)
        given = None if self.dict_init is None else self._given_maps(masker)
        rows = prepared_runs(masker, runs, own_confounds, self.verbose)
        maps = initial_maps(rows, self.n_components) if given is None else given
        model.init = "samples" if maps is None else maps
        model.fit(rows)
        self._adopt(masker, model, rows)
        return self

    def fit_transform(self, imgs: Any, y: Any = None, confounds: Any = None) -> list[Array]:  # noqa: ARG002
        """Learn the maps of some runs, and return their time series; see `fit` and `transform`.

        Parameters
        ----------
        imgs, confounds
            See `fit`.
        y : None
            Ignored.

        Returns
        -------
        series : list of ndarray of shape (n_scans, n_components)
        """
        return self.fit(imgs, confounds=confounds).transform(imgs, confounds)

    def transform(self, imgs: Any, confounds: Any = None) -> list[Array]:
        """Return the time series of the maps in some runs.

        Runs are smoothed, masked and cleaned as for `fit`. The series of all maps of a run are
        found together, by least squares.

        Parameters
        ----------
        imgs, confounds
            See `fit`.

        Returns
        -------
        series : list of ndarray of shape (n_scans, n_components)
            One for every run, also if there is only one.
        """
        return [found.time_series for found in self._projections(imgs, confounds)]

    def inverse_transform(self, loadings: Any) -> list[Any]:
        """Return the images that time series stand for.

        Parameters
        ----------
        loadings : list of array-like of shape (n_scans, n_components)
            Time series, one for every run. A single array is a list of one.

        Returns
        -------
        images : list of Nifti1Image
            4-D images, on the scale of cleaned data.
        """
        check_is_fitted(self)
        images = []
        given = [loadings] if isinstance(loadings, np.ndarray) else loadings
        for series in map(np.asarray, given):
            if series.ndim != 2 or series.shape[1] != len(self.components_):
                rule = f"be arrays of shape (n_scans, {len(self.components_)})"
                raise ParameterError("loadings", rule, series, got=f"shape {series.shape}")
            rows = series.astype(np.float32) @ self.components_
            images.append(library("nilearn.masking").unmask(rows, self.mask_img_))
        return images

    def score(
        self,
        imgs: Any,
        y: Any = None,  # noqa: ARG002 (scikit-learn)
        confounds: Any = None,
        per_component: bool = False,
    ) -> Any:
        """Return the fraction of the variance of some runs that the maps explain.

        Parameters
        ----------
        imgs, confounds
            See `fit`.
        y : None
            Ignored.
        per_component : bool, default=False
            Whether to return what every map explains alone, rather than all of them together.

        Returns
        -------
        explained : float or ndarray of shape (n_components,)
            1 − ‖X − A D‖² / ‖X‖², where X are all cleaned runs, D the maps, and A their time series
            by least squares.
        """
        check_is_fitted(self)
        energy, explained = 0.0, np.zeros(len(self.components_) if per_component else ())
        for found in self._projections(imgs, confounds):
            energy += found.energy
            explained += found.explained_alone if per_component else found.explained_energy
        ratio = explained / energy if energy > 0 else np.zeros_like(explained)
        return ratio if per_component else float(ratio)

    def _model(self) -> SparsePCA:
        """Return the estimator that learns the maps."""
        return SparsePCA(
            self.n_components,
            alpha=self.alpha,
            atom_density=self._density(),
            reduction=self.reduction,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            tol=self.tol,
            device=self.device,
            n_threads=self.n_threads,
            callbacks=self.callbacks,
            checkpoint=self.checkpoint,
            verbose=self.verbose,
            random_state=self.random_state,
        )

    def _density(self) -> float:
        """Return the density of maps that is wanted, after a check."""
        wanted = self.map_density
        if isinstance(wanted, str) and wanted == "auto":
            k = self.n_components if isinstance(self.n_components, Integral) else 1
            return min(MOST_DENSITY, VOXEL_MAPS / max(k, 1))
        if not isinstance(wanted, Real) or not 0 < wanted < 1:
            raise ParameterError("map_density", "be strictly between 0 and 1, or 'auto'", wanted)
        return float(wanted)

    def _masker_settings(self) -> dict[str, Any]:
        """Return what a masker has to know, after a check that it is not said twice."""
        defaults = type(self)().get_params()
        settings = {name: getattr(self, name) for name in MASKER_SETTINGS}
        if isinstance(self.mask, library("nilearn.maskers").NiftiMasker):
            for name, value in settings.items():
                if not np.array_equal(value, defaults[name]):
                    hint = f"Set {name} of the masker."
                    rule = "be left at its default where mask is a masker"
                    raise ParameterError(name, rule, value, hint)
        if isinstance(self.standardize, bool):  # nilearn is about to refuse True and False
            settings["standardize"] = "zscore_sample" if self.standardize else None
        return settings

    def _given_maps(self, masker: Any) -> Array:
        maps = library("nilearn.masking").apply_mask(self.dict_init, masker.mask_img_)
        if maps.ndim != 2 or len(maps) != self.n_components:
            rule = f"be a 4-D image of n_components ({self.n_components}) maps"
            raise ParameterError("dict_init", rule, self.dict_init, got=f"{len(maps)} maps")
        norms = np.abs(maps).sum(axis=1, keepdims=True)
        return np.asarray(maps / np.where(norms > 0, norms, 1), np.float32)

    def _adopt(self, masker: Any, model: SparsePCA, rows: Array) -> None:
        """Take over what was learned: maps of unit norm, in the order of the variance explained."""
        norms = np.linalg.norm(model.components_, axis=1, keepdims=True)
        maps = model.components_ / np.where(norms > 0, norms, 1).astype(np.float32)
        maps *= np.where((maps > 0).sum(1) < (maps < 0).sum(1), -1, 1).astype(np.float32)[:, None]
        found = project(rows, maps)
        explained = found.explained_alone / max(found.energy, np.finfo(np.float64).tiny)
        order = np.argsort(-explained, kind="stable")
        self.masker_, self.mask_img_, self.model_ = masker, masker.mask_img_, model
        self.components_ = maps[order]
        self.explained_variance_ratio_ = explained[order]
        self.components_img_ = library("nilearn.masking").unmask(self.components_, self.mask_img_)
        self.alpha_, self.history_, self.n_iter_ = model.alpha_, model.history_, model.n_iter_

    def _projections(self, imgs: Any, confounds: Any) -> Iterator[Projection]:
        """Give every run on the maps; one run is held at a time."""
        check_is_fitted(self)
        runs = open_runs(imgs)
        own_confounds = checked_confounds(confounds, runs)
        check_grids(self.masker_, runs)
        for run, own in zip(runs, own_confounds, strict=True):
            rows = prepared_runs(self.masker_, [run], [own], self.verbose)
            yield project(rows, self.components_)
